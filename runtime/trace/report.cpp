//===- report.cpp - report of hidden communication ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/report.h"
#include "core/text.h"
#include "tandem_rt/action_times.h"
#include "trace/analysis.h"

#include <map>

namespace tandem::rt {

using trace::Cause;
using trace::CollectiveRun;
using trace::Idle;
using trace::RankStep;
using trace::StepRun;

double StepTimes::hiddenOfMin() const {
  double possible = std::min(computation, communication);
  return possible > 0 ? hidden / possible : 0;
}

double StepTimes::hiddenShare() const {
  return communication > 0 ? hidden / communication : 0;
}

int64_t Report::clockError() const {
  int64_t error = 0;
  for (const TimelineClock &clock : head.clocks)
    if (clock.error < 0 || error < 0)
      error = -1;
    else
      error = std::max(error, clock.error);
  return error;
}

namespace {
double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half]
                           : (values[half - 1] + values[half]) / 2;
}

/// Ascending by what `key` gives.
template <typename Entry, typename Key>
void sortBy(std::vector<Entry> &list, Key key) {
  std::sort(list.begin(), list.end(),
            [&](const Entry &a, const Entry &b) { return key(a) < key(b); });
}

double toSeconds(int64_t nanos) { return double(nanos) * 1e-9; }

/// Numbers by step; a step that has none of a key has 0.
template <typename Key> class Samples {
public:
  explicit Samples(size_t numSteps = 0) : numSteps(numSteps) {}
  void add(const Key &key, size_t step, double value) {
    std::vector<double> &values = samples[key];
    values.resize(numSteps);
    values[step] += value;
  }
  auto begin() const { return samples.begin(); }
  auto end() const { return samples.end(); }

private:
  size_t numSteps;
  std::map<Key, std::vector<double>> samples;
};

/// A command by rank program and place.
using Place = std::pair<uint32_t, uint32_t>;
/// Why something stood still, and for which place, or -1.
using Reason = std::tuple<std::string_view, uint32_t, int64_t>;

/// What all runs of one collective add up to, by step.
struct CollectiveSamples {
  explicit CollectiveSamples(size_t numSteps)
      : seconds(numSteps), hidden(numSteps), exposed(numSteps), data(numSteps),
        link(numSteps), peer(numSteps), exposedFor(numSteps) {}
  std::vector<double> seconds, hidden, exposed, data, link, peer;
  std::map<uint32_t, double> dataFrom, linkAfter;
  std::map<int64_t, double> lastPeer;
  Samples<Reason> exposedFor;
  double runs = 0;
};

class Reporter {
public:
  Reporter(const Timeline &timeline, const ReportOptions &options)
      : timeline(timeline), head(timeline.head), options(options) {}
  Expected<Report> run();

private:
  Status chooseSteps();
  void addSteps();
  void addRanks();
  void addPoints();
  void addPoint(int64_t point, const std::vector<const RankReport *> &ranks);
  void addMemory(uint32_t rankProgram, PointReport &entry) const;
  void addEdges(uint32_t axis);
  int64_t pointOf(int64_t rank, uint32_t axis) const;
  void sampleCollectives();
  void sample(const CollectiveRun &run, size_t step);
  void addCollectives();
  void addComputations();

  StepTimes timesOf(const StepRun &step, const RankStep &rank) const;
  StepTimes meanOf(const StepRun &step) const;
  CommandName nameOf(uint32_t rankProgram, uint32_t place) const;
  std::vector<WaitReason> sortReasons(const Samples<Reason> &samples) const;
  Reason reasonOf(const Idle &idle, uint32_t rankProgram) const;
  uint32_t programOf(int64_t rank) const {
    return head.rankToProgram[size_t(rank)];
  }
  /// Of those that have events.
  double numRanksOf(uint32_t rankProgram) const;

