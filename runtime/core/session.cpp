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
  std::vector<Whole> arguments, results;
  using Index = std::map<std::pair<std::string, std::string>, int>;
  Index argumentIndex, resultIndex;
  std::vector<uint32_t> inputs;
  Trace trace;
  int64_t steps = 0;
  Status broken;

  Status index();
  int64_t nextStep() const;
  void scatter(uint32_t argument, const void *value);
  template <typename Entry>
  void gather(const Entry &entry, const BufferRef &ref, void *value) const;
  void sumTerms(const SliceLayout &layout, const BufferRef &ref, int64_t rank,
                Bytes &sum) const;
};

namespace {
std::string nameOf(const char *kind, const Whole &whole) {
  return concat(kind, " '", whole.role, "/", whole.name, "'");
}

/// Whether there is such an argument or result, and `value` is of its type.
template <typename View>
Status check(const char *kind, const std::vector<Whole> &wholes, uint32_t index,
             const View &value) {
  if (index >= wholes.size())
    return errorOf(kind, " is ", index, ", expected less than ", wholes.size());
  const Whole &whole = wholes[index];
  if (!value.data && numElements(whole.shape) != 0)
    return errorOf(nameOf(kind, whole), " has no data");
  if (value.type == whole.type && value.shape == whole.shape)
    return Status::success();
  return errorOf(nameOf(kind, whole), " is ", typeName(value.type, value.shape),
                 ", expected ", typeName(whole.type, whole.shape));
}

BufferRef argumentRef(const Argument &argument, uint32_t index) {
  return {Space::Argument, index, 0,
          numElements(argument.localShape) * elementBytes(argument.type)};
}
} // namespace

Status Session::Impl::index() {
  Expected<std::vector<Whole>> wholes = wholeArguments(program);
  if (!wholes.ok())
    return wholes.status();
  arguments = std::move(*wholes);
  wholes = wholeResults(program);
  if (!wholes.ok())
    return wholes.status();
  results = std::move(*wholes);
  for (size_t i = 0; i < arguments.size(); ++i) {
    argumentIndex[{arguments[i].role, arguments[i].name}] = int(i);
    if (arguments[i].role == "input")
      inputs.push_back(uint32_t(i));
  }
  for (size_t i = 0; i < results.size(); ++i)
    resultIndex[{results[i].role, results[i].name}] = int(i);
  return Status::success();
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
  if (Status status = impl->index(); !status.ok())
    return status;
  auto session = std::unique_ptr<Session>(new Session(std::move(impl)));
  if (options.trace)
    session->startTrace();
  return session;
}

const Program &Session::program() const { return impl->program; }
const std::vector<Whole> &Session::arguments() const { return impl->arguments; }
const std::vector<Whole> &Session::results() const { return impl->results; }
const std::vector<uint32_t> &Session::inputs() const { return impl->inputs; }
const Trace &Session::trace() const { return impl->trace; }

int Session::findArgument(std::string_view role, std::string_view name) const {
  auto it = impl->argumentIndex.find({std::string(role), std::string(name)});
  return it == impl->argumentIndex.end() ? -1 : it->second;
}

int Session::findResult(std::string_view role, std::string_view name) const {
  auto it = impl->resultIndex.find({std::string(role), std::string(name)});
  return it == impl->resultIndex.end() ? -1 : it->second;
}

void Session::Impl::scatter(uint32_t index, const void *value) {
  const Argument &argument = program.arguments[index];
  SliceLayout layout{program, argument.form, argument.globalShape,
                     argument.type};
  for (int64_t rank = 0; rank < program.numRanks(); ++rank)
    scatterTo(layout, rank, value,
              executor->hostPointer(rank, argumentRef(argument, index)));
}

namespace {
/// Room for a part, contiguous.
template <typename Entry> Bytes roomFor(const Entry &entry) {
  return Bytes(
      size_t(numElements(entry.globalShape) * elementBytes(entry.type)));
}
} // namespace

Status Session::setArgument(uint32_t index, const TensorView &value) {
  Status status = check("argument", impl->arguments, index, value);
  if (!status.ok())
    return status;
  for (uint32_t member : impl->arguments[index].members) {
    const Argument &argument = impl->program.arguments[member];
    if (!argument.part) {
      impl->scatter(member, value.data);
      continue;
    }
    Bytes part = roomFor(argument);
    copyPart(*argument.part, argument.globalShape, argument.type, value.data,
             part.data());
    impl->scatter(member, part.data());
  }
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
void Session::Impl::gather(const Entry &entry, const BufferRef &ref,
                           void *value) const {
  Bytes part;
  if (entry.part)
    part = roomFor(entry);
  void *target = entry.part ? part.data() : value;
  SliceLayout layout{program, entry.form, entry.globalShape, entry.type};
  Bytes sum;
  for (int64_t rank : owners(program, entry.form)) {
    const void *local = executor->hostPointer(rank, ref);
    if (!entry.form.reduce.empty()) {
      sumTerms(layout, ref, rank, sum);
      local = sum.data();
    }
    gatherFrom(layout, rank, local, target);
  }
  if (entry.part)
    copyIntoWhole(*entry.part, entry.globalShape, entry.type, target, value);
}

Status Session::getArgument(uint32_t index,
                            const MutableTensorView &value) const {
  Status status = check("argument", impl->arguments, index, value);
  for (uint32_t member :
       status.ok() ? impl->arguments[index].members : std::vector<uint32_t>()) {
    const Argument &argument = impl->program.arguments[member];
    impl->gather(argument, argumentRef(argument, member), value.data);
  }
  return status;
}

Status Session::getResult(uint32_t index,
                          const MutableTensorView &value) const {
  Status status = check("result", impl->results, index, value);
  for (uint32_t member :
       status.ok() ? impl->results[index].members : std::vector<uint32_t>()) {
    const Result &result = impl->program.results[member];
    impl->gather(result, result.place, value.data);
  }
  return status;
}

namespace {
template <typename Read>
Expected<Tensor> readWhole(const std::vector<Whole> &wholes, const char *kind,
                           uint32_t index, Read read) {
  if (index >= wholes.size())
    return errorOf(kind, " is ", index, ", expected less than ", wholes.size());
  Tensor tensor(wholes[index].type, wholes[index].shape);
  if (Status status = read(tensor.mutableView()); !status.ok())
    return status;
  return tensor;
}
} // namespace

Expected<Tensor> Session::getArgument(uint32_t index) const {
  return readWhole(impl->arguments, "argument", index,
                   [&](const MutableTensorView &value) {
                     return getArgument(index, value);
                   });
}

Expected<Tensor> Session::getResult(uint32_t index) const {
  return readWhole(
      impl->results, "result", index,
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
