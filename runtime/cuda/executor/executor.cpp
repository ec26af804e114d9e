//===- executor.cpp - ranks as streams ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/executor/executor.h"
#include "core/numbers.h"
#include "core/text.h"
#include "core/verdict.h"
#include "cuda/driver/callers.h"
#include "cuda/executor/enqueue.h"
#include "cuda/executor/graph.h"
#include "cuda/executor/listing.h"
#include "cuda/libraries/algorithms.h"
#include "tandem_rt/recorder.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace tandem::rt::cuda {

namespace {
constexpr const char *kWaitVariable = "TANDEM_CUDA_WAIT";

class CudaExecutor final : public Executor {
public:
  CudaExecutor(const ExecutorContext &context, std::shared_ptr<Gpu> gpu)
      : context(context), program(context.program), fabric(context.fabric),
        gpu(std::move(gpu)) {}
  ~CudaExecutor() override;

  Status prepare();
  Status step(int64_t number) override;
  std::set<uint32_t> writtenArguments() const override;
  std::string notice() const override;
  int64_t memoryBytes() const override;
  void setTrace(Trace *target) override { trace = target; }

private:
  Status checkProgram() const;
  Status prepareHere();
  Status prepareRank(size_t place);
  Status prepareListings();
  bool isAlone() const {
    return int64_t(context.ranks.size()) == program.numRanks();
  }
  const RankProgram &programOf(int64_t rank) const {
    return program.rankPrograms[program.rankToProgram[size_t(rank)]];
  }

  Status run();
  Status enqueueAlone(StreamTimes *times);
  Status enqueue(StreamTimes *times);
  Status launchGraph();
  bool hasGraph() const;
  Status wait(CUstream stream);
  bool waitsForEach() const;
  Status lookBehind(const Rank &rank, const Entry &entry);
  bool looksAtValues() const {
    return context.options.checksNumbers || context.options.recorder;
  }
  NumberCheck::Fetch fetchFrom(const Rank &rank);
  Status beginCheck(const Rank &rank, const Entry &entry);
  void joinTaint(const Entry &entry);
  Status findRefusal() const;
  Status findReport() const;
  Status fail(const Status &status);
  Status recover();
  static bool isBlamed(const Status &status);
  /// Where an error of a command comes from.
  Status blame(const Rank &rank, const Entry &entry,
               const Status &status) const;

