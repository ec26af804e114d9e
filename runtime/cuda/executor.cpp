//===- executor.cpp - ranks as streams ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/executor.h"
#include "core/access.h"
#include "core/collective.h"
#include "core/text.h"
#include "core/verdict.h"
#include "cuda/rank.h"

#include <chrono>
#include <map>

namespace tandem::rt::cuda {

namespace {
/// The ranks of a group that have come to what they do together.
struct Meeting {
  std::vector<int64_t> members; ///< Ranks, in group order.
  uint32_t queue = 0;
  std::vector<Rank *> present;
};

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
  void setTrace(Trace *target) override { trace = target; }

private:
  struct Timed {
    const Rank *rank;
    uint32_t command, iteration;
    Event begin, end;
  };

  Status checkProgram() const;
  Status prepareRank(size_t place);
  Status listEntries(Rank &rank, const WorkContext &from);
  Status makeShares();
  WorkContext contextOf(const Rank &rank);
  const RankProgram &programOf(const Rank &rank) const {
    return program.rankPrograms[program.rankToProgram[size_t(rank.number)]];
  }
  Rank &rankWith(int64_t number);

  Status run();
  Status advance(Rank &rank);
  Status enqueue(Rank &rank, Entry &entry);
  Status enqueueWork(Rank &rank, Entry &entry);
  Status meet(Rank &rank, const std::vector<uint32_t> &axes);
  Status runTogether(const std::vector<Rank *> &members);
  Status enqueueCollective(const std::vector<Rank *> &members);
  Status check(const std::vector<Rank *> &members);
  Status readReports();
  Status beginTrace();
  Status collectTrace();
  Status time(Rank &rank, Entry &entry, const std::function<Status()> &body);
  Status record(const Event &event, CUstream stream) const {
    return gpu->check(gpu->driver.eventRecord(event.get(), stream),
                      "record an event");
  }
  Status wait(CUstream stream, const Event &event) const {
    return gpu->check(gpu->driver.streamWaitEvent(stream, event.get(), 0),
                      "wait for an event");
  }
  Status synchronize(CUstream stream) const {
    return gpu->check(gpu->driver.streamSynchronize(stream),
                      "run the step's kernels");
  }
  /// Where an error of this rank's present command comes from.
  Status blame(const Rank &rank, const Entry &entry,
               const Status &status) const;
  void stepOver(Rank &rank);