  const Timeline &timeline;
  const TimelineHead &head;
  const ReportOptions options;
  std::vector<StepRun> all;
  std::vector<const StepRun *> counted;
  std::map<Place, CollectiveSamples> samples;
  Report report;
};

//===----------------------------------------------------------------------===//
// Steps and ranks
//===----------------------------------------------------------------------===//

Status Reporter::chooseSteps() {
  all = trace::analyse(timeline);
  if (all.empty())
    return Status::error("nothing was recorded: no command has run in the "
                         "timeline");
  if (options.skip >= int64_t(all.size()))
    return errorOf("skip is ", options.skip, ", expected less than the ",
                   all.size(), " steps of the timeline");
  for (size_t i = size_t(options.skip); i < all.size(); ++i)
    if (all[i].isComplete)
      counted.push_back(&all[i]);
  bool takesAll = counted.empty();
  for (size_t i = size_t(options.skip); i < all.size() && takesAll; ++i)
    counted.push_back(&all[i]);
  return Status::success();
}

StepTimes Reporter::timesOf(const StepRun &step, const RankStep &rank) const {
  int64_t seconds = trace::lengthOf(step.span);
  int64_t computation = trace::lengthOf(rank.computing);
  int64_t communication = trace::lengthOf(rank.communicating);
  int64_t peers = 0;
  for (const CollectiveRun &run : rank.collectives)
    peers += run.peer;
  return {toSeconds(seconds),
          toSeconds(computation),
          toSeconds(communication),
          toSeconds(rank.hidden),
          toSeconds(communication - rank.hidden),
          toSeconds(seconds - computation),
          toSeconds(peers),
          toSeconds(trace::lengthOf(rank.copying)),
          toSeconds(rank.copiesHidden)};
}

constexpr double StepTimes::*kTimes[] = {
    &StepTimes::seconds,        &StepTimes::computation,
    &StepTimes::communication,  &StepTimes::hidden,
    &StepTimes::exposed,        &StepTimes::idle,
    &StepTimes::waitedForPeers, &StepTimes::copies,
    &StepTimes::copiesHidden};

StepTimes Reporter::meanOf(const StepRun &step) const {
  StepTimes mean;
  for (const RankStep &rank : step.ranks) {
    StepTimes own = timesOf(step, rank);
    for (auto field : kTimes)
      mean.*field += own.*field / double(step.ranks.size());
  }
  return mean;
}

StepTimes medianOf(const std::vector<StepTimes> &list) {
  StepTimes result;
  for (auto field : kTimes) {
    std::vector<double> values;
    for (const StepTimes &times : list)
      values.push_back(times.*field);
    result.*field = median(values);
  }
  return result;
}

void Reporter::addSteps() {
  std::vector<StepTimes> list;
  for (size_t i = size_t(options.skip); i < all.size(); ++i)
    report.steps.push_back({all[i].step, all[i].isComplete, meanOf(all[i])});
  for (const StepRun *step : counted)
    list.push_back(meanOf(*step));
  report.total = medianOf(list);
}

CommandName Reporter::nameOf(uint32_t rankProgram, uint32_t place) const {
  const TimelineCommand &command = head.rankPrograms[rankProgram][place];
  return {rankProgram, command.id, command.name, command.kind, command.source};
}

Reason Reporter::reasonOf(const Idle &idle, uint32_t rankProgram) const {
  return {trace::kCauseNames[size_t(idle.cause)], rankProgram,
          idle.command ? int64_t(*idle.command) : -1};
}

std::vector<WaitReason>
Reporter::sortReasons(const Samples<Reason> &samples) const {
  std::vector<WaitReason> reasons;
  for (const auto &[reason, values] : samples) {
    auto [why, rankProgram, place] = reason;
    WaitReason entry{.why = std::string(why), .seconds = median(values)};
    if (place >= 0)
      entry.command = nameOf(rankProgram, uint32_t(place));
    if (entry.seconds > 0)
      reasons.push_back(std::move(entry));
  }
  sortBy(reasons, [](const WaitReason &reason) {
    return std::pair(-reason.seconds,
                     reason.command.value_or(CommandName()).id);
  });
  return reasons;
}

