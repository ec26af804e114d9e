//===- StepModel.cpp - a Program in another order, simulated --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replan/StepModel.h"
#include "Sum.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

using namespace tandem;
using namespace tandem::replan;
using rt::CommandRole;
using rt::TimelineCommand;

/// Of a mean over noise.
static constexpr int64_t kNoisySteps = 32;

//===----------------------------------------------------------------------===//
// What a listing says
//===----------------------------------------------------------------------===//

namespace {
using Listing = std::vector<TimelineCommand>;

bool isComputing(const rt::TimelineHead &head, const TimelineCommand &command) {
  return head.queues[command.queue].role == rt::QueueRole::Compute;
}

/// Takes a listing apart into what belongs to each action. An event stands for
/// what its queue did before.
class BlockReader {
public:
  BlockReader(const rt::TimelineHead &head, const rt::RankProgram &program,
              const Listing &list, int64_t point)
      : head(head), commands(program.listing()), list(list), point(point) {}
  PointBlocks run();

private:
  void findLast();
  void compute(uint32_t place);
  void waitOfCompute(const TimelineCommand &wait, uint32_t place);
  void other(uint32_t place);
  void transfer(uint32_t place, const rt::Transfer &transfer, size_t half);
  size_t getNow() const { return result.blocks.size() - 1; }

  const rt::TimelineHead &head;
  std::vector<const rt::Command *> commands;
  const Listing &list;
  int64_t point;
  /// Behind the last command of an action.
  uint32_t last = 0;
  /// Of events on the queue of computation the half of a block that follows, of
  /// others the place.
  std::map<uint32_t, size_t> halfOf;
  std::map<uint32_t, uint32_t> placeOf;
  /// By queue: what it has waited for.
  std::map<uint32_t, size_t> halves;
  /// By queue, what the point has not waited for: of `receives`, and of the
  /// sends of blocks.
  std::map<uint32_t, std::vector<size_t>> receiving;
  std::map<uint32_t, std::vector<std::pair<size_t, size_t>>> sending;
  /// What the next command waits for.
  std::vector<uint32_t> waits;
  std::vector<size_t> received;
  PointBlocks result;
};
} // namespace

void BlockReader::findLast() {
  for (uint32_t place = 0; place < list.size(); ++place)
    if (auto name = rt::actionNameOf(list[place]);
        name && name->letter != 'S' && isComputing(head, list[place]))
      last = place;
}

/// A command without the name of an action belongs to the one before.
void BlockReader::compute(uint32_t place) {
  std::optional<rt::ActionName> name = rt::actionNameOf(list[place]);
  Block &now = result.blocks.back();
  bool isTail = place > last && !now.name.letter && getNow() > 0;
  if (name && name->letter != 'S' && *name != now.name)
    result.blocks.emplace_back().name = *name;
  else if (place > last && !isTail)
    result.blocks.push_back({});
  Block &block = result.blocks.back();
  for (size_t receive : std::exchange(received, {})) {
    Moved &own = result.receives[receive];
    own.reader = getNow();
    own.early = 2 * own.reader - std::min(2 * own.reader, own.early);
  }
  block.places.insert(block.places.end(), waits.begin(), waits.end());
  waits.clear();
  block.places.push_back(place);
}

/// For all that the queue of the event did before.
void BlockReader::waitOfCompute(const TimelineCommand &wait, uint32_t place) {
  uint32_t recorded = placeOf[wait.event], queue = list[recorded].queue;
  if (auto found = sending.find(queue); found != sending.end()) {
    std::erase_if(found->second, [&](auto each) {
      auto [block, number] = each;
      Moved &send = result.blocks[block].sends[number];
      if (send.place < recorded)
        send.late = getNow() - block;
      return send.place < recorded;
    });
  } else if (auto found = receiving.find(queue); found != receiving.end()) {
    std::erase_if(found->second, [&](size_t receive) {
      bool isThere = result.receives[receive].place < recorded;
      if (isThere)
        received.push_back(receive);
      return isThere;
    });
  } else {
    waits.push_back(place);
  }
}

void BlockReader::transfer(uint32_t place, const rt::Transfer &transfer,
                           size_t half) {
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  Moved moved{place, transfer.tag, kNever, kNever, 0};
  if (transfer.to == point) {
    receiving[list[place].queue].push_back(result.receives.size());
    moved.early = half; // until its reader is known
    result.receives.push_back(moved);
    return;
  }
  size_t block = half / 2 - 1;
  std::vector<Moved> &sends = result.blocks[block].sends;
  sending[list[place].queue].emplace_back(block, sends.size());
  sends.push_back(moved);
}

