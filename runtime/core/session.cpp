//===- session.cpp - runs a Program ---------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/session.h"
#include "core/bootstrap.h"
#include "core/hash.h"
#include "core/text.h"
#include "core/value_store.h"

#include <cstring>
#include <numeric>

namespace tandem::rt {

Tensor::Tensor(ElementType type, Shape shape)
    : type(type), shape(std::move(shape)),
      data(size_t(numElements(this->shape) * elementBytes(type))) {}

struct Session::Impl {
  Program program;
  std::shared_ptr<ValueStore> store;
  std::vector<Whole> arguments, results;
  using Index = std::map<std::pair<std::string, std::string>, int>;
  Index argumentIndex, resultIndex;
  std::vector<uint32_t> inputs;
  /// By argument and result of the Program.
  std::vector<RankBuffers> argumentBuffers, resultBuffers;
  Trace trace;
  int64_t steps = 0;
  // Refers to all of the above, and so must go first.
  std::unique_ptr<Executor> executor;

  Status index();
  Status allocate(const Place &place);
  Status prepare(const Job &job, int threads, const std::string &hash);
  const RankBuffers &buffersOf(uint32_t result) const;
  Expected<int64_t> nextStep() const;
  Status set(uint32_t index, const TensorView &value,
             std::optional<int64_t> root);
  template <typename Entry>
  Status get(const Entry &entry, const RankBuffers &buffers, void *value,
             std::optional<int64_t> root) const;
  void damage(const Status &failure);
  Status step();
  ValueStore::Impl &values() const { return store->getImpl(); }
};

namespace {
std::string nameOf(const char *kind, const Whole &whole) {
  return concat(kind, " '", whole.role, "/", whole.name, "'");
}

/// The right to use the values of a store.
class Use {
public:
  explicit Use(ValueStore::Impl &values) : lock(values.use, std::try_to_lock) {}
  Status status() const {
    return lock ? Status::success()
                : errorOf("values are in use by another thread, expected one "
                          "call at a time of all sessions of a store");
  }

private:
  std::unique_lock<std::mutex> lock;
};

/// Does this process have, or get, the whole?
bool isHere(const Place &place, std::optional<int64_t> root) {
  return !root || place.find(*root);
}

/// Whether there is such an argument or result, `value` is of its type, and
/// `root` a rank.
template <typename View>
Status check(const Place &place, const char *kind,
             const std::vector<Whole> &wholes, uint32_t index,
             const View &value, std::optional<int64_t> root) {
  if (root && (*root < 0 || *root >= place.job.worldSize))
    return errorOf("root is rank ", *root, ", expected one below ",
                   place.job.worldSize);
  if (index >= wholes.size())
    return errorOf(kind, " is ", index, ", expected less than ", wholes.size());
  const Whole &whole = wholes[index];
  if (isHere(place, root) && !value.data && numElements(whole.shape) != 0)
    return errorOf(nameOf(kind, whole), " has no data");
  if (value.type == whole.type && value.shape == whole.shape)
    return Status::success();
  return errorOf(nameOf(kind, whole), " is ", typeName(value.type, value.shape),
                 ", expected ", typeName(whole.type, whole.shape));
}

template <typename Entry> int64_t localBytes(const Entry &entry) {
  return numElements(entry.localShape) * elementBytes(entry.type);
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
Expected<int64_t> Session::Impl::nextStep() const {
  for (uint32_t i = 0; i < program.arguments.size(); ++i) {
    const Argument &argument = program.arguments[i];
    char data[sizeof(int64_t)] = {};
    if (argument.role != "step" || numElements(argument.localShape) != 1)
      continue;
    Status status = argumentBuffers[i].front()->copyOut(
        0, data, size_t(elementBytes(argument.type)));
    if (!status.ok())
      return status;
    if (std::optional<int64_t> done = readStep(argument, data))
      return *done + 1;
  }
  return steps + 1;
}

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::~Session() = default;

/// What is the session's own: the other arguments, and results.
Status Session::Impl::allocate(const Place &place) {
  for (uint32_t i = 0; i < program.arguments.size(); ++i) {
    const Argument &argument = program.arguments[i];
    if (isStored(argument.role))
      continue;
    auto made = allocateForRanks(place, program, argument.memorySpace,
                                 localBytes(argument));
    if (!made.ok())
      return made.status();
    argumentBuffers[i] = std::move(*made);
  }
  for (uint32_t i = 0; i < program.results.size(); ++i) {
    const Result &result = program.results[i];
    if (result.place.space != Space::Result)
      continue;
    auto made = allocateForRanks(place, program, result.memorySpace,
                                 localBytes(result));
    if (!made.ok())
      return made.status();
    resultBuffers[i] = std::move(*made);
  }
  return Status::success();
}

/// The store changes only when all has gone well.
Status Session::Impl::prepare(const Job &job, int threads,
                              const std::string &hash) {
  Use use(values());
  if (Status status = use.status(); !status.ok())
    return status;
  Expected<Place> place = values().settle(program, job);
  if (!place.ok())
    return place.status();
  if (Status status = place->fabric->agree("program", hash); !status.ok())
    return status;
  argumentBuffers.resize(program.arguments.size());
  resultBuffers.resize(program.results.size());
  ValueStore::Impl::Entries fresh;
  if (Status status =
          values().bind(program, arguments, *place, argumentBuffers, fresh);
      !status.ok())
    return status;
  if (Status status = allocate(*place); !status.ok())
    return status;
  auto made = place->device->createExecutor({program,
                                             place->job.ranks,
                                             argumentBuffers,
                                             resultBuffers,
                                             place->fabric,
                                             {threads}});
  if (!made.ok())
    return made.status();
  executor = std::move(*made);
  values().adopt(program, *place, std::move(fresh));
  return Status::success();
}

namespace {
/// Of a job whose processes were started by a launcher: neighbouring ranks,
/// alike many for each process.
Expected<Job> jobOfProcess(const Job &given, int64_t ranks) {
  Expected<Rendezvous> rendezvous = rendezvousFromEnvironment();
  if (!rendezvous.ok())
    return rendezvous.status();
  int64_t processes = rendezvous->worldSize;
  if (processes == 1 || !given.ranks.empty())
    return given;
  if (ranks % processes)
    return errorOf("program has ", ranks, " ranks, expected a multiple of the ",
                   processes, " processes of the job");
  Job job{ranks, std::vector<int64_t>(size_t(ranks / processes)), "gloo"};
  std::iota(job.ranks.begin(), job.ranks.end(),
            rendezvous->rank * (ranks / processes));
  return job;
}
} // namespace

Expected<std::unique_ptr<Session>>
Session::create(std::span<const uint8_t> bytes, const SessionOptions &options) {
  Expected<Program> program = loadProgram(bytes);
  if (!program.ok())
    return program.status();
  Expected<Job> job = jobOfProcess(options.job, program->numRanks());
  if (!job.ok())
    return job.status();
  auto impl = std::make_unique<Impl>();
  impl->program = std::move(*program);
  impl->store = options.store ? options.store : std::make_shared<ValueStore>();
  if (Status status = impl->index(); !status.ok())
    return status;
  std::string hash = hashText(contentHash(bytes));
  if (Status status = impl->prepare(*job, options.threads, hash); !status.ok())
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

namespace {
/// Room for a part, contiguous.
template <typename Entry> Bytes roomFor(const Entry &entry) {
  return Bytes(
      size_t(numElements(entry.globalShape) * elementBytes(entry.type)));
}
} // namespace

Status Session::Impl::set(uint32_t index, const TensorView &value,
                          std::optional<int64_t> root) {
  ValueStore::Impl &store = values();
  Status status = check(store.place, "argument", arguments, index, value, root);
  if (!status.ok())
    return status;
  for (uint32_t member : arguments[index].members) {
    const Argument &argument = program.arguments[member];
    SliceLayout layout{program, argument.form, argument.globalShape,
                       argument.type};
    const void *whole = value.data;
    Bytes part;
    if (argument.part && isHere(store.place, root)) {
      part = roomFor(argument);
      copyPart(*argument.part, argument.globalShape, argument.type, value.data,
               part.data());
      whole = part.data();
    }
    status = scatter(store.place, layout, argumentBuffers[member], whole, root);
    if (!status.ok())
      return status;
  }
  std::lock_guard lock(store.listing);
  store.damaged.erase({arguments[index].role, arguments[index].name});
  return Status::success();
}

Status Session::setArgument(uint32_t index, const TensorView &value,
                            std::optional<int64_t> root) {
  Use use(impl->values());
  Status status = use.status();
  return status.ok() ? impl->set(index, value, root) : status;
}

template <typename Entry>
Status Session::Impl::get(const Entry &entry, const RankBuffers &buffers,
                          void *value, std::optional<int64_t> root) const {
  const Place &place = values().place;
  Bytes part;
  bool isPart = entry.part && isHere(place, root);
  if (isPart)
    part = roomFor(entry);
  void *target = isPart ? part.data() : value;
  SliceLayout layout{program, entry.form, entry.globalShape, entry.type};
  if (Status status = gather(place, layout, buffers, target, root);
      !status.ok())
    return status;
  if (isPart)
    copyIntoWhole(*entry.part, entry.globalShape, entry.type, target, value);
  return Status::success();
}

/// A result that updates an argument lies in its buffers.
const RankBuffers &Session::Impl::buffersOf(uint32_t result) const {
  const BufferRef &place = program.results[result].place;
  return place.space == Space::Argument ? argumentBuffers[place.index]
                                        : resultBuffers[result];
}

Status Session::getArgument(uint32_t index, const MutableTensorView &value,
                            std::optional<int64_t> root) const {
  Use use(impl->values());
  Status status = use.status();
  if (status.ok())
    status = check(impl->values().place, "argument", impl->arguments, index,
                   value, root);
  if (!status.ok())
    return status;
  for (uint32_t member : impl->arguments[index].members) {
    status = impl->get(impl->program.arguments[member],
                       impl->argumentBuffers[member], value.data, root);
    if (!status.ok())
      return status;
  }
  return status;
}

Status Session::getResult(uint32_t index, const MutableTensorView &value,
                          std::optional<int64_t> root) const {
  Use use(impl->values());
  Status status = use.status();
  if (status.ok())
    status = check(impl->values().place, "result", impl->results, index, value,
                   root);
  if (!status.ok())
    return status;
  for (uint32_t member : impl->results[index].members) {
    status = impl->get(impl->program.results[member], impl->buffersOf(member),
                       value.data, root);
    if (!status.ok())
      return status;
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
  store.cause = failure.message();
}

Status Session::Impl::step() {
  if (Status status = values().checkUndamaged(); !status.ok())
    return status;
  Expected<int64_t> number = nextStep();
  if (!number.ok())
    return number.status();
  Status status = executor->step(*number);
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

void Session::startTrace() {
  impl->trace.events.clear();
  impl->executor->setTrace(&impl->trace);
}

void Session::stopTrace() { impl->executor->setTrace(nullptr); }

} // namespace tandem::rt
