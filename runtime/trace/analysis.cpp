//===- analysis.cpp - analysis of overlap and waits -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "trace/analysis.h"
#include "trace/prices.h"

#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

namespace tandem::rt::trace {

namespace {
using Place = std::optional<uint32_t>;

/// Of a rank program, what each wait waits for: the last command before the
/// record that takes time; before it on its queue, or, if there is none there,
/// what that queue waited for itself.
class Producers {
public:
  explicit Producers(const std::vector<TimelineCommand> &listing);
  Place operator[](uint32_t wait) const { return producers[wait]; }
  /// How many events a step has.
  int64_t numEvents() const { return events; }

private:
  std::vector<Place> producers;
  int64_t events = 0;
};

Producers::Producers(const std::vector<TimelineCommand> &listing)
    : producers(listing.size()) {
  std::unordered_map<uint32_t, Place> byEvent, lastOfQueue;
  std::unordered_map<int64_t, int64_t> counts;
  for (uint32_t place = 0; place < listing.size(); ++place) {
    const TimelineCommand &command = listing[place];
    if (command.role == CommandRole::Repeat) {
      counts[command.id] = command.count;
      continue;
    }
    Place &last = lastOfQueue[command.queue];
    if (command.role == CommandRole::Record) {
      byEvent[command.event] = last;
      continue;
    }
    auto count = counts.find(command.repeat);
    events += count == counts.end() ? 1 : count->second;
    if (command.role == CommandRole::Wait) {
      producers[place] = byEvent[command.event];
      if (!last)
        last = producers[place];
    } else {
      last = place;
    }
  }
}

/// When the commands of a rank ran in a step.
class Runs {
public:
  Runs(const TimelineHead &head, const RankStep &rank) {
    for (const auto &queue : rank.queues)
      for (const TraceEvent *event : queue) {
        bool repeats = head[*event].repeat >= 0;
        runs[{event->command, repeats ? event->iteration : kLast}] = event;
        runs[{event->command, kLast}] = event;
      }
  }
  /// What `place` did for `wait`; null if it did not come to it.
  const TraceEvent *find(const TimelineHead &head, uint32_t place,
                         const TraceEvent &wait) const {
    int64_t repeat = head.commandsOf(wait.rank)[place].repeat;
    bool isInside = repeat >= 0 && repeat == head[wait].repeat;
    auto it = runs.find({place, isInside ? wait.iteration : kLast});
    return it == runs.end() ? nullptr : it->second;
  }

private:
  static constexpr uint32_t kLast = ~uint32_t(0);
  std::map<std::pair<uint32_t, uint32_t>, const TraceEvent *> runs;
};

class Analyser {
public:
  explicit Analyser(const Timeline &timeline);
  std::vector<StepRun> run();

private:
  bool onlyWaits(const TraceEvent &event) const;
  Interval spanOf(const std::vector<const TraceEvent *> &events) const;
  StepRun makeStep(int64_t step, std::vector<const TraceEvent *> events);
  void fill(RankStep &rank, const std::vector<const TraceEvent *> &events);
  std::vector<Idle> findCauses(const RankStep &rank) const;
  std::vector<Idle> findInside(const RankStep &rank, const Interval &gap) const;
  void findIdle(RankStep &rank, const Interval &span) const;
  void findCollectives(RankStep &rank) const;
  void findPeers(StepRun &step) const;

  void addRuns(RankStep &rank, const Runs &runs,
               const std::vector<const TraceEvent *> &queue) const;
  const TimelineCommand &at(const TraceEvent &event) const {
    return timeline.head[event];
  }
  Place producerOf(const TraceEvent &wait) const {
    return producers[timeline.head.rankToProgram[size_t(wait.rank)]]
                    [wait.command];
  }
  int64_t groupOf(int64_t rank, const std::vector<uint32_t> &axes) const;

