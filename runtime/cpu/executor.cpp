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
#include "cpu/task.h"

#include <atomic>
#include <chrono>
#include <pthread.h>
#include <system_error>
#include <thread>

namespace tandem::rt {

namespace {
using cpu::EventBoard;
using cpu::LoadedCode;
using cpu::RankMemory;
using cpu::Task;

struct QueueEntry {
  const Command *command;
  uint32_t index; ///< In the listing of the rank program.
  std::unique_ptr<Task> task;
};

/// The part of one queue in a Repeat, or what lies between two of them.
struct Segment {
  int64_t count = 1;
  std::vector<QueueEntry> entries = {};
};

struct QueueState {
  std::vector<Segment> segments = {};
  /// How many commands the last step has begun, each iteration counted.
  int64_t begun = 0;
  std::vector<TraceEvent> timeline = {};
};

struct Rank {
  Rank(int64_t number, RankMemory memory, size_t numEvents, size_t numQueues)
      : number(number), memory(std::move(memory)), events(numEvents),
        queues(numQueues) {}

  const int64_t number;
  RankMemory memory;
  EventBoard events;
  std::vector<QueueState> queues;
};

class CpuExecutor final : public Executor {
public:
  explicit CpuExecutor(const ExecutorContext &context)
      : context(context), program(context.program), fabric(context.fabric),
        start(std::chrono::steady_clock::now()) {}
  ~CpuExecutor() override;

  Status prepare();
  Status step(int64_t number) override;
  std::set<uint32_t> writtenArguments() const override;
  void setTrace(Trace *target) override { trace = target; }

private:
  Status checkTarget() const;
  Status checkMemorySpaces() const;
  Status prepareRank(size_t place);
  Status startThreads();
  void threadMain(Rank &rank, size_t queue);
  void runQueue(Rank &rank, QueueState &queue);
  bool runEntry(Rank &rank, QueueState &queue, const QueueEntry &entry,
                int64_t iteration);
  void fail(const Rank &rank, const QueueEntry &entry, const Status &status);
  Status resetAfterError();
  Status checkOthers();
  void collectTimeline();
  int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now() - start)
        .count();
  }

  const ExecutorContext context;
  const Program &program;
  const std::shared_ptr<Fabric> fabric;
  const std::chrono::steady_clock::time_point start;
  std::vector<std::unique_ptr<LoadedCode>> code;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<std::thread> threads;
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

/// Takes the commands of a rank, in the order of their listing, apart into
/// queues.
class QueueMaker {
public:
  QueueMaker(const cpu::TaskContext &context, std::vector<QueueState> &queues)
      : context(context), queues(queues), beginsSegment(queues.size(), true) {}

  Status add(const Command &command) {
    const auto *repeat = std::get_if<Repeat>(&command.operation);
    if (!repeat)
      return addTask(command);
    ++index;
    beginSegments(repeat->count);
    Status status;
    for (const Command &inner : repeat->body)
      if (status.ok())
        status = addTask(inner);
    beginSegments(1);
    return status;
  }

private:
  void beginSegments(int64_t newCount) {
    count = newCount;
    beginsSegment.assign(queues.size(), true);
  }

  Status addTask(const Command &command) {
    Expected<std::unique_ptr<Task>> task = cpu::makeTask(context, command);
    if (!task.ok())
      return errorOf("rank ", context.rank, ", ", commandText(command), ": ",
                     task.status().message());
    std::vector<Segment> &segments = queues[command.queue].segments;
    if (beginsSegment[command.queue])
      segments.push_back({count, {}});
    beginsSegment[command.queue] = false;
    segments.back().entries.push_back({&command, index++, std::move(*task)});
    return Status::success();
  }

  const cpu::TaskContext &context;
  std::vector<QueueState> &queues;
  uint32_t index = 0;
  int64_t count = 1;               ///< Of the segments that begin.
  std::vector<bool> beginsSegment; ///< Per queue: with its next command.
};

Status CpuExecutor::prepareRank(size_t place) {
  Expected<RankMemory> memory = RankMemory::allocate(context, place);
  if (!memory.ok())
    return memory.status();
  int64_t number = context.ranks[place];
  const RankProgram &rankProgram =
      program.rankPrograms[program.rankToProgram[size_t(number)]];
  ranks.push_back(std::make_unique<Rank>(number, std::move(*memory),
                                         rankProgram.numEvents,
                                         program.queues.size()));
  Rank &rank = *ranks.back();
  cpu::TaskContext from{program,
                        number,
                        rank.memory,
                        code,
                        *fabric,
                        rank.events,
                        context.options.threads};
  QueueMaker maker(from, rank.queues);
  for (const Command &command : rankProgram.commands)
    if (Status status = maker.add(command); !status.ok())
      return status;
  return Status::success();
}

Status CpuExecutor::startThreads() {
  try {
    for (std::unique_ptr<Rank> &rank : ranks)
      for (size_t queue = 0; queue < rank->queues.size(); ++queue)
        if (!rank->queues[queue].segments.empty())
          threads.emplace_back(
              [this, &rank, queue] { threadMain(*rank, queue); });
  } catch (const std::system_error &error) {
    return errorOf("cannot start thread ", threads.size() + 1, " for ",
                   ranks.size(), " ranks: ", error.what());
  }
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

void CpuExecutor::threadMain(Rank &rank, size_t queue) {
  const Queue &own = program.queues[queue];
  // Names of threads have at most 15 characters.
  std::string name = concat("rank", rank.number, " ", own.name);
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  bool compute = own.role == QueueRole::Compute;
  cpu::setLibraryThreads(compute ? context.options.threads : 1);
  uint64_t seen = 0;
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return shutdown || generation != seen; });
    if (shutdown)
      return;
    seen = generation;
    lock.unlock();
    runQueue(rank, rank.queues[queue]);
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

void CpuExecutor::runQueue(Rank &rank, QueueState &queue) {
  for (const Segment &segment : queue.segments)
    for (int64_t iteration = 0; iteration < segment.count; ++iteration)
      for (const QueueEntry &entry : segment.entries)
        if (!runEntry(rank, queue, entry, iteration))
          return;
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

/// Calls `visit` with the commands of a queue that were begun.
template <typename Visit>
void forEachBegun(const QueueState &queue, Visit visit) {
  int64_t left = queue.begun;
  for (const Segment &segment : queue.segments) {
    int64_t size = int64_t(segment.entries.size());
    // The first iteration has begun all that later ones have.
    for (int64_t i = 0; i < std::min(left, size); ++i)
      visit(*segment.entries[size_t(i)].command);
    left -= std::min(left, size * segment.count);
  }
}

std::set<uint32_t> CpuExecutor::writtenArguments() const {
  std::set<uint32_t> written;
  for (const std::unique_ptr<Rank> &rank : ranks)
    for (const QueueState &queue : rank->queues)
      forEachBegun(queue, [&](const Command &command) {
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
  std::unique_lock lock(mutex);
  stepNumber = number;
  running = threads.size();
  ++generation;
  wake.notify_all();
  done.wait(lock, [&] { return running == 0; });
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
