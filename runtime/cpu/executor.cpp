//===- executor.cpp - ranks as threads ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/executor.h"
#include "core/access.h"
#include "core/text.h"
#include "cpu/bf16.h"
#include "cpu/queues.h"

#include <atomic>
#include <chrono>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace tandem::rt {

namespace {
using cpu::EventBoard;
using cpu::LoadedCode;
using cpu::QueueEntry;
using cpu::QueueState;
using cpu::RankMemory;
using cpu::Segment;

struct Rank {
  Rank(int64_t number, RankMemory memory, size_t numEvents, bool keepsTimes)
      : number(number), memory(std::move(memory)),
        events(numEvents, keepsTimes) {}

  const int64_t number;
  std::optional<cpu_set_t> cpus = {};
  RankMemory memory;
  EventBoard events;
  /// Of the compute queue.
  std::unique_ptr<cpu::Crew> crew;
  std::vector<QueueState> queues;
};

/// A queue of a rank, which has a thread.
struct Worker {
  Rank &rank;
  QueueState &queue;
};

class CpuExecutor final : public Executor {
public:
  explicit CpuExecutor(const ExecutorContext &context)
      : context(context), program(context.program), fabric(context.fabric) {}
  ~CpuExecutor() override;

  Status prepare();
  Status step(int64_t number) override;
  std::set<uint32_t> writtenArguments() const override;
  std::string notice() const override { return cpu::noticeOfBf16(program); }
  int64_t memoryBytes() const override {
    return int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  }
  void setTrace(Trace *target) override { trace = target; }

private:
  Status checkTarget() const;
  Status checkMemorySpaces() const;
  Status chooseWays();
  Status prepareRank(size_t place);
  Status startThreads();
  void threadMain(const Worker &worker);
  /// What a thread of its own would not survive the caller does not either: the
  /// other queues are at work.
  void runQueue(Rank &rank, QueueState &queue) noexcept;
  bool runSegment(Rank &rank, QueueState &queue, const Segment &segment);
  bool runEntry(Rank &rank, QueueState &queue, const QueueEntry &entry,
                int64_t iteration);
  void fail(const Rank &rank, const QueueEntry &entry, const Status &status);
  Status resetAfterError();
  Status checkOthers();
  void runWorkers();
  void collectTimeline();
  /// As TraceEvent has it.
  static int64_t now() {
    return std::chrono::nanoseconds(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  const ExecutorContext context;
  const Program &program;
  const std::shared_ptr<Fabric> fabric;
  std::vector<std::unique_ptr<LoadedCode>> code;
  cpu::ProductWays ways;
  cpu::RightOfWay rightOfWay;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<Worker> workers;
  std::vector<std::thread> threads; ///< Of all workers but the first.
  Trace *trace = nullptr;

  /// Starts steps and waits for their end.
  std::mutex mutex;
  std::condition_variable wake, done;
  uint64_t generation = 0;
  size_t running = 0;
  bool shutdown = false;
  int64_t stepNumber = 0;

  /// The first error of a step; `stopped` ends the queues of all ranks.
  std::atomic<bool> stopped = false;
  std::mutex reportMutex;
  Status report;
};

Status CpuExecutor::checkTarget() const {
  std::vector<std::string> missing =
      missingCpuFeatures(program.target.features);
  if (missing.empty())
    return Status::success();
  std::string names;
  for (const std::string &name : missing)
    names += (names.empty() ? "" : ", ") + name;
  return errorOf("program needs CPU features that this machine lacks: ", names);
}

Status CpuExecutor::checkMemorySpaces() const {
  for (const MemorySpace &space : program.memorySpaces)
    if (Status status = cpu::checkMemorySpace(space); !status.ok())
      return status;
  return Status::success();
}

Status CpuExecutor::prepareRank(size_t place) {
  Expected<RankMemory> memory = RankMemory::allocate(context, place);
  if (!memory.ok())
    return memory.status();
  int64_t number = context.ranks[place];
  uint32_t programNumber = program.rankToProgram[size_t(number)];
  const RankProgram &rankProgram = program.rankPrograms[programNumber];
  const ExecutorOptions &options = context.options;
  ranks.push_back(std::make_unique<Rank>(number, std::move(*memory),
                                         rankProgram.numEvents,
                                         options.times != nullptr));
  Rank &rank = *ranks.back();
  auto cpus = cpu::cpusOf(place, context.ranks.size());
  if (!cpus.ok())
    return cpus.status();
  rank.cpus = *cpus;
  if (options.threads > 1 && !options.times)
    rank.crew = std::make_unique<cpu::Crew>(options.threads, rank.cpus);
  cpu::TaskContext from{program,
                        number,
                        rank.memory,
                        code,
                        *fabric,
                        rank.events,
                        rightOfWay,
                        options.threads,
                        &ways,
                        rank.crew.get(),
                        options.times == nullptr,
                        options.checksNumbers,
                        options.recorder.get()};
  cpu::QueuePlan plan{options.oneQueue,
                      options.times ? &options.times->seconds[programNumber]
                                    : nullptr};
  auto queues = cpu::makeQueues(from, rankProgram, plan);
  if (!queues.ok())
    return queues.status();
  rank.queues = std::move(*queues);
  for (QueueState &queue : rank.queues)
    if (!queue.segments.empty())
      workers.push_back({rank, queue});
  return Status::success();
}

/// The first queue is run by who calls step(): where it is the only one no
/// thread has to be woken, which takes longer than a small step.
Status CpuExecutor::startThreads() {
  try {
    for (size_t i = 1; i < workers.size(); ++i)
      threads.emplace_back([this, i] { threadMain(workers[i]); });
  } catch (const std::system_error &error) {
    return errorOf("cannot start thread ", threads.size() + 1, " for ",
                   ranks.size(), " ranks: ", error.what());
  }
  return Status::success();
}

Status CpuExecutor::chooseWays() {
  const ExecutorOptions &options = context.options;
  auto chosen = cpu::chooseWays(program, options.threads, options.isCancelled);
  if (!chosen)
    return errorOf("making the session was cancelled");
  ways = std::move(*chosen);
  return Status::success();
}

Status CpuExecutor::prepare() {
  Status status = checkTarget();
  if (status.ok())
    status = checkMemorySpaces();
  if (!status.ok())
    return status;
  for (const CodeObject &object : program.codeObjects) {
    Expected<std::unique_ptr<LoadedCode>> loaded = LoadedCode::load(object);
    if (!loaded.ok())
      return loaded.status();
    code.push_back(std::move(*loaded));
  }
  bool isWhole = int64_t(context.ranks.size()) == program.numRanks();
  if (isWhole && !context.options.times)
    if (!(status = chooseWays()).ok())
      return status;
  for (size_t place = 0; place < context.ranks.size(); ++place)
    if (status = prepareRank(place); !status.ok())
      return status;
  return startThreads();
}

CpuExecutor::~CpuExecutor() {
  {
    std::lock_guard lock(mutex);
    shutdown = true;
    wake.notify_all();
  }
  for (std::thread &thread : threads)
    thread.join();
}

void CpuExecutor::threadMain(const Worker &worker) {
  // Names of threads have at most 15 characters.
  std::string name = concat("rank", worker.rank.number, " ", worker.queue.name);
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  cpu::OnCpus here(worker.rank.cpus);
  uint64_t seen = 0;
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return shutdown || generation != seen; });
    if (shutdown)
      return;
    seen = generation;
    lock.unlock();
    runQueue(worker.rank, worker.queue);
    lock.lock();
    if (--running == 0)
      done.notify_all();
  }
}