  const ExecutorContext context;
  const Program &program;
  const std::shared_ptr<Fabric> fabric;
  const std::shared_ptr<Gpu> gpu;
  std::vector<std::unique_ptr<Code>> code;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::map<std::pair<std::vector<int64_t>, uint32_t>, Meeting> meetings;
  int64_t numPlainProducts = 0;
  int64_t stepNumber = 0;
  bool hasFailed = false;
  Trace *trace = nullptr;
  Event epoch;
  int64_t epochNanos = 0;
  std::vector<Timed> timed;
};

CudaExecutor::~CudaExecutor() {
  // What streams still do uses the memory that goes next.
  if (gpu->enter().ok())
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

WorkContext CudaExecutor::contextOf(const Rank &rank) {
  return {program,         rank.number, gpu,
          rank.memory,     code,        rank.report.address(),
          numPlainProducts};
}

Rank &CudaExecutor::rankWith(int64_t number) {
  for (std::unique_ptr<Rank> &rank : ranks)
    if (rank->number == number)
      return *rank;
  return *ranks.front(); // all ranks are here
}

Status CudaExecutor::listEntries(Rank &rank, const WorkContext &from) {
  auto add = [&](const Command &command, int64_t count, size_t repeat) {
    Entry entry{&command, nullptr, count, repeat};
    for (const Access &access : accessesOf(command))
      if (access.write && access.ref->space == Space::Argument)
        entry.writes.push_back(access.ref->index);
    const Operation &op = command.operation;
    bool isWork = !std::holds_alternative<Repeat>(op) &&
                  !std::holds_alternative<Collective>(op) &&
                  !std::holds_alternative<Check>(op) &&
                  !std::holds_alternative<RecordEvent>(op) &&
                  !std::holds_alternative<WaitEvent>(op);
    if (isWork) {
      auto work =
          makeWork(from, command, int64_t(rank.entries.size()) + 1, count);
      if (!work.ok())
        return errorOf("rank ", rank.number, ", ", commandText(command), ": ",
                       work.status().message());
      entry.work = std::move(*work);
    }
    rank.entries.push_back(std::move(entry));
    return Status::success();
  };
  for (const Command &command : programOf(rank).commands) {
    size_t own = rank.entries.size();
    if (Status status = add(command, 1, own); !status.ok())
      return status;
    const auto *repeat = std::get_if<Repeat>(&command.operation);
    if (!repeat)
      continue;
    for (const Command &inner : repeat->body)
      if (Status status = add(inner, repeat->count, own); !status.ok())
        return status;
  }
  rank.begun.assign(rank.entries.size(), false);
  return Status::success();
}

Status CudaExecutor::prepareRank(size_t place) {
  Expected<RankMemory> memory = RankMemory::allocate(context, place, gpu);
  if (!memory.ok())
    return memory.status();
  ranks.push_back(
      std::make_unique<Rank>(context.ranks[place], std::move(*memory)));
  Rank &rank = *ranks.back();
  Expected<Memory> report =
      Memory::allocate(gpu, sizeof(tandem_rt_launch_report));
  if (!report.ok())
    return report.status();
  rank.report = std::move(*report);
  tandem_rt_launch_report nothing = {};
  if (Status status = rank.report.copyIn(0, &nothing, sizeof nothing);
      !status.ok())
    return status;
  size_t numStreams = context.options.oneQueue ? 1 : program.queues.size();
  for (size_t i = 0; i < numStreams; ++i) {
    Expected<Stream> stream = Stream::create(gpu);
    if (!stream.ok())
      return stream.status();
    rank.streams.push_back(std::move(*stream));
  }
  auto addEvents = [&](std::vector<Event> &events, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Expected<Event> event = Event::create(gpu);
      if (!event.ok())
        return event.status();
      events.push_back(std::move(*event));
    }
    return Status::success();
  };
  Status status = addEvents(rank.events, programOf(rank).numEvents);
  if (status.ok())
    status = addEvents(rank.ready, program.queues.size());
  if (status.ok())
    status = addEvents(rank.done, program.queues.size());
  return status.ok() ? listEntries(rank, contextOf(rank)) : status;
}

/// Ranks meet in the order of their listings, which is one for all of a group.
Status CudaExecutor::makeShares() {
  struct Met {
    std::vector<Entry *> entries;
    std::vector<Rank *> ranks;
  };
  std::map<std::pair<std::vector<int64_t>, uint32_t>, std::vector<Met>> all;
  for (std::unique_ptr<Rank> &rank : ranks) {
    std::map<std::pair<std::vector<int64_t>, uint32_t>, size_t> seen;
    for (Entry &entry : rank->entries) {
      const auto *op = std::get_if<Collective>(&entry.command->operation);
      if (!op)
        continue;
      std::pair key(program.group(op->axes, rank->number),
                    entry.command->queue);
      size_t number = seen[key]++;
      std::vector<Met> &list = all[key];
      if (list.size() <= number)
        list.resize(number + 1);
      list[number].entries.push_back(&entry);
      list[number].ranks.push_back(rank.get());
    }
  }
  // Ranks are ascending, and so are the members of a group.
  for (auto &[key, list] : all)
    for (Met &met : list) {
      std::vector<Post> posts;
      for (size_t i = 0; i < met.entries.size(); ++i) {
        const auto &op =
            std::get<Collective>(met.entries[i]->command->operation);
        posts.push_back({&op, met.ranks[i]->memory.address(op.source),
                         met.ranks[i]->memory.address(op.destination)});
      }
      for (size_t i = 0; i < posts.size(); ++i) {
        auto share = makeShare(contextOf(*met.ranks[i]), posts, i,
                               met.entries[i]->count);
        if (!share.ok())
          return errorOf("rank ", met.ranks[i]->number, ", ",
                         commandText(*met.entries[i]->command), ": ",
                         share.status().message());
        met.entries[i]->work = std::move(*share);
      }
    }
  return Status::success();
}

Status CudaExecutor::prepare() {
  Status status = gpu->enter();
  if (status.ok())
    status = checkProgram();
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
  return makeShares();
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

Status CudaExecutor::blame(const Rank &rank, const Entry &entry,
                           const Status &status) const {
  // A refused value is the same on all ranks.
  std::string where = status.isRefusal() ? "" : concat(", rank ", rank.number);
  return Status::error(concat("step ", stepNumber, where, ", ",
                              commandText(*entry.command), ": ",
                              status.message()),
                       status.kind());
}

/// To the next entry: at the end of a body back to its begin, until all
/// iterations are done.
void CudaExecutor::stepOver(Rank &rank) {
  const Entry &around = rank.entries[rank.entries[rank.next].repeat];
  bool isInBody = rank.entries[rank.next].repeat != rank.next;
  ++rank.next;
  if (!isInBody)
    return;
  const auto &repeat = std::get<Repeat>(around.command->operation);
  if (rank.next <= around.repeat + repeat.body.size())
    return;
  if (++rank.iteration < repeat.count)
    rank.next = around.repeat + 1;
  else
    rank.iteration = 0;
}

Status CudaExecutor::time(Rank &rank, Entry &entry,
                          const std::function<Status()> &body) {
  if (!trace)
    return body();
  Expected<Event> begin = Event::create(gpu, true);
  Expected<Event> end = Event::create(gpu, true);
  if (!begin.ok() || !end.ok())
    return begin.ok() ? end.status() : begin.status();
  CUstream stream = rank.streamOf(*entry.command);
  Status status = record(*begin, stream);
  if (status.ok())
    status = body();
  if (status.ok())
    status = record(*end, stream);
  timed.push_back({&rank, uint32_t(&entry - rank.entries.data()),
                   uint32_t(rank.iteration), std::move(*begin),
                   std::move(*end)});
  return status;
}

Status CudaExecutor::enqueueWork(Rank &rank, Entry &entry) {
  const Command &command = *entry.command;
  CUstream stream = rank.streamOf(command);
  if (const auto *op = std::get_if<RecordEvent>(&command.operation))
    return time(rank, entry,
                [&] { return record(rank.events[op->event], stream); });
  if (const auto *op = std::get_if<WaitEvent>(&command.operation))
    return time(rank, entry,
                [&] { return wait(stream, rank.events[op->event]); });
  if (!entry.work)
    return Status::success(); // a repeat
  return time(rank, entry,
              [&] { return entry.work->enqueue(stream, rank.iteration); });
}

Status CudaExecutor::enqueue(Rank &rank, Entry &entry) {
  rank.begun[rank.next] = true;
  const Operation &op = entry.command->operation;
  const auto *check = std::get_if<Check>(&op);
  if (std::holds_alternative<Collective>(op) || (check && !check->axes.empty()))
    return meet(rank, groupAxes(op));
  Status status = check
                      ? time(rank, entry, [&] { return this->check({&rank}); })
                      : enqueueWork(rank, entry);
  if (status.ok())
    stepOver(rank);
  return status;
}

/// The last member to come enqueues what all do.
Status CudaExecutor::meet(Rank &rank, const std::vector<uint32_t> &axes) {
  std::pair key(program.group(axes, rank.number),
                rank.entries[rank.next].command->queue);
  Meeting &meeting = meetings[key];
  meeting.present.push_back(&rank);
  rank.isWaiting = true;
  if (meeting.present.size() < key.first.size())
    return Status::success();
  std::vector<Rank *> members;
  for (int64_t number : key.first)
    members.push_back(&rankWith(number));
  meeting.present.clear();
  Status status = runTogether(members);
  for (Rank *member : members) {
    member->isWaiting = false;
    if (status.ok())
      stepOver(*member);
  }
  return status;
}

Status CudaExecutor::runTogether(const std::vector<Rank *> &members) {
  const Entry &entry = members.front()->entries[members.front()->next];
  return std::holds_alternative<Check>(entry.command->operation)
             ? check(members)
             : enqueueCollective(members);
}

/// Each member waits until all have come to it, does its share, and goes on
/// when all have done theirs.
Status CudaExecutor::enqueueCollective(const std::vector<Rank *> &members) {
  auto entryOf = [](Rank &rank) -> Entry & { return rank.entries[rank.next]; };
  uint32_t queue = entryOf(*members.front()).command->queue;
  Status status;
  auto forEach = [&](auto body) {
    for (Rank *member : members)
      if (status.ok())
        status = body(*member, member->streamOf(*entryOf(*member).command));
  };
  forEach([&](Rank &member, CUstream stream) {
    return record(member.ready[queue], stream);
  });
  forEach([&](Rank &member, CUstream stream) {
    auto share = [&] {
      for (Rank *other : members)
        if (Status waited = wait(stream, other->ready[queue]); !waited.ok())
          return waited;
      return entryOf(member).work->enqueue(stream, member.iteration);
    };
    Status done = time(member, entryOf(member), share);
    return done.ok() ? record(member.done[queue], stream) : done;
  });
  forEach([&](Rank &, CUstream stream) {
    for (Rank *other : members)
      if (Status waited = wait(stream, other->done[queue]); !waited.ok())
        return waited;
    return Status::success();
  });
  return status;
}

/// Waits for the values, and for what kernels have reported so far.
Status CudaExecutor::check(const std::vector<Rank *> &members) {
  for (Rank *member : members) {
    const Entry &entry = member->entries[member->next];
    if (Status status = synchronize(member->streamOf(*entry.command));
        !status.ok())
      return blame(*member, entry, status);
  }
  if (Status status = readReports(); !status.ok())
    return status;
  for (Rank *member : members) {
    const Entry &entry = member->entries[member->next];
    const auto &op = std::get<Check>(entry.command->operation);
    std::vector<char> value(size_t(op.source.bytes));
    CUdeviceptr from = member->memory.address(op.source).at(member->iteration);
    Status status = value.empty()
                        ? Status::success()
                        : gpu->check(gpu->driver.memcpyDtoH(value.data(), from,
                                                            value.size()),
                                     "read a value to check");
    if (status.ok())
      status = describe(op, judge(op, value.data()));
    if (!status.ok())
      return blame(*member, entry, status);
  }
  return Status::success();
}

/// The first report of the rank with the lowest number.
Status CudaExecutor::readReports() {
  for (std::unique_ptr<Rank> &rank : ranks) {
    tandem_rt_launch_report report = {};
    if (Status status = rank->report.copyOut(0, &report, sizeof report);
        !status.ok())
      return status;
    if (report.launch == 0)
      continue;
    const Entry &entry = rank->entries[size_t(report.launch - 1)];
    const auto &op = std::get<Launch>(entry.command->operation);
    bool isKnown = uint64_t(report.site) < op.sites.size();
    return blame(*rank, entry,
                 errorOf(isKnown ? op.sites[size_t(report.site)] + ": " : "",
                         "index ", report.index,
                         " is out of range, expected 0 to ", report.bound - 1));
  }
  return Status::success();
}

Status CudaExecutor::advance(Rank &rank) {
  while (!rank.isWaiting && rank.next < rank.entries.size()) {
    Entry &entry = rank.entries[rank.next];
    Status status = enqueue(rank, entry);
    if (status.ok())
      continue;
    bool isBlamed = status.message().starts_with("step ");
    return isBlamed ? status : blame(rank, entry, status);
  }
  return Status::success();
}

Status CudaExecutor::run() {
  if (Status status = beginTrace(); !status.ok())
    return status;
  bool isDone = false;
  while (!isDone) {
    isDone = true;
    for (std::unique_ptr<Rank> &rank : ranks) {
      if (Status status = advance(*rank); !status.ok())
        return status;
      isDone &= rank->next == rank->entries.size();
    }
  }
  for (std::unique_ptr<Rank> &rank : ranks)
    for (const Stream &stream : rank->streams)
      if (Status status = synchronize(stream.get()); !status.ok())
        return errorOf("step ", stepNumber, ", rank ", rank->number, ": ",
                       status.message());
  Status status = readReports();
  return status.ok() ? collectTrace() : status;
}

Status CudaExecutor::step(int64_t number) {
  if (hasFailed || fabric->isReasonKnown()) {
    hasFailed = false;
    if (Status status = fabric->recover(); !status.ok())
      return status;
  }
  if (Status status = gpu->enter(); !status.ok())
    return status;
  stepNumber = number;
  meetings.clear();
  tandem_rt_launch_report nothing = {};
  for (std::unique_ptr<Rank> &rank : ranks) {
    rank->next = 0;
    rank->iteration = 0;
    rank->isWaiting = false;
    rank->begun.assign(rank->entries.size(), false);
    if (Status status = rank->report.copyIn(0, &nothing, sizeof nothing);
        !status.ok())
      return status;
  }
  if (Status status = fabric->reason(); !status.ok())
    return hasFailed = true, status;
  Status status = run();
  timed.clear();
  if (!status.ok()) {
    hasFailed = true;
    gpu->driver.contextSynchronize(); // nothing of it runs into what follows
    fabric->abort(status);
  }
  // What ended the step may be of another process.
  Status reason = fabric->reason();
  hasFailed |= !reason.ok();
  return reason;
}

std::set<uint32_t> CudaExecutor::writtenArguments() const {
  std::set<uint32_t> written;
  for (const std::unique_ptr<Rank> &rank : ranks)
    for (size_t i = 0; i < rank->entries.size(); ++i)
      if (rank->begun[i])
        written.insert(rank->entries[i].writes.begin(),
                       rank->entries[i].writes.end());
  return written;
}

std::string CudaExecutor::notice() const {
  if (numPlainProducts == 0)
    return {};
  return concat(numPlainProducts,
                " products have strides, a bias or a function that cuBLASLt "
                "does not take here, and run by a plain kernel");
}

//===----------------------------------------------------------------------===//
// Traces
//===----------------------------------------------------------------------===//

/// The GPU's clock meets the host's here.
Status CudaExecutor::beginTrace() {
  if (!trace)
    return Status::success();
  Expected<Event> made = Event::create(gpu, true);
  if (!made.ok())
    return made.status();
  epoch = std::move(*made);
  CUstream stream = ranks.front()->streams.front().get();
  Status status = record(epoch, stream);
  if (status.ok())
    status = synchronize(stream);
  epochNanos = std::chrono::nanoseconds(
                   std::chrono::steady_clock::now().time_since_epoch())
                   .count();
  return status;
}

Status CudaExecutor::collectTrace() {
  for (const Timed &event : timed) {
    int64_t nanos[2] = {};
    for (int i : {0, 1}) {
      float milliseconds = 0;
      const Event &at = i ? event.end : event.begin;
      if (Status status = gpu->check(gpu->driver.eventElapsedTime(
                                         &milliseconds, epoch.get(), at.get()),
                                     "read the time of an event");
          !status.ok())
        return status;
      nanos[i] = epochNanos + int64_t(double(milliseconds) * 1e6);
    }
    trace->events.push_back({event.rank->number, event.command, event.iteration,
                             stepNumber, nanos[0], nanos[1]});
  }
  return Status::success();
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
