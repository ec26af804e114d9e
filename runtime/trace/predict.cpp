//===- predict.cpp - predicted timeline -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queues work off their commands in order. While a rank computes and
// communicates, computation runs at 1 / a of its speed and a collective at
// 1 / b (a, b: the slow-downs of the table), and where that is slower than one
// after the other at half each; the latency of a collective disturbs nothing. A
// collective is as slow as it is on its slowest member. This is the accounting
// of plans, on the commands and events of the Program.
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "tandem_rt/report.h"
#include "trace/prices.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

namespace tandem::rt {

namespace {
constexpr int64_t kMaxCommands = int64_t(1) << 24; ///< Of all ranks.

/// A command in its queue.
struct Entry {
  uint32_t place = 0;
  uint32_t iteration = 0;
};

struct QueueState {
  int64_t rank = 0;
  std::deque<Entry> left = {};
  /// When the first of `left` was begun.
  std::optional<double> begun = {};
};

/// What takes time: a computing command, or a collective with its members.
struct Work {
  std::vector<size_t> queues = {};
  bool computes = true;
  int64_t from = -1, to = -1; ///< Of a transfer: ranks.
  double latency = 0, seconds = 0;
};

/// The meeting of a group: its axes, its ranks, its queue, and how many before.
using Meeting =
    std::tuple<std::vector<uint32_t>, std::vector<int64_t>, uint32_t, size_t>;

class Simulation {
public:
  Simulation(const TimelineHead &head, const CommandTimes &prices)
      : head(head), prices(prices), happened(size_t(head.numRanks())) {}
  Expected<Timeline> run();

private:
  Status fillQueues();
  void fillQueue(QueueState &queue, uint32_t number);
  bool beginNext(size_t queue);
  void beginCollective(size_t queue, const TimelineCommand &command);
  void end(size_t queue);
  void advance();
  void countLoad();
  static bool isMoving(const Work &work) {
    return work.from >= 0 && work.latency == 0;
  }
  int sharersOf(const Work &work) const;
  double speedOf(const Work &work) const;
  const TimelineCommand &first(const QueueState &queue) const {
    return head.commandsOf(queue.rank)[queue.left.front().place];
  }