bool CpuExecutor::runEntry(Rank &rank, QueueState &queue,
                           const QueueEntry &entry, int64_t iteration) {
  if (stopped.load(std::memory_order_relaxed))
    return false;
  ++queue.begun;
  int64_t begin = trace ? now() : 0;
  Status status = entry.task->run(iteration);
  if (trace)
    queue.timeline.push_back({rank.number, entry.index, uint32_t(iteration),
                              stepNumber, begin, now()});
  if (!status.ok())
    fail(rank, entry, status);
  return status.ok();
}

bool CpuExecutor::runSegment(Rank &rank, QueueState &queue,
                             const Segment &segment) {
  for (int64_t iteration = 0; iteration < segment.count; ++iteration)
    for (const QueueEntry &entry : segment.entries)
      if (!runEntry(rank, queue, entry, iteration))
        return false;
  return true;
}

void CpuExecutor::runQueue(Rank &rank, QueueState &queue) noexcept {
  cpu::LibraryThreads libraryThreads(queue.threads);
  if (queue.clock)
    queue.clock->start();
  for (const Segment &segment : queue.segments)
    if (!runSegment(rank, queue, segment))
      break;
  if (queue.clock)
    queue.clock->finish();
}

void CpuExecutor::fail(const Rank &rank, const QueueEntry &entry,
                       const Status &status) {
  {
    std::lock_guard lock(reportMutex);
    if (stopped.exchange(true))
      return; // what follows an error is no cause
    // A refused value is the same on all ranks: naming the first one to see it
    // would make the message depend on time.
    std::string where =
        status.isRefusal() ? "" : concat(", rank ", rank.number);
    report = Status::error(concat("step ", stepNumber, where, ", ",
                                  commandText(*entry.command), ": ",
                                  status.message()),
                           status.kind());
  }
  fabric->abort(report);
  for (std::unique_ptr<Rank> &other : ranks)
    other->events.abort();
}