void Reporter::addRanks() {
  for (int64_t rank = 0; rank < head.numRanks(); ++rank) {
    std::vector<StepTimes> list;
    Samples<Reason> idle(counted.size());
    for (size_t i = 0; i < counted.size(); ++i)
      for (const RankStep &own : counted[i]->ranks) {
        if (own.rank != rank)
          continue;
        list.push_back(timesOf(*counted[i], own));
        for (const Idle &entry : own.idle)
          idle.add(reasonOf(entry, programOf(rank)), i,
                   toSeconds(trace::lengthOf(entry.span)));
      }
    if (!list.empty())
      report.ranks.push_back({.rank = rank,
                              .times = medianOf(list),
                              .idleFor = sortReasons(idle)});
  }
}

/// The axis of the transfers; that of a mesh without any is none.
std::optional<uint32_t> pipeAxisOf(const TimelineHead &head) {
  for (const auto &listing : head.rankPrograms)
    for (const TimelineCommand &command : listing)
      if (command.isTransfer())
        return command.axes.front();
  return std::nullopt;
}

int64_t Reporter::pointOf(int64_t rank, uint32_t axis) const {
  int64_t stride = 1;
  for (size_t inner = axis + 1; inner < head.mesh.size(); ++inner)
    stride *= head.mesh[inner].size;
  return rank / stride % head.mesh[axis].size;
}

void Reporter::addMemory(uint32_t rankProgram, PointReport &entry) const {
  entry.inFlight =
      std::max(entry.inFlight, countInFlight(head.rankPrograms[rankProgram]));
  if (head.memory.empty())
    return;
  const TimelineMemory &own = head.memory[rankProgram];
  TimelineMemory before = entry.memory.value_or(own);
  entry.memory = {std::max(before.held, own.held),
                  std::max(before.values, own.values)};
}

/// Means over the ranks of a point.
void Reporter::addPoint(int64_t point,
                        const std::vector<const RankReport *> &ranks) {
  double share = 1 / double(ranks.size());
  PointReport entry{.point = point};
  std::map<std::pair<std::string, std::optional<CommandName>>, double> reasons;
  for (const RankReport *rank : ranks) {
    entry.ranks.push_back(rank->rank);
    entry.idle += share * rank->times.idle;
    entry.bubble += share * rank->times.idle / rank->times.seconds;
    for (const WaitReason &reason : rank->idleFor)
      reasons[{reason.why, reason.command}] += share * reason.seconds;
    addMemory(programOf(rank->rank), entry);
  }
  for (const auto &[reason, seconds] : reasons)
    entry.idleFor.push_back({reason.first, reason.second, seconds});
  sortBy(entry.idleFor,
         [](const WaitReason &reason) { return -reason.seconds; });
  report.points.push_back(std::move(entry));
}

void Reporter::addPoints() {
  std::optional<uint32_t> axis = pipeAxisOf(head);
  if (!axis)
    return;
  report.pipeAxis = head.mesh[*axis].name;
  std::map<int64_t, std::vector<const RankReport *>> ranksOf;
  for (const RankReport &rank : report.ranks)
    if (rank.times.seconds > 0)
      ranksOf[pointOf(rank.rank, *axis)].push_back(&rank);
  for (const auto &[point, ranks] : ranksOf)
    addPoint(point, ranks);
  addEdges(*axis);
}

