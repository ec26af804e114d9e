//===- session.cpp - runs a Program ---------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/session.h"
#include "core/bootstrap.h"
#include "core/executor.h"
#include "core/reduce.h"
#include "core/slices.h"
#include "core/text.h"

#include <cstring>
#include <map>

namespace tandem::rt {

Tensor::Tensor(ElementType type, Shape shape)
    : type(type), shape(std::move(shape)),
      data(size_t(numElements(this->shape) * elementBytes(type))) {}

struct Session::Impl {
  // The executor refers to the program, and so must go first.
  Program program;
  std::unique_ptr<Executor> executor;
  using Index = std::map<std::pair<std::string, std::string>, int>;
  Index arguments, results;
  std::vector<uint32_t> inputs;
  Trace trace;
  int64_t steps = 0;
  Status broken;

  void index();
  int64_t nextStep() const;
  template <typename Entry>
  Status gather(const Entry &entry, const BufferRef &ref,
                const MutableTensorView &value) const;
  void sumTerms(const SliceLayout &layout, const BufferRef &ref, int64_t rank,
                Bytes &sum) const;
};

namespace {
template <typename Entry>
std::string nameOf(const char *kind, const Entry &entry) {
  return concat(kind, " '", entry.role, "/", entry.name, "'");
}

template <typename Entry, typename View>
Status checkType(const char *kind, const Entry &entry, const View &value) {
  if (!value.data && numElements(entry.globalShape) != 0)
    return errorOf(nameOf(kind, entry), " has no data");
  if (value.type == entry.type && value.shape == entry.globalShape)
    return Status::success();
  return errorOf(nameOf(kind, entry), " is ", typeName(value.type, value.shape),
                 ", expected ", typeName(entry.type, entry.globalShape));
}

BufferRef argumentRef(const Argument &argument, uint32_t index) {
  return {Space::Argument, index, 0,
          numElements(argument.localShape) * elementBytes(argument.type)};
}
} // namespace

void Session::Impl::index() {
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const Argument &argument = program.arguments[i];
    arguments[{argument.role, argument.name}] = int(i);
    if (argument.role == "input")
      inputs.push_back(uint32_t(i));
  }
  for (size_t i = 0; i < program.results.size(); ++i)
    results[{program.results[i].role, program.results[i].name}] = int(i);
}

namespace {
/// The one element of a scalar, as far as it is a number of steps.
std::optional<int64_t> readStep(const Argument &argument, const void *data) {
  auto load = [&](auto value) {
    std::memcpy(&value, data, sizeof value);
    return int64_t(value);
  };
  if (numElements(argument.localShape) != 1)
    return std::nullopt;
  switch (argument.type) {
  case ElementType::I64:
    return load(int64_t());
  case ElementType::I32:
    return load(int32_t());
  case ElementType::F64:
    return load(double());
  case ElementType::F32:
    return load(float());
  default:
    return std::nullopt;
  }
}
} // namespace

/// Counted from 1; a Program that counts its steps goes on from there when
/// training was resumed.
int64_t Session::Impl::nextStep() const {
  for (uint32_t i = 0; i < program.arguments.size(); ++i) {
    const Argument &argument = program.arguments[i];
    if (argument.role != "step")
      continue;
    const void *data = executor->hostPointer(0, argumentRef(argument, i));
    if (std::optional<int64_t> done = readStep(argument, data))
      return *done + 1;
  }
  return steps + 1;
}

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::~Session() = default;

Expected<std::unique_ptr<Session>>
Session::create(std::span<const uint8_t> bytes, const SessionOptions &options) {
  Expected<Rendezvous> rendezvous = rendezvousFromEnvironment();
  if (!rendezvous.ok())
    return rendezvous.status();
  if (rendezvous->worldSize > 1)
    return errorOf("job has ", rendezvous->worldSize,
                   " processes, but this build runs all ranks in one");
  Expected<Program> program = loadProgram(bytes);
  if (!program.ok())
    return program.status();
  auto impl = std::make_unique<Impl>();
  impl->program = std::move(*program);
  auto executor =
      createCpuExecutor(impl->program, {options.threads}, createLocalFabric());
  if (!executor.ok())
    return executor.status();
  impl->executor = std::move(*executor);
  impl->index();
  auto session = std::unique_ptr<Session>(new Session(std::move(impl)));
  if (options.trace)
    session->startTrace();
  return session;
}

const Program &Session::program() const { return impl->program; }
const std::vector<uint32_t> &Session::inputs() const { return impl->inputs; }
const Trace &Session::trace() const { return impl->trace; }

int Session::findArgument(std::string_view role, std::string_view name) const {
  auto it = impl->arguments.find({std::string(role), std::string(name)});
  return it == impl->arguments.end() ? -1 : it->second;
}