Status CpuExecutor::resetAfterError() {
  // The failure may have been that of another session on the same values.
  if (!stopped.exchange(false) && !fabric->isReasonKnown())
    return Status::success();
  report = {};
  return fabric->recover();
}

std::set<uint32_t> CpuExecutor::writtenArguments() const {
  std::set<uint32_t> written;
  for (const std::unique_ptr<Rank> &rank : ranks)
    for (const QueueState &queue : rank->queues)
      cpu::forEachBegun(queue, [&](const Command &command) {
        for (const Access &access : accessesOf(command))
          if (access.write && access.ref->space == Space::Argument)
            written.insert(access.ref->index);
      });
  return written;
}

void CpuExecutor::collectTimeline() {
  for (std::unique_ptr<Rank> &rank : ranks)
    for (QueueState &queue : rank->queues) {
      if (trace)
        trace->events.insert(trace->events.end(), queue.timeline.begin(),
                             queue.timeline.end());
      queue.timeline.clear();
    }
}

/// Whether another process has failed, which may have been after this one's
/// part of a step.
Status CpuExecutor::checkOthers() {
  Status status = fabric->reason();
  if (!status.ok())
    stopped = true;
  return status;
}

void CpuExecutor::runWorkers() {
  if (workers.empty())
    return;
  std::unique_lock lock(mutex);
  running = threads.size();
  ++generation;
  if (!threads.empty())
    wake.notify_all();
  lock.unlock();
  {
    cpu::OnCpus here(workers[0].rank.cpus);
    runQueue(workers[0].rank, workers[0].queue);
  }
  lock.lock();
  done.wait(lock, [&] { return running == 0; });
}

Status CpuExecutor::step(int64_t number) {
  if (Status status = resetAfterError(); !status.ok())
    return status;
  for (std::unique_ptr<Rank> &rank : ranks) {
    rank->events.reset();
    for (QueueState &queue : rank->queues)
      queue.begun = 0;
  }
  if (Status status = checkOthers(); !status.ok())
    return status;
  stepNumber = number;
  runWorkers();
  collectTimeline();
  // What ended the step may be of another process.
  return checkOthers();
}
} // namespace

Expected<std::unique_ptr<Executor>>
cpu::createExecutor(const ExecutorContext &context) {
  constexpr int kMaxThreads = 4096;
  int threads = context.options.threads;
  if (threads < 1 || threads > kMaxThreads)
    return errorOf("threads is ", threads, ", expected 1 to ", kMaxThreads);
  auto executor = std::make_unique<CpuExecutor>(context);
  if (Status status = executor->prepare(); !status.ok())
    return status;
  return std::unique_ptr<Executor>(std::move(executor));
}

} // namespace tandem::rt