/// Both ends list a transfer; the one that sends counts.
void Reporter::addEdges(uint32_t axis) {
  double share = double(head.mesh[axis].size) / double(head.numRanks());
  std::map<std::pair<int64_t, int64_t>, EdgeReport> edges;
  for (int64_t rank = 0; rank < head.numRanks(); ++rank) {
    std::map<int64_t, int64_t> counts;
    for (const TimelineCommand &command : head.commandsOf(rank)) {
      if (command.role == CommandRole::Repeat)
        counts[command.id] = command.count;
      if (!command.isTransfer() || command.from != pointOf(rank, axis))
        continue;
      auto count = counts.find(command.repeat);
      double times = share * double(count == counts.end() ? 1 : count->second);
      EdgeReport &edge = edges[{command.from, command.to}];
      edge.from = command.from, edge.to = command.to;
      edge.transfers += times;
      edge.bytes += times * double(command.bytes);
    }
  }
  for (const auto &[points, edge] : edges)
    report.edges.push_back(edge);
}

double Reporter::numRanksOf(uint32_t rankProgram) const {
  double count = 0;
  for (const RankReport &rank : report.ranks)
    count += programOf(rank.rank) == rankProgram;
  return count;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void Reporter::sample(const CollectiveRun &run, size_t step) {
  uint32_t rankProgram = programOf(run.event->rank);
  Place place(rankProgram, run.event->command);
  CollectiveSamples &own =
      samples.try_emplace(place, counted.size()).first->second;
  double share = 1 / numRanksOf(rankProgram);
  own.runs += share;
  int64_t length = run.event->end - run.event->begin;
  own.seconds[step] += share * toSeconds(length);
  own.hidden[step] += share * toSeconds(run.hidden);
  own.exposed[step] += share * toSeconds(length - run.hidden);
  own.data[step] += share * toSeconds(run.data);
  own.link[step] += share * toSeconds(run.link);
  own.peer[step] += share * toSeconds(run.peer);
  if (run.dataFrom)
    own.dataFrom[*run.dataFrom] += toSeconds(run.data);
  if (run.linkAfter)
    own.linkAfter[*run.linkAfter] += toSeconds(run.link);
  if (run.lastPeer >= 0)
    own.lastPeer[run.lastPeer] += toSeconds(run.peer);
  for (const Idle &idle : run.exposed) {
    Reason reason = reasonOf(idle, rankProgram);
    if (idle.cause == Cause::Collective && idle.command == run.event->command)
      reason = {"needed", rankProgram, -1};
    own.exposedFor.add(reason, step,
                       share * toSeconds(trace::lengthOf(idle.span)));
  }
}

void Reporter::sampleCollectives() {
  for (size_t i = 0; i < counted.size(); ++i)
    for (const RankStep &rank : counted[i]->ranks)
      for (const CollectiveRun &run : rank.collectives)
        sample(run, i);
}

/// The key of the largest value; `none` if there is none.
template <typename Key, typename Result>
Result largest(const std::map<Key, double> &values, Result none) {
  auto it = std::max_element(
      values.begin(), values.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  return it == values.end() ? none : Result(it->first);
}

void Reporter::addCollectives() {
  sampleCollectives();
  for (const auto &[place, own] : samples) {
    auto [rankProgram, number] = place;
    const TimelineCommand &command = head.rankPrograms[rankProgram][number];
    CollectiveReport entry{.command = nameOf(rankProgram, number),
                           .bytes = command.bytes,
                           .stage = command.stage,
                           .strand = command.strand,
                           .times = own.runs / double(counted.size()),
                           .seconds = median(own.seconds),
                           .hidden = median(own.hidden),
                           .exposed = median(own.exposed),
                           .data = median(own.data),
                           .link = median(own.link),
                           .peer = median(own.peer),
                           .lastPeer = largest(own.lastPeer, int64_t(-1)),
                           .exposedFor = sortReasons(own.exposedFor)};
    for (uint32_t axis : command.axes)
      entry.axes.push_back(head.mesh[axis].name);
    if (int64_t from = largest(own.dataFrom, int64_t(-1)); from >= 0)
      entry.dataFrom = nameOf(rankProgram, uint32_t(from));
    if (int64_t after = largest(own.linkAfter, int64_t(-1)); after >= 0)
      entry.linkAfter = nameOf(rankProgram, uint32_t(after));
    report.collectives.push_back(std::move(entry));
  }
  sortBy(report.collectives, [](const CollectiveReport &entry) {
    return std::pair(-entry.exposed, entry.command);
  });
}

void Reporter::addComputations() {
  Samples<Place> seconds(counted.size()), runs(counted.size());
  for (size_t i = 0; i < counted.size(); ++i)
    for (const RankStep &rank : counted[i]->ranks) {
      uint32_t rankProgram = programOf(rank.rank);
      double share = 1 / numRanksOf(rankProgram);
      for (const auto &queue : rank.queues)
        for (const TraceEvent *event : queue)
          if (head[*event].role == CommandRole::Compute) {
            Place place(rankProgram, event->command);
            seconds.add(place, i, share * toSeconds(event->end - event->begin));
            runs.add(place, i, share);
          }
    }
  auto count = runs.begin();
  for (const auto &[place, values] : seconds)
    report.computations.push_back({nameOf(place.first, place.second),
                                   median((count++)->second),
                                   median(values),
                                   {}});
  sortBy(report.computations, [](const ComputationReport &entry) {
    return std::pair(-entry.seconds, entry.command);
  });
}

Expected<Report> Reporter::run() {
  if (Status status = chooseSteps(); !status.ok())
    return status;
  report.head = head;
  report.head.rankPrograms.clear();
  report.missing = timeline.missing;
  addSteps();
  addRanks();
  addPoints();
  addCollectives();
  addComputations();
  return std::move(report);
}

//===----------------------------------------------------------------------===//
// Predictions
//===----------------------------------------------------------------------===//

std::string compareMachines(const TimelineHead &own,
                            const TimelineHead &predicted) {
  if (own.machine.empty() || predicted.machine.empty() ||
      own.machine == predicted.machine)
    return "";
  return concat("predicted by a profile of another machine, '",
                predicted.machine, "', than ran the step, '", own.machine, "'");
}

void addPrediction(Report &report, const Report &predicted) {
  report.predictedFrom = predicted.head.predictedFrom;
  report.warning = compareMachines(report.head, predicted.head);
  report.predicted = predicted.total;
  std::map<int64_t, const RankReport *> ranks;
  std::map<CommandName, const CollectiveReport *> collectives;
  std::map<CommandName, const ComputationReport *> computations;
  for (const RankReport &rank : predicted.ranks)
    ranks[rank.rank] = &rank;
  for (const CollectiveReport &entry : predicted.collectives)
    collectives[entry.command] = &entry;
  for (const ComputationReport &entry : predicted.computations)
    computations[entry.command] = &entry;
  for (RankReport &rank : report.ranks)
    if (auto it = ranks.find(rank.rank); it != ranks.end())
      rank.predicted = it->second->times;
  for (PointReport &point : report.points)
    for (const PointReport &other : predicted.points)
      if (other.point == point.point)
        point.predicted = other.bubble;
  for (CollectiveReport &entry : report.collectives)
    if (auto it = collectives.find(entry.command); it != collectives.end())
      entry.predicted = {it->second->seconds, it->second->hidden};
  for (ComputationReport &entry : report.computations)
    if (auto it = computations.find(entry.command); it != computations.end())
      entry.predicted = it->second->seconds;
}
} // namespace

Expected<Report> makeReport(const Timeline &timeline, const Timeline *predicted,
                            const ReportOptions &options) {
  if (predicted && predicted->head.program != timeline.head.program)
    return errorOf("the prediction is of program ", predicted->head.program,
                   ", expected ", timeline.head.program,
                   " as the timeline: predict it again");
  Expected<Report> report = Reporter(timeline, options).run();
  if (!report.ok() || !predicted)
    return report;
  Expected<Report> other = Reporter(*predicted, {}).run();
  if (!other.ok())
    return errorOf("prediction: ", other.status().message());
  addPrediction(*report, *other);
  return report;
}

} // namespace tandem::rt
