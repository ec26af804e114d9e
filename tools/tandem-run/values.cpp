//===- values.cpp - sources of arguments and batches ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "values.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <set>

namespace tandem::run {

using namespace tandem::rt;

std::string keyOf(const Whole &argument) {
  return argument.role + "/" + argument.name;
}

std::string batchKey(int64_t batch, const Whole &input) {
  return "batch." + std::to_string(batch) + "/" + input.name;
}

bool isFirst(const Session &session) {
  return session.job().ranks.front() == 0;
}

namespace {
bool isStored(const std::string &name) {
  return name.starts_with("parameter/") || name.starts_with("buffer/") ||
         name.starts_with("state/");
}

/// Batches have numbers without a gap.
Status checkNumbers(const SafetensorsFile &file, int64_t batches) {
  for (const auto &[name, view] : file.tensors())
    if (name.starts_with("batch.") &&
        std::strtoll(name.c_str() + strlen("batch."), nullptr, 10) >= batches)
      return Status::error("data has a tensor '" + name +
                           "', but none of batch " + std::to_string(batches) +
                           ", expected batches numbered from 0 without a gap");
  return Status::success();
}
} // namespace

void printUnused(const Session &session, const SafetensorsFile &file) {
  std::set<std::string> known;
  for (const Whole &argument : session.arguments())
    known.insert(keyOf(argument));
  std::string unused;
  for (const auto &[name, view] : file.tensors())
    if (isStored(name) && !known.contains(name))
      unused += (unused.empty() ? "'" : ", '") + name + "'";
  if (!unused.empty())
    std::fprintf(stderr, "tandem-run: note: the program does not use %s\n",
                 unused.c_str());
}

Expected<int64_t> countBatches(const Session &session,
                               const SafetensorsFile &file) {
  int64_t batches = 0;
  for (bool complete = true; complete; batches += complete) {
    const Whole *missing = nullptr;
    bool any = false;
    for (const Whole &argument : session.arguments())
      if (argument.role == "input") {
        bool found = file.find(batchKey(batches, argument)) != nullptr;
        any |= found;
        if (!found)
          missing = &argument;
      }
    if (missing && any)
      return Status::error("data has no tensor '" +
                           batchKey(batches, *missing) +
                           "', expected every input in every batch");
    complete = any;
  }
  if (Status status = checkNumbers(file, batches); !status.ok())
    return status;
  return batches;
}

namespace {
/// A rate that is no number would ruin every parameter before a loss shows it.
Status checkRate(const Whole &argument, const TensorView &value) {
  bool isFinite = true;
  if (value.type == ElementType::F64)
    isFinite = std::isfinite(*static_cast<const double *>(value.data));
  else if (value.type == ElementType::F32)
    isFinite = std::isfinite(*static_cast<const float *>(value.data));
  if (isFinite)
    return Status::success();
  return Status::error("data has '" + keyOf(argument) +
                       "' that is no number, expected a finite learning rate");
}

Status setFrom(Session &session, const SafetensorsFile &file, uint32_t index,
               const std::string &key) {
  const TensorView *view = file.find(key);
  if (!view)
    return Status::error("data has no tensor '" + key +
                         "', which the program needs");
  Status status = session.setArgument(index, *view);
  const Whole &argument = session.arguments()[index];
  if (status.ok() && argument.role == "learning_rate")
    status = checkRate(argument, *view);
  Status there = file.check();
  return there.ok() ? status : there;
}
} // namespace

Status setFromFile(Session &session, const SafetensorsFile &file) {
  const std::vector<Whole> &arguments = session.arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].role == "input")
      continue;
    Status status = setFrom(session, file, i, keyOf(arguments[i]));
    if (!status.ok())
      return status;
  }
  return Status::success();
}

Status setBatch(Session &session, const SafetensorsFile &file, int64_t batch) {
  for (uint32_t index : session.inputs()) {
    const Whole &input = session.arguments()[index];
    Status status = setFrom(session, file, index, batchKey(batch, input));
    if (!status.ok())
      return status;
  }
  return Status::success();
}

namespace {
/// SplitMix64.
class Generator {
public:
  explicit Generator(const std::string &name) {
    for (char c : name)
      state = (state ^ uint8_t(c)) * 0x100000001b3ull;
  }
  uint64_t next() {
    uint64_t x = state += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  /// In [0, 1).
  double uniform() { return double(next() >> 11) * 0x1p-53; }

private:
  uint64_t state = 0xcbf29ce484222325ull;
};

std::pair<double, double> rangeOf(const Whole &argument) {
  constexpr double kParameter = 0.05, kLearningRate = 1e-3;
  if (argument.role == "step")
    return {0, 0};
  if (argument.range)
    return *argument.range;
  if (argument.role == "parameter")
    return {-kParameter, kParameter};
  if (argument.role == "learning_rate")
    return {kLearningRate, kLearningRate};
  if (argument.role == "input" && isFloat(argument.type))
    return {-1, 1};
  return {0, 0};
}

template <typename T> void store(T value, int64_t index, Bytes &data) {
  std::memcpy(data.data() + size_t(index) * sizeof(T), &value, sizeof(T));
}

void storeElement(ElementType type, double value, int64_t index, Bytes &data) {
  switch (type) {
  case ElementType::F64:
    return store(value, index, data);
  case ElementType::F32:
    return store(float(value), index, data);
  case ElementType::BF16:
    return store(floatToBf16(float(value)), index, data);
  case ElementType::I64:
    return store(int64_t(value), index, data);
  case ElementType::I32:
    return store(int32_t(value), index, data);
  case ElementType::I8:
    return store(int8_t(value), index, data);
  case ElementType::I1:
    return store(uint8_t(value != 0), index, data);
  case ElementType::F16:
    return; // no kernel computes with it; zero
  }
}

Tensor seededTensor(const Whole &argument) {
  Tensor tensor(argument.type, argument.shape);
  Generator generator(keyOf(argument));
  auto [low, high] = rangeOf(argument);
  bool whole = !isFloat(argument.type);
  for (int64_t i = 0, n = numElements(argument.shape); i < n; ++i) {
    double u = generator.uniform();
    double value =
        whole ? std::floor(low + u * (high - low + 1)) : low + u * (high - low);
    storeElement(argument.type, value, i, tensor.data);
  }
  return tensor;
}
} // namespace

Status setSeeded(Session &session) {
  const std::vector<Whole> &arguments = session.arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    Status status = session.setArgument(i, seededTensor(arguments[i]).view());
    if (!status.ok())
      return status;
  }
  return Status::success();
}

Status saveValues(const Session &session, const SafetensorsFile *file,
                  const std::string &path) {
  std::list<Tensor> owned;
  std::map<std::string, TensorView> tensors;
  const std::vector<Whole> &arguments = session.arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].role == "input")
      continue;
    Tensor whole;
    if (isFirst(session))
      whole = Tensor(arguments[i].type, arguments[i].shape);
    MutableTensorView view{arguments[i].type, arguments[i].shape,
                           whole.data.data()};
    if (Status status = session.getArgument(i, view, 0); !status.ok())
      return status;
    owned.push_back(std::move(whole));
    tensors[keyOf(arguments[i])] = owned.back().view();
  }
  if (!isFirst(session))
    return Status::success();
  if (file)
    for (const auto &[name, view] : file->tensors())
      if (name.rfind("batch.", 0) == 0)
        tensors[name] = view;
  return writeSafetensors(path, tensors, {}, [&] {
    return file ? file->check() : Status::success();
  });
}

} // namespace tandem::run