/// Of another queue than that of computation.
void BlockReader::other(uint32_t place) {
  const TimelineCommand &command = list[place];
  size_t &half = halves.try_emplace(command.queue, 2).first->second;
  if (command.role == CommandRole::Wait) {
    if (auto found = halfOf.find(command.event); found != halfOf.end())
      half = std::max(half, found->second);
  } else if (command.role == CommandRole::Record) {
    placeOf[command.event] = place;
  }
  if (const auto *movement =
          std::get_if<rt::Transfer>(&commands[place]->operation))
    transfer(place, *movement, half);
  else if (!receiving.contains(command.queue) &&
           !sending.contains(command.queue))
    result.blocks[half / 2 - 1].places.push_back(place);
}

PointBlocks BlockReader::run() {
  findLast();
  for (uint32_t place = 0; place < list.size(); ++place)
    if (const auto *op =
            std::get_if<rt::Transfer>(&commands[place]->operation)) {
      if (op->to == point)
        receiving[list[place].queue];
      else
        sending[list[place].queue];
    }
  result.blocks.push_back({});
  for (uint32_t place = 0; place < list.size(); ++place) {
    const TimelineCommand &command = list[place];
    if (!isComputing(head, command)) {
      other(place);
    } else if (command.role == CommandRole::Wait) {
      waitOfCompute(command, place);
    } else if (command.role == CommandRole::Record) {
      bool isBehind = !waits.empty() || !received.empty();
      halfOf[command.event] = 2 * (getNow() + 1) + isBehind;
      result.blocks.back().places.push_back(place);
    } else {
      compute(place);
    }
  }
  if (result.blocks.back().name.letter)
    result.blocks.push_back({});
  result.blocks.back().places.insert(result.blocks.back().places.end(),
                                     waits.begin(), waits.end());
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// The listing in another order
//===----------------------------------------------------------------------===//

namespace {
/// Tags of what goes from a point to another one, in the order of the sender.
using Tags = std::vector<int64_t>;
using SendOrders = std::map<std::pair<int64_t, int64_t>, Tags>;

class BlockWriter {
public:
  /// The blocks of `point` in the order of `row`.
  BlockWriter(const PointBlocks &point, const Listing &list,
              const std::vector<orders::Action> &row);
  void addSends(SendOrders &sends) const;
  Listing run(const SendOrders &sends);

private:
  struct Due {
    const Moved *receive;
    /// The half of a block that it begins with, and the block that reads it.
    size_t half, reader;
  };
  void begin(const Moved &moved, std::map<const Moved *, uint32_t> &events);
  void addEvent(CommandRole role, uint32_t queue, uint32_t event) {
    TimelineCommand command;
    command.role = role;
    command.queue = queue;
    command.event = event;
    written.push_back(command);
  }
  std::vector<Due> orderReceives(const SendOrders &sends) const;

  const PointBlocks &point;
  const Listing &list;
  /// Numbers of blocks, and of each block its place among them.
  std::vector<size_t> sequence, places;
  uint32_t compute = 0, numEvents = 0;
  Listing written;
};
} // namespace

BlockWriter::BlockWriter(const PointBlocks &point, const Listing &list,
                         const std::vector<orders::Action> &row)
    : point(point), list(list), places(point.blocks.size()) {
  std::map<rt::ActionName, size_t> numbers;
  for (size_t i = 1; i + 1 < point.blocks.size(); ++i)
    numbers[point.blocks[i].name] = i;
  sequence.push_back(0);
  for (const orders::Action &action : row)
    if (auto found =
            numbers.find({action.section, orders::getLetter(action.kind),
                          action.microbatch});
        found != numbers.end())
      sequence.push_back(found->second);
  sequence.push_back(point.blocks.size() - 1);
  for (size_t i = 0; i < sequence.size(); ++i)
    places[sequence[i]] = i;
  for (const TimelineCommand &command : list)
    numEvents = std::max(numEvents, command.event + 1);
}

void BlockWriter::addSends(SendOrders &sends) const {
  for (size_t block : sequence)
    for (const Moved &send : point.blocks[block].sends)
      sends[{list[send.place].from, list[send.place].to}].push_back(send.tag);
}

/// As their senders list them. None begins behind one that comes after it.
std::vector<BlockWriter::Due>
BlockWriter::orderReceives(const SendOrders &sends) const {
  std::map<std::pair<int64_t, int64_t>, std::map<int64_t, Due>> byTag;
  for (const Moved &each : point.receives) {
    size_t reader =
        each.reader < places.size() ? places[each.reader] : sequence.size();
    const TimelineCommand &command = list[each.place];
    byTag[{command.from, command.to}][each.tag] = {
        &each, 2 * reader - std::min(2 * reader, each.early), reader};
  }
  std::vector<Due> all;
  for (auto &[ends, tags] : byTag) {
    size_t first = all.size();
    auto own = sends.find(ends);
    for (int64_t tag : own == sends.end() ? Tags() : own->second)
      if (auto found = tags.find(tag); found != tags.end())
        all.push_back(found->second);
    for (size_t i = all.size(); i-- > first + 1;)
      all[i - 1].half = std::min(all[i - 1].half, all[i].half);
  }
  return all;
}

/// Behind what the point has computed so far.
void BlockWriter::begin(const Moved &moved,
                        std::map<const Moved *, uint32_t> &events) {
  uint32_t queue = list[moved.place].queue;
  addEvent(CommandRole::Record, compute, numEvents);
  addEvent(CommandRole::Wait, queue, numEvents++);
  written.push_back(list[moved.place]);
  addEvent(CommandRole::Record, queue, events[&moved] = numEvents++);
}

Listing BlockWriter::run(const SendOrders &sends) {
  std::vector<Due> receives = orderReceives(sends);
  std::map<const Moved *, uint32_t> events;
  std::vector<std::pair<size_t, const Moved *>> sent;
  for (size_t now = 0; now < sequence.size(); ++now) {
    const Block &block = point.blocks[sequence[now]];
    for (size_t half : {2 * now, 2 * now + 1}) {
      for (const Due &due : receives)
        if (due.half == half)
          begin(*due.receive, events);
      for (const Due &due : receives)
        if (half == 2 * due.reader)
          addEvent(CommandRole::Wait, compute, events.at(due.receive));
    }
    for (uint32_t place : block.places)
      written.push_back(list[place]);
    for (auto [late, send] : sent)
      if (late == now)
        addEvent(CommandRole::Wait, compute, events.at(send));
    for (const Moved &send : block.sends) {
      begin(send, events);
      if (send.late == 0)
        addEvent(CommandRole::Wait, compute, events.at(&send));
      else if (send.late < sequence.size())
        sent.emplace_back(now + send.late, &send);
    }
  }
  // Other queues wait for no transfer any more.
  std::set<uint32_t> recorded;
  for (const TimelineCommand &command : written)
    if (command.role == CommandRole::Record)
      recorded.insert(command.event);
  std::erase_if(written, [&](const TimelineCommand &command) {
    return command.role == CommandRole::Wait &&
           !recorded.contains(command.event);
  });
  return std::move(written);
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

int64_t replan::getFirstStep(const rt::Timeline &timeline) {
  std::set<int64_t> steps;
  for (const rt::TraceEvent &event : timeline.events)
    steps.insert(event.step);
  return steps.size() > 1 ? *std::next(steps.begin()) : *steps.begin();
}

static double getDuration(const rt::TraceEvent &event) {
  return 1e-9 * static_cast<double>(event.end - event.begin);
}

/// From the first computation to the last end, the mean over steps.
static double getStep(const rt::Timeline &timeline, int64_t firstStep) {
  std::map<int64_t, std::pair<int64_t, int64_t>> spans;
  for (const rt::TraceEvent &event : timeline.events) {
    if (event.step < firstStep)
      continue;
    auto &[begin, end] =
        spans.try_emplace(event.step, std::numeric_limits<int64_t>::max(), 0)
            .first->second;
    end = std::max(end, event.end);
    if (timeline.head[event].role == CommandRole::Compute)
      begin = std::min(begin, event.begin);
  }
  double sum = 0;
  for (const auto &[step, span] : spans)
    sum += 1e-9 * static_cast<double>(span.second - span.first);
  return sum / static_cast<double>(spans.size());
}

StepModel::StepModel(const rt::Program &program, const rt::Timeline &timeline,
                     const std::vector<int64_t> &ranks)
    : head(timeline.head), measured(getStep(timeline, getFirstStep(timeline))) {
  for (size_t point = 0; point < ranks.size(); ++point) {
    uint32_t number = program.rankToProgram[ranks[point]];
    numbers.push_back(number);
    points.push_back(BlockReader(head, program.rankPrograms[number],
                                 head.rankPrograms[number], point)
                         .run());
  }
  readComputation(timeline);
  readMovements(program, timeline);
}

/// The mean, on the slowest rank.
void StepModel::readComputation(const rt::Timeline &timeline) {
  int64_t firstStep = getFirstStep(timeline);
  std::map<std::pair<int64_t, uint32_t>, Sum> sums;
  for (const rt::TraceEvent &event : timeline.events)
    if (event.step >= firstStep && head[event].role == CommandRole::Compute)
      sums[{event.rank, event.command}].add(getDuration(event));
  double variance = 0, all = 0;
  times.seconds.resize(head.rankPrograms.size());
  for (const auto &[key, sum] : sums) {
    uint32_t number = head.rankToProgram[key.first];
    double &seconds =
        times.seconds[number][head.rankPrograms[number][key.second].id];
    seconds = std::max(seconds, sum.getMean());
    variance += sum.seconds * sum.getRelativeVariance();
    all += sum.seconds;
  }
  spread = all > 0 ? std::sqrt(variance / all) : 0;
}

namespace {
/// Movements of one class take the same time.
using Class =
    std::tuple<std::string, std::vector<uint32_t>, int64_t, int64_t, int64_t>;

Class getClass(const TimelineCommand &command) {
  return {command.kind, command.axes, command.from, command.to, command.bytes};
}
} // namespace

/// Of all events of a movement the shortest, as who comes last waits for
/// nothing; of collectives, the shortest of all steps.
static std::map<Class, std::vector<double>>
listMovements(const rt::Program &program, const rt::Timeline &timeline) {
  int64_t firstStep = getFirstStep(timeline);
  std::map<Class, std::map<std::pair<int64_t, int64_t>, double>> least;
  std::vector<std::vector<const rt::Command *>> listings;
  for (const rt::RankProgram &each : program.rankPrograms)
    listings.push_back(each.listing());
  for (const rt::TraceEvent &event : timeline.events) {
    const TimelineCommand &command = timeline.head[event];
    // A combined verdict takes no time.
    if (event.step < firstStep || command.role != CommandRole::Communicate ||
        command.kind.starts_with("check_"))
      continue;
    uint32_t number = timeline.head.rankToProgram[event.rank];
    const auto *transfer =
        std::get_if<rt::Transfer>(&listings[number][event.command]->operation);
    auto key = transfer ? std::pair(transfer->tag, event.step)
                        : std::pair<int64_t, int64_t>();
    double seconds = getDuration(event);
    double &own =
        least[getClass(command)].try_emplace(key, seconds).first->second;
    own = std::min(own, seconds);
  }
  std::map<Class, std::vector<double>> all;
  for (const auto &[key, movements] : least)
    for (const auto &[movement, seconds] : movements)
      all[key].push_back(seconds);
  return all;
}

/// The least of a class, or the median where times differ, shares no link. What
/// shares one with another takes up to twice as long: so what the longest take
/// more is no latency.
void StepModel::readMovements(const rt::Program &program,
                              const rt::Timeline &timeline) {
  auto all = listMovements(program, timeline);
  bool isNoisy = spread > kLeastSpread;
  for (auto &[key, list] : all)
    std::sort(list.begin(), list.end());
  times.collectives.resize(head.rankPrograms.size());
  times.latency.resize(head.rankPrograms.size());
  for (size_t number = 0; number < head.rankPrograms.size(); ++number)
    for (const TimelineCommand &command : head.rankPrograms[number]) {
      auto found = all.find(getClass(command));
      if (found == all.end())
        continue;
      const std::vector<double> &list = found->second;
      double own = list[isNoisy ? list.size() / 2 : 0];
      double most = list[isNoisy ? list.size() * 9 / 10 : list.size() - 1];
      times.collectives[number][command.id] = own;
      if (command.isTransfer())
        times.latency[number][command.id] = std::clamp(2 * own - most, 0., own);
    }
}

std::optional<double>
StepModel::getSeconds(const orders::Order &order,
                      std::optional<uint64_t> seed) const {
  std::vector<BlockWriter> writers;
  SendOrders sends;
  for (size_t point = 0; point < points.size(); ++point) {
    writers.emplace_back(points[point], head.rankPrograms[numbers[point]],
                         order.points[point]);
    writers.back().addSends(sends);
  }
  rt::TimelineHead own = head;
  for (size_t point = 0; point < points.size(); ++point)
    own.rankPrograms[numbers[point]] = writers[point].run(sends);
  rt::SimulationOptions options;
  if (seed)
    options = {.jitter = spread, .seed = *seed, .steps = kNoisySteps};
  auto simulated = rt::predictTimeline(own, times, options);
  return simulated.ok() ? std::optional(getStep(*simulated, 0)) : std::nullopt;
}
