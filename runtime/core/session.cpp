//===- session.cpp - runs a Program ---------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/numbers.h"
#include "core/session_impl.h"
#include "tandem_rt/pinned.h"
#include "tandem_rt/simulate.h"

#include <algorithm>
#include <cstring>

namespace tandem::rt {

Tensor::Tensor(ElementType type, Shape shape)
    : type(type), shape(std::move(shape)),
      data(size_t(numElements(this->shape) * elementBytes(type))) {}

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
Expected<int64_t> Session::Impl::nextStep() const {
  if (isTimed) // nothing counts them
    return steps + 1;
  for (uint32_t i = 0; i < program.arguments.size(); ++i) {
    const Argument &argument = program.arguments[i];
    char data[sizeof(int64_t)] = {};
    const RankBuffers &buffers = argumentBuffers[i];
    auto own = std::ranges::find_if(
        buffers, [](const auto &buffer) { return buffer != nullptr; });
    if (argument.role != "step" || numElements(argument.localShape) != 1 ||
        own == buffers.end())
      continue;
    Status status =
        (*own)->copyOut(0, data, size_t(elementBytes(argument.type)));
    if (!status.ok())
      return status;
    if (std::optional<int64_t> done = readStep(argument, data))
      return *done + 1;
  }
  return steps + 1;
}

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::~Session() = default;

/// By all ranks here: for values that are not in the store yet, for what is the
/// session's own, and for what its executor holds.
int64_t Session::Impl::bytesToAllocate(const Place &place) const {
  int64_t bytes = 0;
  // What is pinned takes of the host's memory, which may be the device's.
  auto counts = [&](uint32_t space) {
    return program.memorySpaces[0].kind == MemoryKind::Host ||
           !isPinned(program, space);
  };
  for (int64_t rank : place.job.ranks) {
    bytes += heldBytes(program, rank);
    if (program.memorySpaces[0].kind == MemoryKind::Host)
      bytes += pinnedBytes(program, rank);
    for (const Whole &whole : arguments)
      if (values().entries.contains({whole.role, whole.name}))
        for (uint32_t member : whole.members)
          if (const Argument &stored = program.arguments[member];
              counts(stored.memorySpace) && holds(program, stored.form, rank))
            bytes -= localBytes(stored);
  }
  return bytes;
}

/// What is the session's own: the other arguments, and results.
Status Session::Impl::allocate(const Place &place) {
  for (uint32_t i = 0; i < program.arguments.size(); ++i) {
    const Argument &argument = program.arguments[i];
    if (isStored(argument.role))
      continue;
    auto made = allocateForRanks(place, program, argument.form,
                                 argument.memorySpace, localBytes(argument));
    if (!made.ok())
      return made.status();
    argumentBuffers[i] = std::move(*made);
  }
  for (uint32_t i = 0; i < program.results.size(); ++i) {
    const Result &result = program.results[i];
    if (result.place.space != Space::Result)
      continue;
    auto made = allocateForRanks(place, program, result.form,
                                 result.memorySpace, localBytes(result));
    if (!made.ok())
      return made.status();
    resultBuffers[i] = std::move(*made);
  }
  return Status::success();
}

/// Buffers. `fresh` are the store's new ones.
Status Session::Impl::reserve(const Place &place, const SessionOptions &options,
                              ValueStore::Impl::Entries &fresh) try {
  if (isTimed)
    if (Status status = checkTimes(program, hash, *options.times); !status.ok())
      return status;
  if (Status status = place.device->checkRoom(bytesToAllocate(place));
      !status.ok())
    return status;
  argumentBuffers.resize(program.arguments.size());
  resultBuffers.resize(program.results.size());
  if (Status status =
          values().bind(program, arguments, place, argumentBuffers, fresh);
      !status.ok())
    return status;
  return allocate(place);
} catch (const std::bad_alloc &) {
  return Status::error("out of memory");
}

/// What runs on them.
Status Session::Impl::make(const Place &place,
                           const SessionOptions &options) try {
  auto made = place.device->createExecutor(
      {program,
       place.job.ranks,
       argumentBuffers,
       resultBuffers,
       place.fabric,
       {options.threads, options.times, options.oneQueue, options.graph,
        options.isCancelled, options.checksNumbers, options.recorder}});
  if (made.ok())
    executor = std::move(*made);
  return made.status();
} catch (const std::bad_alloc &) {
  return Status::error("out of memory");
}

/// The store changes only when all has gone well, in all processes. Executors
/// of several processes meet while they are made.
Status Session::Impl::prepare(const Job &job, const SessionOptions &options) {
  isTimed = options.times != nullptr;
  Use use(values());
  if (Status status = use.status(); !status.ok())
    return status;
  Expected<Place> place = values().settle(program, job);
  if (!place.ok())
    return place.status();
  ValueStore::Impl::Entries fresh;
  Status status = place->fabric->agree("program", hash);
  // A check of numbers asks all members of a sum.
  if (status.ok())
    status = place->fabric->agree("check of numbers (TANDEM_CHECK or --check)",
                                  options.checksNumbers ? "nan" : "none");
  if (status.ok())
    status = place->fabric->conclude("memory", reserve(*place, options, fresh));
  if (status.ok())
    status = place->fabric->conclude("session", make(*place, options));
  if (status.ok())
    values().adopt(program, *place, std::move(fresh));
  return status;
}

Expected<std::unique_ptr<Session>>
Session::create(std::span<const uint8_t> bytes, const SessionOptions &given) {
  Expected<bool> checksNumbers = isNumberCheckAsked();
  if (!checksNumbers.ok())
    return checksNumbers.status();
  SessionOptions options = given;
  options.checksNumbers |= *checksNumbers;
  if ((options.checksNumbers || options.recorder) && options.times)
    return errorOf(options.recorder ? "values of operators"
                                    : "a check of numbers",
                   " beside given times, expected one of the two: nothing is "
                   "computed");
  Expected<Program> program = loadProgram(bytes);
  if (!program.ok())
    return program.status();
  if (program->target.device == kSimulatedDevice)
    return errorOf("the Program is for the device ", kSimulatedDevice,
                   " and has no kernels, expected tandem-run --device ",
                   kSimulatedDevice, ", or a Program for another device");
  if (options.times && options.store)
    return errorOf("times and a store of others, expected one of the two: "
                   "steps whose commands sleep leave no values");
  Expected<Job> job = jobOfProcess(options.job, program->numRanks());
  if (!job.ok())
    return job.status();
  auto impl = std::make_unique<Impl>();
  impl->program = std::move(*program);
  impl->store = options.store ? options.store : std::make_shared<ValueStore>();
  if (Status status = impl->index(); !status.ok())
    return status;
  impl->hash = programHash(bytes);
  if (Status status = impl->prepare(*job, options); !status.ok())
    return status;
  auto session = std::unique_ptr<Session>(new Session(std::move(impl)));
  if (options.trace)
    session->startTrace();
  return session;
}

const Program &Session::program() const { return impl->program; }
const std::shared_ptr<ValueStore> &Session::store() const {
  return impl->store;
}
const Job &Session::job() const { return impl->values().place.job; }
std::string Session::notice() const { return impl->executor->notice(); }
int64_t Session::memoryBytes() const { return impl->executor->memoryBytes(); }
const std::vector<Whole> &Session::arguments() const { return impl->arguments; }
const std::vector<Whole> &Session::results() const { return impl->results; }
const std::vector<uint32_t> &Session::inputs() const { return impl->inputs; }
const std::string &Session::hash() const { return impl->hash; }
int64_t Session::bytesSent() const {
  return impl->values().place.fabric->bytesSent();
}

int Session::findArgument(std::string_view role, std::string_view name) const {
  auto it = impl->argumentIndex.find({std::string(role), std::string(name)});
  return it == impl->argumentIndex.end() ? -1 : it->second;
}

int Session::findResult(std::string_view role, std::string_view name) const {
  auto it = impl->resultIndex.find({std::string(role), std::string(name)});
  return it == impl->resultIndex.end() ? -1 : it->second;
}

/// What the step may have begun to write. Of ranks in other processes nothing
/// is known.
void Session::Impl::damage(const Status &failure) {
  ValueStore::Impl &store = values();
  std::set<uint32_t> written = executor->writtenArguments();
  std::lock_guard lock(store.listing);
  for (const Whole &whole : arguments)
    for (uint32_t member : whole.members) {
      const Argument &argument = program.arguments[member];
      bool unknown = !store.place.hasAll() && argument.updatedBy >= 0;
      if (isStored(whole.role) && (unknown || written.contains(member)))
        store.damaged.insert({whole.role, whole.name});
    }
  store.cause =
      concat("half updated by a step that failed (", failure.message(), ")");
}

Status Session::Impl::step() {
  if (Status status = values().checkUndamaged(); !status.ok())
    return status;
  Expected<int64_t> number = nextStep();
  if (!number.ok())
    return number.status();
  Fabric &fabric = *values().place.fabric;
  fabric.setStepping(true);
  Status status = executor->step(*number);
  fabric.setStepping(false);
  if (status.ok())
    ++steps;
  else if (!status.isRefusal())
    damage(status);
  return status;
}

Status Session::step(std::span<const TensorView> given) {
  Use use(impl->values());
  if (Status status = use.status(); !status.ok())
    return status;
  if (given.size() != impl->inputs.size())
    return errorOf("step got ", given.size(), " inputs, expected ",
                   impl->inputs.size());
  for (size_t i = 0; i < given.size(); ++i)
    if (Status status = impl->set(impl->inputs[i], given[i], {}); !status.ok())
      return status;
  return impl->step();
}

Status Session::step() {
  Use use(impl->values());
  Status status = use.status();
  return status.ok() ? impl->step() : status;
}

} // namespace tandem::rt