  const TimelineHead &head;
  const CommandTimes &prices;
  std::vector<QueueState> queues;
  std::vector<bool> busy;
  std::vector<Work> running;
  struct Load {
    int computing = 0, communicating = 0, sending = 0, receiving = 0;
  };
  std::vector<Load> load;
  /// Collectives by queue so far, and those whose members are coming.
  std::vector<
      std::map<std::pair<std::vector<uint32_t>, std::vector<int64_t>>, size_t>>
      met;
  std::map<Meeting, Work> meetings;
  /// By rank: events, those of a Repeat by iteration.
  std::vector<std::set<std::pair<uint32_t, uint32_t>>> happened;
  /// By rank program: the Repeat that records an event, or -1.
  std::vector<std::map<uint32_t, int64_t>> recordedIn;
  Timeline timeline;
  double now = 0;
};

//===----------------------------------------------------------------------===//
// Queues
//===----------------------------------------------------------------------===//

/// Each queue repeats its own part of a body.
void Simulation::fillQueue(QueueState &queue, uint32_t number) {
  const std::vector<TimelineCommand> &listing = head.commandsOf(queue.rank);
  std::vector<uint32_t> body;
  int64_t count = 1;
  auto flush = [&] {
    for (int64_t i = 0; i < count; ++i)
      for (uint32_t place : body)
        queue.left.push_back({place, uint32_t(i)});
    body.clear();
  };
  for (uint32_t place = 0; place < listing.size(); ++place) {
    const TimelineCommand &command = listing[place];
    if (command.repeat < 0) {
      flush();
      count = command.count;
    }
    if (command.role != CommandRole::Repeat && command.queue == number)
      body.push_back(place);
  }
  flush();
}

Status Simulation::fillQueues() {
  int64_t commands = 0;
  for (int64_t rank = 0; rank < head.numRanks(); ++rank) {
    int64_t count = 1;
    commands += int64_t(head.queues.size());
    for (const TimelineCommand &command : head.commandsOf(rank)) {
      if (command.repeat < 0)
        count = command.role == CommandRole::Repeat ? command.count : 1;
      commands += count;
    }
    if (commands > kMaxCommands)
      return errorOf("the program has more than ", kMaxCommands,
                     " commands on all ranks, which is too many to predict");
  }
  for (const std::vector<TimelineCommand> &listing : head.rankPrograms) {
    recordedIn.emplace_back();
    for (const TimelineCommand &command : listing)
      if (command.role == CommandRole::Record)
        recordedIn.back()[command.event] = command.repeat;
  }
  for (int64_t rank = 0; rank < head.numRanks(); ++rank)
    for (uint32_t number = 0; number < head.queues.size(); ++number) {
      queues.push_back({.rank = rank});
      fillQueue(queues.back(), number);
    }
  busy.resize(queues.size());
  met.resize(queues.size());
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void Simulation::end(size_t number) {
  QueueState &queue = queues[number];
  auto nanos = [](double seconds) { return std::llround(seconds * 1e9); };
  const Entry &entry = queue.left.front();
  if (first(queue).role != CommandRole::Record)
    timeline.events.push_back({queue.rank, entry.place, entry.iteration, 1,
                               nanos(*queue.begun), nanos(now)});
  queue.left.pop_front();
  queue.begun.reset();
  busy[number] = false;
}

/// The last member to come begins it for all.
void Simulation::beginCollective(size_t number,
                                 const TimelineCommand &command) {
  QueueState &queue = queues[number];
  std::vector<int64_t> members = trace::groupOf(head, command.axes, queue.rank);
  if (command.isTransfer())
    members = {members[size_t(command.from)], members[size_t(command.to)]};
  size_t turn = met[number][{command.axes, members}]++;
  Meeting meeting(command.axes, members, command.queue, turn);
  Work &work = meetings[meeting];
  uint32_t rankProgram = head.rankToProgram[size_t(queue.rank)];
  double latency = trace::latencyOf(prices, rankProgram, command);
  double seconds = trace::secondsOf(prices, rankProgram, command) - latency;
  work.computes = false;
  if (command.isTransfer())
    work.from = members[0], work.to = members[1];
  work.latency = std::max(work.latency, latency);
  work.seconds = std::max(work.seconds, std::max(0.0, seconds));
  work.queues.push_back(number);
  busy[number] = true;
  if (work.queues.size() < members.size())
    return;
  running.push_back(std::move(work));
  meetings.erase(meeting);
}

/// Begins what the queue comes to, if it need not wait. False if nothing has
/// changed.
bool Simulation::beginNext(size_t number) {
  QueueState &queue = queues[number];
  if (busy[number] || queue.left.empty())
    return false;
  const TimelineCommand &command = first(queue);
  bool isNew = !queue.begun;
  queue.begun = queue.begun.value_or(now);
  uint32_t rankProgram = head.rankToProgram[size_t(queue.rank)];
  if (command.role == CommandRole::Communicate)
    return beginCollective(number, command), true;
  if (command.role == CommandRole::Record ||
      command.role == CommandRole::Wait) {
    auto recorded = recordedIn[rankProgram].find(command.event);
    bool repeats =
        recorded != recordedIn[rankProgram].end() && recorded->second >= 0;
    std::pair event(command.event, repeats ? queue.left.front().iteration : 0);
    std::set<std::pair<uint32_t, uint32_t>> &known =
        happened[size_t(queue.rank)];
    if (command.role == CommandRole::Record)
      known.insert(event);
    else if (!known.contains(event))
      return isNew;
    end(number);
    return true;
  }
  double seconds = trace::secondsOf(prices, rankProgram, command);
  if (seconds <= 0) {
    end(number);
    return true;
  }
  running.push_back({.queues = {number}, .seconds = seconds});
  return busy[number] = true;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// Of each rank, how many commands need its cores and how many its links.
void Simulation::countLoad() {
  load.assign(size_t(head.numRanks()), {});
  for (const Work &work : running)
    for (size_t queue : work.queues) {
      Load &own = load[size_t(queues[queue].rank)];
      own.computing += work.computes;
      own.communicating += !work.computes && work.latency == 0;
      own.sending += isMoving(work) && queues[queue].rank == work.from;
      own.receiving += isMoving(work) && queues[queue].rank == work.to;
    }
}

/// Transfers of a rank in one direction share its link.
int Simulation::sharersOf(const Work &work) const {
  if (!isMoving(work))
    return 1;
  return std::max(load[size_t(work.from)].sending,
                  load[size_t(work.to)].receiving);
}

double Simulation::speedOf(const Work &work) const {
  if (!work.computes && work.latency > 0)
    return 1;
  auto isShared = [&](size_t queue) {
    const Load &own = load[size_t(queues[queue].rank)];
    return (work.computes ? own.communicating : own.computing) > 0;
  };
  double sharers = sharersOf(work);
  if (std::none_of(work.queues.begin(), work.queues.end(), isShared))
    return 1 / sharers;
  return 1 / sharers /
         (work.computes ? prices.computationSlowdown
                        : prices.collectiveSlowdown);
}

/// Up to the next end of a command, or of a latency.
void Simulation::advance() {
  auto leftOf = [](Work &work) -> double & {
    return work.latency > 0 ? work.latency : work.seconds;
  };
  countLoad();
  std::vector<double> speeds;
  double span = std::numeric_limits<double>::infinity();
  for (Work &work : running) {
    speeds.push_back(speedOf(work));
    span = std::min(span, leftOf(work) / speeds.back());
  }
  now += span;
  for (size_t i = 0; i < running.size(); ++i) {
    double &left = leftOf(running[i]);
    // What ends now ends, whatever the rounding.
    left = left / speeds[i] <= span ? 0 : left - span * speeds[i];
  }
  std::erase_if(running, [&](const Work &work) {
    if (work.latency > 0 || work.seconds > 0)
      return false;
    for (size_t queue : work.queues)
      end(queue);
    return true;
  });
}

Expected<Timeline> Simulation::run() {
  if (Status status = fillQueues(); !status.ok())
    return status;
  while (true) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t queue = 0; queue < queues.size(); ++queue)
        while (beginNext(queue))
          changed = true;
    }
    if (running.empty())
      break;
    advance();
  }
  for (const QueueState &queue : queues)
    if (!queue.left.empty())
      return errorOf("rank ", queue.rank, " waits in command ", first(queue).id,
                     " '", first(queue).name,
                     "' for what never comes, expected a timeline of a "
                     "verified program");
  timeline.head = head;
  timeline.head.predictedFrom = prices.from;
  timeline.head.clocks.clear();
  return std::move(timeline);
}
} // namespace

Expected<Timeline> predictTimeline(const TimelineHead &head,
                                   CommandTimes times) {
  if (Status status = trace::settlePrices(head, times); !status.ok())
    return errorOf("table ", status.message());
  return Simulation(head, times).run();
}

Expected<Timeline> predictTimeline(const TimelineHead &head,
                                   const std::string &path) {
  Expected<CommandTimes> times = readTimes(path);
  if (!times.ok())
    return times.status();
  if (Status status = trace::settlePrices(head, *times); !status.ok())
    return errorOf("table '", path, "' ", status.message());
  return Simulation(head, *times).run();
}

Expected<Timeline> readPrediction(const TimelineHead &head,
                                  const std::string &path) {
  Expected<bool> isTable = trace::isPrices(path);
  if (!isTable.ok())
    return isTable.status();
  return *isTable ? predictTimeline(head, path) : readTimeline(path);
}

} // namespace tandem::rt