  const ExecutorContext context;
  const Program &program;
  const std::shared_ptr<Fabric> fabric;
  const std::shared_ptr<Gpu> gpu;
  std::vector<std::unique_ptr<Code>> code;
  std::vector<std::unique_ptr<Rank>> ranks;
  StatusBoard board;
  /// Where ranks are of several processes.
  std::unique_ptr<Peers> peers;
  std::unique_ptr<Enqueuer> enqueuer;
  Algorithms algorithms;
  /// The step, once it was captured; of a session that connects anew another.
  Graph graph;
  PlainCounts plain;
  std::map<int64_t, NumberCheck> numbers; ///< By rank.
  int64_t stepNumber = 0;
  bool hasFailed = false;
  /// Whether the GPU's words on the step are here.
  bool isKnown = false;
  Trace *trace = nullptr;
};

CudaExecutor::~CudaExecutor() {
  // What streams still do uses the memory that goes next.
  Present present(*gpu);
  if (peers)
    peers->abort();
  if (present.ok())
    gpu->driver.contextSynchronize();
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

Status CudaExecutor::checkProgram() const {
  for (const MemorySpace &space : program.memorySpaces)
    if (Status status = checkMemorySpace(space); !status.ok())
      return status;
  if (context.options.times)
    return errorOf("commands with given times, which device 'cuda' does not "
                   "have, expected device 'cpu'");
  std::vector<std::string> missing =
      missingCpuFeatures(program.target.features);
  if (!missing.empty())
    return errorOf("code of the emulated GPU needs CPU features that this "
                   "machine lacks, such as ",
                   missing.front());
  return Status::success();
}

/// Their streams come first, so that what a transfer waits for is the piece of
/// a sum that runs, and no other one.
std::set<uint32_t> transferQueuesOf(const RankProgram &program) {
  std::set<uint32_t> queues;
  for (const Command *command : program.listing())
    if (std::holds_alternative<Transfer>(command->operation))
      queues.insert(command->queue);
  return queues;
}

Status CudaExecutor::prepareRank(size_t place) {
  Expected<RankMemory> memory = RankMemory::allocate(context, place, gpu);
  if (!memory.ok())
    return memory.status();
  int64_t number = context.ranks[place];
  ranks.push_back(
      std::make_unique<Rank>(number, programOf(number), std::move(*memory)));
  Rank &rank = *ranks.back();
  size_t numStreams = context.options.oneQueue ? 1 : program.queues.size();
  std::set<uint32_t> first = transferQueuesOf(rank.program);
  for (uint32_t i = 0; i < numStreams; ++i) {
    Expected<Stream> stream =
        Stream::create(gpu, numStreams > 1 && first.contains(i));
    if (!stream.ok())
      return stream.status();
    rank.streams.push_back(std::move(*stream));
  }
  rank.workspaces.resize(numStreams);
  auto addEvents = [&](std::vector<Event> &events, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Expected<Event> event = Event::create(gpu);
      if (!event.ok())
        return event.status();
      events.push_back(std::move(*event));
    }
    return Status::success();
  };
  Status status = addEvents(rank.events, rank.program.numEvents);
  if (status.ok())
    status = addEvents(rank.ready, program.queues.size());
  return status.ok() ? addEvents(rank.done, program.queues.size()) : status;
}

Status CudaExecutor::prepareHere() {
  Status status = checkProgram();
  if (!status.ok())
    return status;
  for (const CodeObject &object : program.codeObjects) {
    auto loaded = Code::load(gpu, object, program.target);
    if (!loaded.ok())
      return loaded.status();
    code.push_back(std::move(*loaded));
  }
  for (size_t place = 0; place < context.ranks.size(); ++place)
    if (status = prepareRank(place); !status.ok())
      return status;
  auto made = StatusBoard::create(gpu, ranks.size(), numChecks(program));
  if (!made.ok())
    return made.status();
  board = std::move(*made);
  if (!isAlone()) {
    auto others = Peers::create(context, gpu);
    if (!others.ok())
      return others.status();
    peers = std::move(*others);
  }
  return algorithms.choose(gpu, ranks, context.options.isCancelled);
}

Status CudaExecutor::prepareListings() {
  enqueuer = std::make_unique<Enqueuer>(
      gpu, board, ranks, peers ? peers->getTurns() : std::vector<Turn>());
  Status status = enqueuer->prepare();
  return status.ok() ? makeListings({context, gpu, code, board, peers.get(),
                                     plain, algorithms},
                                    ranks)
                     : status;
}

/// Nobody waits for a process that could not come so far.
Status CudaExecutor::prepare() {
  Present present(*gpu);
  Status status = present.ok() ? prepareHere() : present.status();
  if (isAlone())
    return status.ok() ? prepareListings() : status;
  status = fabric->conclude("GPU", status);
  if (!status.ok())
    return status;
  status = algorithms.agree(*fabric, program.numRanks());
  if (status.ok())
    status = peers->meet();
  if (status.ok())
    status = peers->reserve();
  if (status.ok())
    status = prepareListings();
  status = fabric->conclude("GPU", status);
  return status.ok() ? peers->connect() : status;
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

/// What another process has told names its own place.
bool CudaExecutor::isBlamed(const Status &status) {
  return status.isRefusal() || status.message().starts_with("step ");
}

Status CudaExecutor::blame(const Rank &rank, const Entry &entry,
                           const Status &status) const {
  if (status.message().starts_with("step "))
    return status;
  // A refused value is the same on all ranks.
  std::string where = status.isRefusal() ? "" : concat(", rank ", rank.number);
  return Status::error(concat("step ", stepNumber, where, ", ",
                              commandText(*entry.command), ": ",
                              status.message()),
                       status.kind());
}

Status CudaExecutor::enqueueAlone(StreamTimes *times) {
  Status status = gpu->getCallers().comeBefore(enqueuer->origin());
  return status.ok() ? enqueue(times) : status;
}

Status CudaExecutor::enqueue(StreamTimes *times) {
  if (peers)
    peers->beginStep();
  Enqueuer::Hooks hooks{
      [this](const Rank &rank, const Entry &entry, const Status &status) {
        return blame(rank, entry, status);
      },
      times};
  if (waitsForEach())
    hooks.settle = [this](CUstream stream) { return wait(stream); };
  if (context.options.checksNumbers) {
    hooks.before = [this](const Rank &rank, const Entry &entry) {
      return beginCheck(rank, entry);
    };
    hooks.join = [this](const Entry &entry) { joinTaint(entry); };
  }
  if (looksAtValues())
    hooks.behind = [this](const Rank &rank, const Entry &entry) {
      return lookBehind(rank, entry);
    };
  return enqueuer->enqueueStep(hooks);
}

/// Times of commands are taken in streams, and a graph of a long Repeat would
/// be larger than it is worth.
bool CudaExecutor::hasGraph() const {
  constexpr int64_t kMaxCommands = 1 << 16;
  int64_t commands = 0;
  for (const std::unique_ptr<Rank> &rank : ranks)
    for (const Entry &entry : rank->entries)
      commands += entry.count;
  return context.options.graph && !trace && !waitsForEach() &&
         commands <= kMaxCommands;
}

Status CudaExecutor::launchGraph() {
  if (graph.isEmpty()) {
    Expected<Graph> made = Graph::capture(gpu, enqueuer->origin(),
                                          [this] { return enqueue(nullptr); });
    if (!made.ok())
      return made.status();
    graph = std::move(*made);
  }
  for (std::unique_ptr<Rank> &rank : ranks)
    rank->begun.assign(rank->entries.size(), true);
  Status status = gpu->getCallers().comeBefore(enqueuer->origin());
  return status.ok() ? graph.launch(enqueuer->origin()) : status;
}

/// A sum with members in other processes has operands that are not known here.
Status CudaExecutor::beginCheck(const Rank &rank, const Entry &entry) {
  NumberCheck &check = numbers[rank.number];
  Status status = check.begin(program, *entry.command, fetchFrom(rank));
  const std::vector<uint32_t> &axes = groupAxes(entry.command->operation);
  if (sumsOverRanks(*entry.command) &&
      program.group(axes, rank.number).size() > entry.together.size())
    check.taint();
  return status;
}

Status CudaExecutor::lookBehind(const Rank &rank, const Entry &entry) {
  const ExecutorOptions &options = context.options;
  Status status;
  if (options.checksNumbers)
    status = numbers[rank.number].end(fetchFrom(rank));
  if (status.ok() && options.recorder)
    status = options.recorder->add(program, *entry.command, rank.number,
                                   rank.iteration, fetchFrom(rank));
  return status;
}

/// What a member gives that is not finite is no fault of the sum.
void CudaExecutor::joinTaint(const Entry &entry) {
  bool isTainted = false;
  for (size_t place : entry.together)
    isTainted |= numbers[ranks[place]->number].hasTaint();
  for (size_t place : entry.together)
    if (isTainted)
      numbers[ranks[place]->number].taint();
}

NumberCheck::Fetch CudaExecutor::fetchFrom(const Rank &rank) {
  return [this, &rank](const BufferRef &ref, char *to) {
    return gpu->check(
        gpu->driver.memcpyDtoH(to, rank.memory.address(ref).at(rank.iteration),
                               size_t(ref.bytes)),
        "read what a command has");
  };
}

/// Asked for by a variable, to find the command that does what it may not.
bool CudaExecutor::waitsForEach() const {
  if (looksAtValues())
    return true;
  const char *text = std::getenv(kWaitVariable);
  return text && *text && *text != '0';
}

Status CudaExecutor::wait(CUstream stream) {
  if (!peers)
    return gpu->check(gpu->driver.streamSynchronize(stream),
                      "run the step's kernels");
  Peers::Waited waited = peers->wait(stream);
  if (waited.status.ok() || !waited.command)
    return waited.status;
  const Rank &rank = *ranks[waited.command->place];
  return blame(rank, rank.entries[waited.command->entry], waited.status);
}

/// The first report of the rank with the lowest number.
Status CudaExecutor::findReport() const {
  for (size_t place = 0; place < ranks.size(); ++place) {
    const tandem_rt_launch_report &report = board.foundReport(place);
    if (report.launch == 0)
      continue;
    const std::vector<Entry> &entries = ranks[place]->entries;
    uint64_t number = uint64_t(std::abs(report.launch)) - 1;
    const Launch *launch =
        number < entries.size()
            ? std::get_if<Launch>(&entries[number].command->operation)
            : nullptr;
    if (!launch)
      return errorOf("internal error: the GPU reports launch ", report.launch);
    const Entry &entry = entries[number];
    const Launch &op = *launch;
    return blame(*ranks[place], entry,
                 errorOf(siteText(op, uint64_t(report.site)), "index ",
                         report.index, " is out of range, expected 0 to ",
                         report.bound - 1));
  }
  return Status::success();
}

/// Of the first check that refused, by the rank with the lowest number.
Status CudaExecutor::findRefusal() const {
  for (size_t place = 0; place < ranks.size(); ++place) {
    const Rank &rank = *ranks[place];
    std::span<const int64_t> verdicts = board.foundVerdicts(place);
    for (size_t i = 0; i < rank.checks.size(); ++i) {
      const Entry &entry = rank.entries[rank.checks[i]];
      const auto &op = std::get<Check>(entry.command->operation);
      if (Status status = describe(op, Verdict(verdicts[i])); !status.ok())
        return blame(rank, entry, status);
    }
  }
  return Status::success();
}

Status CudaExecutor::run() {
  StreamTimes times(gpu);
  Status status;
  if (trace)
    status = times.begin(enqueuer->origin());
  if (status.ok())
    status =
        hasGraph() ? launchGraph() : enqueueAlone(trace ? &times : nullptr);
  // The one wait of a step.
  if (status.ok())
    status = wait(enqueuer->origin());
  if (!status.ok())
    return isBlamed(status)
               ? status
               : errorOf("step ", stepNumber, ", rank ", ranks.front()->number,
                         ": ", status.message(), "; with ", kWaitVariable,
                         "=1 the error names the command");
  isKnown = true;
  if (trace)
    status = times.collect(stepNumber, *trace);
  if (status.ok())
    status = findReport();
  return status.ok() ? findRefusal() : status;
}

/// All processes find the same reason, and so begin anew with the others or do
/// not.
Status CudaExecutor::fail(const Status &status) {
  hasFailed = true;
  if (peers && !status.isRefusal())
    peers->abort();
  gpu->driver.contextSynchronize(); // nothing of it runs into what follows
  return status;
}

Status CudaExecutor::recover() {
  if (hasFailed || fabric->isReasonKnown()) {
    hasFailed = false;
    if (Status status = fabric->recover(); !status.ok())
      return status;
  }
  if (Status status = fabric->reason(); !status.ok())
    return fail(status);
  if (!peers || peers->isConnected())
    return Status::success();
  graph = {};
  return peers->connect();
}

Status CudaExecutor::step(int64_t number) {
  stepNumber = number;
  isKnown = false;
  for (std::unique_ptr<Rank> &rank : ranks)
    rank->begun.assign(rank->entries.size(), false);
  Present present(*gpu);
  Status status = present.ok() ? recover() : present.status();
  if (!status.ok())
    return status;
  status = run();
  if (!status.ok()) {
    fabric->abort(fail(status));
  }
  // What ended the step may be of another process.
  Status reason = fabric->reason();
  return reason.ok() ? reason : fail(reason);
}

/// A rank whose step was refused has written nothing.
std::set<uint32_t> CudaExecutor::writtenArguments() const {
  std::set<uint32_t> written;
  for (size_t place = 0; place < ranks.size(); ++place) {
    const Rank &rank = *ranks[place];
    if (isKnown && board.foundReport(place).refused)
      continue;
    for (size_t i = 0; i < rank.entries.size(); ++i)
      if (rank.begun[i])
        written.insert(rank.entries[i].writes.begin(),
                       rank.entries[i].writes.end());
  }
  return written;
}

int64_t CudaExecutor::memoryBytes() const {
  Present present(*gpu);
  size_t free = 0, total = 0;
  bool isKnown =
      present.ok() && gpu->driver.memGetInfo(&free, &total) == kSuccess;
  return isKnown ? int64_t(total) : 0;
}

std::string CudaExecutor::notice() const {
  std::string text;
  auto add = [&](int64_t count, const char *what) {
    if (count)
      text += concat(text.empty() ? "" : ", ", count, what);
  };
  add(plain.products, " products (their strides are not cuBLASLt's)");
  add(plain.functions,
      " functions or sums beside products (cuBLASLt has them not)");
  add(plain.attentions,
      " calls of attention (of float64, or of rows above 128 elements)");
  add(plain.convolutions, " convolutions");
  return text.empty() ? text : text + " run by plain kernels, which are slow";
}
} // namespace

Expected<std::unique_ptr<Executor>>
createExecutor(const ExecutorContext &context, std::shared_ptr<Gpu> gpu) {
  auto executor = std::make_unique<CudaExecutor>(context, std::move(gpu));
  if (Status status = executor->prepare(); !status.ok())
    return status;
  return std::unique_ptr<Executor>(std::move(executor));
}

} // namespace tandem::rt::cuda