  const Timeline &timeline;
  std::vector<Producers> producers;
};

Analyser::Analyser(const Timeline &timeline) : timeline(timeline) {
  for (const std::vector<TimelineCommand> &listing : timeline.head.rankPrograms)
    producers.emplace_back(listing);
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

void Analyser::fill(RankStep &rank,
                    const std::vector<const TraceEvent *> &events) {
  rank.queues.resize(timeline.head.queues.size());
  int64_t count = 0;
  for (const TraceEvent *event : events) {
    const TimelineCommand &command = at(*event);
    if (command.role == CommandRole::Record ||
        command.role == CommandRole::Repeat)
      continue;
    ++count;
    rank.queues[command.queue].push_back(event);
    Interval span(event->begin, event->end);
    switch (
        activityOf(command.role, timeline.head.queues[command.queue].role)) {
    case Activity::Computation:
      rank.computing.push_back(span);
      break;
    case Activity::Communication:
      rank.communicating.push_back(span);
      break;
    case Activity::Copy:
      rank.copying.push_back(span);
      break;
    case Activity::None:
      break;
    }
  }
  uint32_t program = timeline.head.rankToProgram[size_t(rank.rank)];
  rank.isComplete = count == producers[program].numEvents();
  rank.computing = merge(std::move(rank.computing));
  rank.communicating = merge(std::move(rank.communicating));
  rank.copying = merge(std::move(rank.copying));
  rank.hidden = overlapOf(rank.computing, rank.communicating);
  std::vector<Interval> others = rank.computing;
  others.insert(others.end(), rank.communicating.begin(),
                rank.communicating.end());
  rank.copiesHidden = overlapOf(merge(std::move(others)), rank.copying);
}

namespace {
/// Takes `gap` apart by what lies in it of the ascending `causes`, and calls
/// `rest` with what none of them covers.
template <typename Rest>
void divide(const Interval &gap, const std::vector<Idle> &causes,
            std::vector<Idle> &idle, Rest rest) {
  int64_t from = gap.first;
  auto cause = std::upper_bound(
      causes.begin(), causes.end(), gap.first,
      [](int64_t time, const Idle &entry) { return time < entry.span.second; });
  for (; cause != causes.end() && cause->span.first < gap.second; ++cause) {
    Interval part = intersect({from, gap.second}, cause->span);
    if (lengthOf(part) == 0)
      continue;
    if (part.first > from)
      rest(Interval(from, part.first));
    idle.push_back({part, cause->cause, cause->command});
    from = part.second;
  }
  if (from < gap.second)
    rest(Interval(from, gap.second));
}
} // namespace

/// What the first compute queue does that is no computation: it waits, or
/// communicates itself.
std::vector<Idle> Analyser::findCauses(const RankStep &rank) const {
  std::vector<Idle> causes;
  const std::vector<Queue> &queues = timeline.head.queues;
  size_t first = size_t(std::find_if(queues.begin(), queues.end(),
                                     [](const Queue &queue) {
                                       return queue.role == QueueRole::Compute;
                                     }) -
                        queues.begin());
  if (first == queues.size())
    return causes;
  for (const TraceEvent *event : rank.queues[first]) {
    CommandRole role = at(*event).role;
    Idle entry{{event->begin, event->end}, Cause::Collective, event->command};
    if (role == CommandRole::Wait) {
      entry.command = producerOf(*event);
      bool communicates =
          entry.command &&
          timeline.head.commandsOf(rank.rank)[*entry.command].role ==
              CommandRole::Communicate;
      entry.cause = communicates ? Cause::Collective : Cause::Computation;
    }
    if (role != CommandRole::Compute)
      causes.push_back(entry);
  }
  return causes;
}

/// Collectives that begin and end in a gap in which no queue waits: where one
/// thread runs all queues, they are why nothing is computed.
std::vector<Idle> Analyser::findInside(const RankStep &rank,
                                       const Interval &gap) const {
  std::vector<Idle> inside;
  for (const auto &queue : rank.queues)
    for (const TraceEvent *event : queue)
      if (event->begin >= gap.first && event->end <= gap.second &&
          at(*event).role == CommandRole::Communicate)
        inside.push_back(
            {{event->begin, event->end}, Cause::Collective, event->command});
  std::sort(inside.begin(), inside.end(),
            [](const Idle &a, const Idle &b) { return a.span < b.span; });
  return inside;
}

/// The part of the step in which nothing is computed.
void Analyser::findIdle(RankStep &rank, const Interval &span) const {
  std::vector<Idle> causes = findCauses(rank);
  auto add = [&](const Interval &gap, Cause cause) {
    divide(gap, findInside(rank, gap), rank.idle, [&](const Interval &part) {
      rank.idle.push_back({part, cause, {}});
    });
  };
  auto addRest = [&](const Interval &gap) {
    if (rank.computing.empty() || gap.second <= rank.computing.front().first)
      add(gap, Cause::Beginning);
    else if (gap.first >= rank.computing.back().second)
      rank.idle.push_back({gap, Cause::End, {}});
    else
      add(gap, Cause::Launch);
  };
  for (const Interval &gap : gapsOf(span, rank.computing))
    divide(gap, causes, rank.idle, addRest);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// The collectives of a queue, with what came before each on that queue.
void Analyser::addRuns(RankStep &rank, const Runs &runs,
                       const std::vector<const TraceEvent *> &queue) const {
  const TraceEvent *before = nullptr; // the last collective
  constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
  int64_t ready = kNever; // when the awaited was done
  int64_t waited = 0, longest = 0;
  Place from;
  for (const TraceEvent *event : queue) {
    CommandRole role = at(*event).role;
    if (role == CommandRole::Wait) {
      int64_t length = event->end - event->begin;
      Place producer = producerOf(*event);
      waited += length;
      if (length > longest)
        longest = length, from = producer;
      if (!producer)
        continue;
      if (const TraceEvent *made = runs.find(timeline.head, *producer, *event))
        ready = std::max(ready, made->end);
    }
    if (role != CommandRole::Communicate)
      continue;
    CollectiveRun run{.event = event, .data = waited, .dataFrom = from};
    if (before) {
      int64_t free = std::min(event->begin, before->end);
      run.link = std::max<int64_t>(
          0, free - (ready == kNever ? before->begin : ready));
      if (run.link > 0)
        run.linkAfter = before->command;
    }
    rank.collectives.push_back(std::move(run));
    before = event, ready = kNever, waited = longest = 0, from.reset();
  }
}

void Analyser::findCollectives(RankStep &rank) const {
  Runs runs(timeline.head, rank);
  for (const auto &queue : rank.queues)
    addRuns(rank, runs, queue);
  for (CollectiveRun &run : rank.collectives) {
    Interval span(run.event->begin, run.event->end);
    run.hidden = overlapOf(span, rank.computing);
    auto idle = std::upper_bound(rank.idle.begin(), rank.idle.end(), span.first,
                                 [](int64_t time, const Idle &entry) {
                                   return time < entry.span.second;
                                 });
    for (; idle != rank.idle.end() && idle->span.first < span.second; ++idle)
      run.exposed.push_back(
          {intersect(span, idle->span), idle->cause, idle->command});
  }
}

/// The rank that is 0 on all of `axes`.
int64_t Analyser::groupOf(int64_t rank,
                          const std::vector<uint32_t> &axes) const {
  int64_t stride = 1, group = rank;
  for (size_t axis = timeline.head.mesh.size(); axis-- > 0;) {
    int64_t size = timeline.head.mesh[axis].size;
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      group -= rank / stride % size * stride;
    stride *= size;
  }
  return group;
}

/// Members of a group meet in the same order, so the n-th collective of a group
/// on a queue is the same on all.
void Analyser::findPeers(StepRun &step) const {
  using Group = std::tuple<std::vector<uint32_t>, int64_t, uint32_t>;
  std::map<std::pair<Group, size_t>, std::vector<CollectiveRun *>> meetings;
  for (RankStep &rank : step.ranks) {
    std::map<Group, size_t> met;
    for (CollectiveRun &run : rank.collectives) {
      const TimelineCommand &command = at(*run.event);
      Group group(command.axes, groupOf(rank.rank, command.axes),
                  command.queue);
      meetings[{group, met[group]++}].push_back(&run);
    }
  }
  for (auto &[meeting, runs] : meetings) {
    const TraceEvent *last = runs.front()->event;
    for (CollectiveRun *run : runs)
      if (run->event->begin > last->begin)
        last = run->event;
    for (CollectiveRun *run : runs) {
      run->peer = lengthOf(intersect({run->event->begin, run->event->end},
                                     {run->event->begin, last->begin}));
      if (run->peer > 0)
        run->lastPeer = last->rank;
    }
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// For an event, or for the other end of a transfer.
bool Analyser::onlyWaits(const TraceEvent &event) const {
  const TimelineCommand &command = at(event);
  if (!command.isTransfer())
    return command.role == CommandRole::Wait;
  std::vector<int64_t> points =
      trace::groupOf(timeline.head, command.axes, event.rank);
  return points[size_t(command.to)] == event.rank;
}

/// A point of a pipeline waits in a step while others are in the step before.
Interval Analyser::spanOf(const std::vector<const TraceEvent *> &events) const {
  Interval span(std::numeric_limits<int64_t>::max(), events.front()->end);
  for (const TraceEvent *event : events) {
    if (!onlyWaits(*event))
      span.first = std::min(span.first, event->begin);
    span.second = std::max(span.second, event->end);
  }
  return {std::min(span.first, span.second), span.second};
}

StepRun Analyser::makeStep(int64_t number,
                           std::vector<const TraceEvent *> events) {
  StepRun step{.step = number, .span = spanOf(events)};
  std::map<int64_t, std::vector<const TraceEvent *>> byRank;
  for (const TraceEvent *event : events)
    byRank[event->rank].push_back(event);
  step.isComplete = int64_t(byRank.size() + timeline.missing.size()) ==
                    timeline.head.numRanks();
  for (auto &[number, own] : byRank) {
    RankStep rank{.rank = number};
    // What takes no time follows the order of the Program.
    std::sort(own.begin(), own.end(), [](auto *a, auto *b) {
      return std::tie(a->begin, a->end, a->iteration, a->command) <
             std::tie(b->begin, b->end, b->iteration, b->command);
    });
    fill(rank, own);
    findIdle(rank, step.span);
    findCollectives(rank);
    step.isComplete &= rank.isComplete;
    step.ranks.push_back(std::move(rank));
  }
  findPeers(step);
  return step;
}

std::vector<StepRun> Analyser::run() {
  std::map<int64_t, std::vector<const TraceEvent *>> steps;
  for (const TraceEvent &event : timeline.events)
    steps[event.step].push_back(&event);
  std::vector<StepRun> result;
  for (auto &[number, events] : steps)
    result.push_back(makeStep(number, std::move(events)));
  return result;
}
} // namespace

std::vector<StepRun> analyse(const Timeline &timeline) {
  return Analyser(timeline).run();
}

} // namespace tandem::rt::trace
