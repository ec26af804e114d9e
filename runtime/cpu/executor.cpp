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

#include <array>
#include <atomic>
#include <chrono>
#include <pthread.h>
#include <thread>

namespace tandem::rt {

namespace {
using cpu::EventBoard;
using cpu::LoadedCode;
using cpu::RankMemory;
using cpu::Task;

struct QueueEntry {
  const Command *command;
  uint32_t index; ///< In the commands of the rank program.
  std::unique_ptr<Task> task;
};

struct Rank {
  Rank(RankMemory memory, size_t numEvents)
      : memory(std::move(memory)), events(numEvents) {}

  int64_t number = 0;
  RankMemory memory;
  EventBoard events;
  std::array<std::vector<QueueEntry>, kNumQueues> queues;
  /// How many entries of a queue the last step has begun.
  std::array<size_t, kNumQueues> begun = {};
  std::array<std::vector<TraceEvent>, kNumQueues> timeline;
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
  Status prepareRank(size_t place);
  void threadMain(Rank &rank, Queue queue);
  void runQueue(Rank &rank, Queue queue);
  void fail(const Rank &rank, const QueueEntry &entry, const Status &status);
  Status resetAfterError();
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

Status CpuExecutor::prepareRank(size_t place) {
  Expected<RankMemory> memory = RankMemory::allocate(context, place);
  if (!memory.ok())
    return memory.status();
  int64_t number = context.ranks[place];
  const RankProgram &rankProgram =
      program.rankPrograms[program.rankToProgram[size_t(number)]];
  ranks.push_back(
      std::make_unique<Rank>(std::move(*memory), rankProgram.numEvents));
  Rank &rank = *ranks.back();
  rank.number = number;
  cpu::TaskContext from{program,
                        number,
                        rank.memory,
                        code,
                        *fabric,
                        rank.events,
                        context.options.threads};
  for (uint32_t i = 0; i < rankProgram.commands.size(); ++i) {
    const Command &command = rankProgram.commands[i];
    Expected<std::unique_ptr<Task>> task = cpu::makeTask(from, command);
    if (!task.ok())
      return errorOf("rank ", number, ", ", commandText(command), ": ",
                     task.status().message());
    rank.queues[size_t(command.queue)].push_back(
        {&command, i, std::move(*task)});
  }
  return Status::success();
}

Status CpuExecutor::prepare() {
  if (Status status = checkTarget(); !status.ok())
    return status;
  for (const CodeObject &object : program.codeObjects) {
    Expected<std::unique_ptr<LoadedCode>> loaded = LoadedCode::load(object);
    if (!loaded.ok())
      return loaded.status();
    code.push_back(std::move(*loaded));
  }
  for (size_t place = 0; place < context.ranks.size(); ++place)
    if (Status status = prepareRank(place); !status.ok())
      return status;
  for (std::unique_ptr<Rank> &rank : ranks)
    for (Queue queue : {Queue::Compute, Queue::Comm})
      if (!rank->queues[size_t(queue)].empty())
        threads.emplace_back(
            [this, &rank, queue] { threadMain(*rank, queue); });
  return Status::success();
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

void CpuExecutor::threadMain(Rank &rank, Queue queue) {
  bool compute = queue == Queue::Compute;
  // Names of threads have at most 15 characters.
  std::string name = concat("rank", rank.number, compute ? "" : " comm");
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  cpu::setLibraryThreads(compute ? context.options.threads : 1);
  uint64_t seen = 0;
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return shutdown || generation != seen; });
    if (shutdown)
      return;
    seen = generation;
    lock.unlock();
    runQueue(rank, queue);
    lock.lock();
    if (--running == 0)
      done.notify_all();
  }
}

void CpuExecutor::runQueue(Rank &rank, Queue queue) {
  for (const QueueEntry &entry : rank.queues[size_t(queue)]) {
    if (stopped.load(std::memory_order_relaxed))
      return;
    ++rank.begun[size_t(queue)];
    int64_t begin = trace ? now() : 0;
    Status status = entry.task->run();
    if (trace)
      rank.timeline[size_t(queue)].push_back(
          {rank.number, entry.index, stepNumber, begin, now()});
    if (!status.ok())
      return fail(rank, entry, status);
  }
}

void CpuExecutor::fail(const Rank &rank, const QueueEntry &entry,
                       const Status &status) {
  {
    std::lock_guard lock(reportMutex);
    if (stopped.exchange(true))
      return; // what follows an error is no cause
    bool refused =
        std::holds_alternative<CheckFinite>(entry.command->operation);
    // A refused value is the same on all ranks: naming the first one to see it
    // would make the message depend on time.
    std::string where = refused ? "" : concat(", rank ", rank.number);
    std::string text =
        concat("step ", stepNumber, where, ", ", commandText(*entry.command),
               ": ", status.message());
    report = refused ? Status::refusal(text) : Status::error(text);
  }
  fabric->abort(report);
  for (std::unique_ptr<Rank> &other : ranks)
    other->events.abort();
}

Status CpuExecutor::resetAfterError() {
  if (!stopped.exchange(false))
    return Status::success();
  report = {};
  return fabric->recover();
}

std::set<uint32_t> CpuExecutor::writtenArguments() const {
  std::set<uint32_t> written;
  for (const std::unique_ptr<Rank> &rank : ranks)
    for (size_t queue = 0; queue < kNumQueues; ++queue)
      for (size_t i = 0; i < rank->begun[queue]; ++i)
        for (const Access &access :
             accessesOf(rank->queues[queue][i].command->operation))
          if (access.write && access.ref->space == Space::Argument)
            written.insert(access.ref->index);
  return written;
}

void CpuExecutor::collectTimeline() {
  for (std::unique_ptr<Rank> &rank : ranks)
    for (std::vector<TraceEvent> &events : rank->timeline) {
      if (trace)
        trace->events.insert(trace->events.end(), events.begin(), events.end());
      events.clear();
    }
}

Status CpuExecutor::step(int64_t number) {
  if (Status status = resetAfterError(); !status.ok())
    return status;
  for (std::unique_ptr<Rank> &rank : ranks) {
    rank->events.reset();
    rank->begun = {};
  }
  std::unique_lock lock(mutex);
  stepNumber = number;
  running = threads.size();
  ++generation;
  wake.notify_all();
  done.wait(lock, [&] { return running == 0; });
  collectTimeline();
  // What ended the step may be of another process.
  return stopped ? fabric->reason() : report;
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