int Session::findResult(std::string_view role, std::string_view name) const {
  auto it = impl->results.find({std::string(role), std::string(name)});
  return it == impl->results.end() ? -1 : it->second;
}

Status Session::setArgument(uint32_t index, const TensorView &value) {
  if (index >= impl->program.arguments.size())
    return errorOf("argument is ", index, ", expected less than ",
                   impl->program.arguments.size());
  const Argument &argument = impl->program.arguments[index];
  if (Status status = checkType("argument", argument, value); !status.ok())
    return status;
  SliceLayout layout{impl->program, argument.form, argument.globalShape,
                     argument.type};
  for (int64_t rank = 0; rank < impl->program.numRanks(); ++rank)
    scatterTo(layout, rank, value.data,
              impl->executor->hostPointer(rank, argumentRef(argument, index)));
  return Status::success();
}

/// Adds the terms of all points of the `reduce` axes, in their order.
void Session::Impl::sumTerms(const SliceLayout &layout, const BufferRef &ref,
                             int64_t rank, Bytes &sum) const {
  std::vector<const char *> terms;
  for (int64_t member : program.group(layout.form.reduce, rank))
    terms.push_back(
        static_cast<const char *>(executor->hostPointer(member, ref)));
  sum.resize(size_t(ref.bytes));
  char *destination = reinterpret_cast<char *>(sum.data());
  sumInOrder(layout.type, ref.bytes / elementBytes(layout.type), terms,
             std::span(&destination, 1));
}

template <typename Entry>
Status Session::Impl::gather(const Entry &entry, const BufferRef &ref,
                             const MutableTensorView &value) const {
  SliceLayout layout{program, entry.form, entry.globalShape, entry.type};
  Bytes sum;
  for (int64_t rank : owners(program, entry.form)) {
    const void *local = executor->hostPointer(rank, ref);
    if (!entry.form.reduce.empty()) {
      sumTerms(layout, ref, rank, sum);
      local = sum.data();
    }
    gatherFrom(layout, rank, local, value.data);
  }
  return Status::success();
}

Status Session::getArgument(uint32_t index,
                            const MutableTensorView &value) const {
  if (index >= impl->program.arguments.size())
    return errorOf("argument is ", index, ", expected less than ",
                   impl->program.arguments.size());
  const Argument &argument = impl->program.arguments[index];
  if (Status status = checkType("argument", argument, value); !status.ok())
    return status;
  return impl->gather(argument, argumentRef(argument, index), value);
}

Status Session::getResult(uint32_t index,
                          const MutableTensorView &value) const {
  if (index >= impl->program.results.size())
    return errorOf("result is ", index, ", expected less than ",
                   impl->program.results.size());
  const Result &result = impl->program.results[index];
  if (Status status = checkType("result", result, value); !status.ok())
    return status;
  return impl->gather(result, result.place, value);
}

namespace {
template <typename Entries, typename Read>
Expected<Tensor> readWhole(const Entries &entries, const char *kind,
                           uint32_t index, Read read) {
  if (index >= entries.size())
    return errorOf(kind, " is ", index, ", expected less than ",
                   entries.size());
  Tensor tensor(entries[index].type, entries[index].globalShape);
  if (Status status = read(tensor.mutableView()); !status.ok())
    return status;
  return tensor;
}
} // namespace

Expected<Tensor> Session::getArgument(uint32_t index) const {
  return readWhole(impl->program.arguments, "argument", index,
                   [&](const MutableTensorView &value) {
                     return getArgument(index, value);
                   });
}

Expected<Tensor> Session::getResult(uint32_t index) const {
  return readWhole(
      impl->program.results, "result", index,
      [&](const MutableTensorView &value) { return getResult(index, value); });
}

Status Session::step(std::span<const TensorView> values) {
  if (values.size() != impl->inputs.size())
    return errorOf("step got ", values.size(), " inputs, expected ",
                   impl->inputs.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (Status status = setArgument(impl->inputs[i], values[i]); !status.ok())
      return status;
  return step();
}

Status Session::step() {
  if (!impl->broken.ok())
    return errorOf("session ended with an earlier error: ",
                   impl->broken.message());
  StepReport report = impl->executor->step(impl->nextStep());
  if (report.outcome == StepOutcome::Failed)
    impl->broken = report.status;
  if (report.outcome == StepOutcome::Done)
    ++impl->steps;
  return report.status;
}

void Session::startTrace() {
  impl->trace.events.clear();
  impl->executor->setTrace(&impl->trace);
}

void Session::stopTrace() { impl->executor->setTrace(nullptr); }

} // namespace tandem::rt
