//===- engine.cpp - a step in virtual time --------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Discrete events. While a rank computes and moves data, computation runs at
// 1 / a of its speed and a movement at 1 / b (a, b: the slow-downs of the
// machine); the latency of a movement disturbs nothing. Copies slow computation
// down by a factor of their own, and nothing slows them down. So the end of
// what runs changes with what begins and ends beside it: it is put into the
// heap of ends again, and the older entry is ignored.
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "sim/fair_share.h"
#include "sim/fold.h"
#include "sim/jitter.h"
#include "sim/listing.h"
#include "tandem_rt/simulate.h"
#include "trace/prices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <set>

namespace tandem::rt {

namespace sim {
namespace {
constexpr int64_t kMaxCommands = int64_t(1) << 24; ///< Of all simulated ranks.
/// What ends so soon after another ends with it: rounding parts nothing, s.
constexpr double kSameTime = 1e-12;
constexpr uint32_t kNone = ~uint32_t(0);

/// A queue of a simulated rank.
struct QueueState {
  uint32_t rank = 0; ///< Index into `ranks`.
  Cursor cursor;
  std::optional<double> begun = {}; ///< The command at hand.
  bool isBusy = false;
};

/// A simulated rank.
struct RankState {
  int64_t number = 0;
  const Listing *listing = nullptr;
  /// By event: how often it was recorded, and queues that wait for it.
  std::vector<uint32_t> records = {};
  std::vector<std::vector<uint32_t>> waiting = {};
  /// Jobs that run.
  std::vector<uint32_t> computing = {}, moving = {}, copying = {};
  std::vector<uint32_t> channels = {}; ///< By place, those that are known.
};

/// The commands of a group that meet, those of the two ends of a transfer, or
/// the copies of a rank in one direction.
struct Channel {
  std::vector<int64_t> members = {};
  std::vector<uint32_t> ranks = {}; ///< Simulated ones; of a transfer both.
  double numEqual = 1; ///< Channels of equal ranks, this one included.
  std::vector<uint32_t> come = {}; ///< Queues.
  uint64_t turn = 0;
};

/// What takes time.
struct Job {
  std::vector<uint32_t> queues = {}; ///< Whose commands end with it.
  uint32_t channel = kNone;          ///< None: it computes.
  bool isLatent = false, isTransfer = false, isCopy = false;
  Movement movement = {};
  size_t phase = 0;
  double share = 0;         ///< Speed beside no computation.
  double left = 0;          ///< Seconds, or the part of a phase.
  double speed = 0, at = 0; ///< Since when `left` falls.
  uint32_t version = 0;
  bool isDirty = false;
};

struct End {
  double time = 0;
  uint64_t order = 0;
  uint32_t job = 0, version = 0;
  bool operator>(const End &other) const {
    return std::tie(time, order) > std::tie(other.time, other.order);
  }
};

class Engine {
public:
  Engine(const TimelineHead &head, const Machine &machine,
         const SimulationOptions &options)
      : head(head), machine(machine), options(options),
        jitter(options.seed, options.jitter),
        folding(foldRanks(head, machine, options)), shares(machine.numLinks),
        transfersOver(machine.numLinks) {}
  Expected<Simulated> run();

private:
  Status prepare();
  void beginStep(int64_t step);
  Status runStep();
  void work(uint32_t queue);
  bool begin(uint32_t queue, const TimelineCommand &command);
  void record(RankState &rank, const TimelineCommand &command);
  bool wait(uint32_t queue, const TimelineCommand &command);
  bool compute(uint32_t queue);
  bool arrive(uint32_t queue, const TimelineCommand &command);
  bool isFree(const Channel &channel) const;
  void countTransfer(const Job &job, int change);
  void end(uint32_t queue);

  uint32_t channelOf(uint32_t queue, const TimelineCommand &command);
  uint32_t findChannel(const RankState &rank, const TimelineCommand &command);
  void countEqual(Channel &channel);
  void move(uint32_t channel);
  double share(uint32_t number);
  void beginPhase(uint32_t number);
  void endPhase(uint32_t number);
  void endJob(uint32_t number);

  uint32_t addJob(Job job);
  void setComputes(uint32_t number, bool begins);
  void setMoves(uint32_t number, bool begins);
  void setDirty(uint32_t number);
  double speedOf(const Job &job) const;
  void settle();
  bool advance();
  Simulated finish();

  bool isCopy(const TimelineCommand &command) const {
    return activityOf(command.role, head.queues[command.queue].role) ==
           Activity::Copy;
  }
  RankCommand commandOf(const QueueState &queue) const {
    return {ranks[queue.rank].number, queue.cursor.place()};
  }
  const TimelineCommand &at(const QueueState &queue) const {
    return ranks[queue.rank].listing->commands[queue.cursor.place()];
  }

  const TimelineHead &head;
  const Machine &machine;
  const SimulationOptions &options;
  const Jitter jitter;
  const Folding folding;
  FairShare shares;
  std::vector<Listing> listings;
  std::vector<RankState> ranks;
  std::map<int64_t, uint32_t> indices; ///< Of simulated ranks.
  std::vector<QueueState> queues;
  std::vector<uint32_t> ready; ///< Queues that may begin a command.
  /// By link, transfers that move over it, and channels that wait for them.
  std::vector<int> transfersOver;
  std::vector<uint32_t> yielding;

  std::vector<Channel> channels;
  using ChannelKey =
      std::tuple<std::vector<uint32_t>, int64_t, int64_t, uint32_t, uint32_t>;
  std::map<ChannelKey, uint32_t> channelNumbers;
  std::map<int64_t, double> numEqual; ///< Ranks, by the first of them.

  std::vector<Job> jobs;
  std::vector<uint32_t> freeJobs, dirty;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  uint64_t numEnds = 0;
  double now = 0;
  int64_t step = 0;
  Simulated result;
};

//===----------------------------------------------------------------------===//
// Queues
//===----------------------------------------------------------------------===//

Status Engine::prepare() {
  for (const auto &commands : head.rankPrograms)
    listings.emplace_back(commands, head.queues.size());
  int64_t commands = 0;
  for (int64_t rank = 0; rank < head.numRanks(); ++rank) {
    ++numEqual[folding.first[size_t(rank)]];
    if (folding.first[size_t(rank)] != rank)
      continue;
    const Listing &listing = listings[head.rankToProgram[size_t(rank)]];
    commands +=
        (listing.numCommands + int64_t(head.queues.size())) * options.steps;
    if (commands > kMaxCommands)
      return errorOf("the program has more than ", kMaxCommands,
                     " commands on all ranks that differ, which is too many "
                     "to simulate");
    indices[rank] = uint32_t(ranks.size());
    ranks.push_back({.number = rank, .listing = &listing});
    result.ranks.push_back(rank);
  }
  result.equalTo = folding.first;
  return Status::success();
}

void Engine::beginStep(int64_t number) {
  step = number;
  queues.clear();
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    RankState &rank = ranks[i];
    rank.records.assign(rank.listing->numEvents, 0);
    rank.waiting.assign(rank.listing->numEvents, {});
    for (const Stream &stream : rank.listing->queues) {
      ready.push_back(uint32_t(queues.size()));
      queues.push_back({.rank = i, .cursor = Cursor(stream)});
    }
  }
}

/// As many commands as the queue need not wait for.
void Engine::work(uint32_t number) {
  QueueState &queue = queues[number];
  while (!queue.isBusy && !queue.cursor.isAtEnd()) {
    queue.begun = queue.begun.value_or(now);
    if (!begin(number, at(queue)))
      return;
    end(number);
  }
}

/// False: it has not ended yet.
bool Engine::begin(uint32_t number, const TimelineCommand &command) {
  switch (command.role) {
  case CommandRole::Record:
    record(ranks[queues[number].rank], command);
    return true;
  case CommandRole::Wait:
    return wait(number, command);
  case CommandRole::Communicate:
    return arrive(number, command);
  case CommandRole::Compute:
  case CommandRole::Repeat:
    break;
  }
  return isCopy(command) ? arrive(number, command) : compute(number);
}

void Engine::record(RankState &rank, const TimelineCommand &command) {
  uint32_t event = rank.listing->eventOf(command);
  ++rank.records[event];
  for (uint32_t queue : std::exchange(rank.waiting[event], {}))
    ready.push_back(queue);
}

bool Engine::wait(uint32_t number, const TimelineCommand &command) {
  const QueueState &queue = queues[number];
  RankState &rank = ranks[queue.rank];
  uint32_t event = rank.listing->eventOf(command);
  if (rank.records[event] >=
      rank.listing->numRecords(command, queue.cursor.iteration()))
    return true;
  rank.waiting[event].push_back(number);
  return false;
}

bool Engine::compute(uint32_t number) {
  QueueState &queue = queues[number];
  RankCommand command = commandOf(queue);
  auto slower = options.stragglers.find(command.rank);
  double seconds = machine.secondsOf(command) *
                   jitter.factorOf(command, queue.cursor.iteration(), step) *
                   (slower == options.stragglers.end() ? 1 : slower->second);
  if (!(seconds > 0))
    return true;
  queue.isBusy = true;
  setComputes(addJob({.queues = {number}, .left = seconds}), true);
  return false;
}

void Engine::end(uint32_t number) {
  QueueState &queue = queues[number];
  auto nanos = [](double seconds) { return std::llround(seconds * 1e9); };
  RankCommand command = commandOf(queue);
  if (at(queue).role != CommandRole::Record)
    result.timeline.events.push_back({command.rank, command.place,
                                      queue.cursor.iteration(), step,
                                      nanos(*queue.begun), nanos(now)});
  queue.cursor.next();
  queue.begun.reset();
  queue.isBusy = false;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// How many channels there are of ranks that are equal to its own.
void Engine::countEqual(Channel &channel) {
  int64_t first = folding.first[size_t(channel.members.front())];
  double own = 0;
  for (int64_t member : channel.members)
    own += folding.first[size_t(member)] == first;
  channel.numEqual = numEqual.at(first) / own;
}

/// Channels of equal ranks are one.
uint32_t Engine::findChannel(const RankState &rank,
                             const TimelineCommand &command) {
  std::vector<int64_t> members =
      trace::groupOf(head, command.axes, rank.number);
  if (command.isTransfer())
    members = {members[size_t(command.from)], members[size_t(command.to)]};
  std::set<uint32_t> simulated;
  for (int64_t member : members)
    simulated.insert(indices.at(folding.first[size_t(member)]));
  auto [found, isNew] = channelNumbers.try_emplace(
      ChannelKey(command.axes, command.from, command.to, command.queue,
                 *simulated.begin()),
      uint32_t(channels.size()));
  if (!isNew)
    return found->second;
  channels.push_back({.members = std::move(members),
                      .ranks = {simulated.begin(), simulated.end()}});
  countEqual(channels.back());
  return found->second;
}

uint32_t Engine::channelOf(uint32_t queue, const TimelineCommand &command) {
  RankState &rank = ranks[queues[queue].rank];
  rank.channels.resize(rank.listing->commands.size(), kNone);
  uint32_t &known = rank.channels[queues[queue].cursor.place()];
  if (known == kNone)
    known = findChannel(rank, command);
  return known;
}

/// Whether no transfer moves over a link of a member.
bool Engine::isFree(const Channel &channel) const {
  return std::none_of(
      channel.ranks.begin(), channel.ranks.end(), [&](uint32_t rank) {
        std::vector<uint32_t> links = machine.linksOf(ranks[rank].number);
        return std::any_of(links.begin(), links.end(), [&](uint32_t link) {
          return transfersOver[folding.firstLink[link]] > 0;
        });
      });
}

void Engine::countTransfer(const Job &job, int change) {
  for (const auto &phase : job.movement.phases)
    for (const LinkUse &use : phase)
      if (use.link != kOwnLink)
        transfersOver[folding.firstLink[use.link]] += change;
}

/// A collective or a transfer begins when the last member has come, and on a
/// queue that yields when no transfer moves; a copy at once.
bool Engine::arrive(uint32_t number, const TimelineCommand &command) {
  uint32_t found = channelOf(number, command);
  Channel &channel = channels[found];
  queues[number].isBusy = true;
  if (std::ranges::find(channel.ranks, queues[number].rank) ==
      channel.ranks.end())
    return false; // no end of this transfer: it waits for ever
  channel.come.push_back(number);
  if (channel.come.size() < channel.ranks.size())
    return false;
  if (head.queues[command.queue].yields && !isFree(channel))
    yielding.push_back(found);
  else
    move(found);
  return false;
}

/// All that it takes of links, by those that stand for equal ones. The price of
/// a transfer is that of the end that sends.
void Engine::move(uint32_t number) {
  Channel &channel = channels[number];
  const TimelineCommand &first = at(queues[channel.come.front()]);
  bool isTransfer = first.isTransfer(), copies = isCopy(first);
  int64_t sender = folding.first[size_t(channel.members.front())];
  std::vector<RankCommand> commands;
  for (uint32_t queue : channel.come)
    if (RankCommand command = commandOf(queues[queue]);
        !isTransfer || command.rank == sender)
      commands.push_back(command);
  Job job{.queues = std::exchange(channel.come, {}),
          .channel = number,
          .isLatent = true,
          .isTransfer = isTransfer,
          .isCopy = copies,
          .movement = machine.movementOf(channel.members, commands)};
  double factor =
      jitter.factorOf(commands.front(), uint32_t(channel.turn++), step);
  for (auto &phase : job.movement.phases)
    for (LinkUse &use : phase)
      use.seconds *= factor;
  job.left = job.movement.latency;
  if (isTransfer)
    countTransfer(job, 1);
  uint32_t added = addJob(std::move(job));
  setDirty(added);
  if (!(jobs[added].left > 0))
    beginPhase(added);
}

/// What the phase at hand needs of its links, with all channels that are equal.
double Engine::share(uint32_t number) {
  const Job &job = jobs[number];
  std::map<uint32_t, double> loads;
  double most = 0;
  for (const LinkUse &use : job.movement.phases[job.phase]) {
    most = std::max(most, use.seconds);
    if (use.link == kOwnLink)
      continue;
    uint32_t link = folding.firstLink[use.link];
    loads[link] +=
        use.seconds * channels[job.channel].numEqual / folding.numLinks[link];
  }
  std::vector<LinkUse> list;
  for (auto [link, seconds] : loads)
    list.push_back({link, seconds});
  if (most > 0)
    shares.add(number, std::move(list), most);
  return most;
}

/// The next phase that takes time, or the end.
void Engine::beginPhase(uint32_t number) {
  if (std::exchange(jobs[number].isLatent, false))
    setMoves(number, true);
  Job &job = jobs[number];
  for (; job.phase < job.movement.phases.size(); ++job.phase) {
    double most = share(number);
    if (most == 0)
      continue;
    job.left = 1, job.share = 1 / most;
    return setDirty(number);
  }
  endJob(number);
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

uint32_t Engine::addJob(Job job) {
  if (freeJobs.empty()) {
    freeJobs.push_back(uint32_t(jobs.size()));
    jobs.emplace_back();
  }
  uint32_t number = freeJobs.back();
  freeJobs.pop_back();
  uint32_t version = jobs[number].version + 1;
  job.at = now, job.version = version;
  job.isDirty = jobs[number].isDirty; // still in the list
  jobs[number] = std::move(job);
  return number;
}

void Engine::setDirty(uint32_t number) {
  if (!std::exchange(jobs[number].isDirty, true))
    dirty.push_back(number);
}

void Engine::setComputes(uint32_t number, bool begins) {
  RankState &rank = ranks[queues[jobs[number].queues.front()].rank];
  if (begins)
    rank.computing.push_back(number), setDirty(number);
  else
    std::erase(rank.computing, number);
  if (rank.computing.size() == (begins ? 1 : 0))
    for (uint32_t job : rank.moving)
      setDirty(job);
}

void Engine::setMoves(uint32_t number, bool begins) {
  for (uint32_t index : channels[jobs[number].channel].ranks) {
    RankState &rank = ranks[index];
    auto &running = jobs[number].isCopy ? rank.copying : rank.moving;
    if (begins)
      running.push_back(number);
    else
      std::erase(running, number);
    if (running.size() == (begins ? 1 : 0))
      for (uint32_t job : rank.computing)
        setDirty(job);
  }
}

double Engine::speedOf(const Job &job) const {
  if (job.channel == kNone) {
    const RankState &rank = ranks[queues[job.queues.front()].rank];
    return 1 / ((rank.moving.empty() ? 1 : machine.computationSlowdown) *
                (rank.copying.empty() ? 1 : machine.copySlowdown));
  }
  if (job.isLatent)
    return 1;
  if (job.isCopy)
    return job.share;
  const std::vector<uint32_t> &members = channels[job.channel].ranks;
  bool isDisturbed =
      std::any_of(members.begin(), members.end(), [&](uint32_t rank) {
        return !ranks[rank].computing.empty();
      });
  return isDisturbed ? job.share / machine.movementSlowdown : job.share;
}

/// Speeds, and so ends, after all that happened now.
void Engine::settle() {
  shares.settle([&](uint32_t number, double share) {
    jobs[number].share = share;
    setDirty(number);
  });
  for (uint32_t number : std::exchange(dirty, {})) {
    Job &job = jobs[number];
    job.isDirty = false;
    double speed = job.queues.empty() ? 0 : speedOf(job);
    if (speed == job.speed)
      continue;
    job.left = std::max(0.0, job.left - (now - job.at) * job.speed);
    job.at = now, job.speed = speed;
    ends.push({now + job.left / speed, numEnds++, number, ++job.version});
  }
}

void Engine::endPhase(uint32_t number) {
  Job &job = jobs[number];
  job.speed = 0, job.at = now;
  ++job.version;
  if (job.channel == kNone) {
    setComputes(number, false);
    return endJob(number);
  }
  if (!job.isLatent)
    shares.remove(number), ++job.phase;
  beginPhase(number);
}

void Engine::endJob(uint32_t number) {
  Job &job = jobs[number];
  if (job.channel != kNone)
    setMoves(number, false);
  bool wasTransfer = job.isTransfer;
  if (wasTransfer)
    countTransfer(job, -1);
  for (uint32_t queue : std::exchange(job.queues, {})) {
    end(queue);
    ready.push_back(queue);
  }
  ++job.version;
  freeJobs.push_back(number);
  // What has waited may add jobs.
  if (wasTransfer)
    for (uint32_t waiting : std::exchange(yielding, {}))
      if (isFree(channels[waiting]))
        move(waiting);
      else
        yielding.push_back(waiting);
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// To the next end, and all that end with it. False if nothing runs.
bool Engine::advance() {
  bool isFirst = true;
  while (!ends.empty()) {
    End next = ends.top();
    bool isOld = jobs[next.job].version != next.version;
    if (!isOld && !isFirst && next.time > now + kSameTime)
      break;
    ends.pop();
    if (isOld)
      continue;
    if (std::exchange(isFirst, false))
      now = std::max(now, next.time);
    endPhase(next.job);
  }
  return !isFirst;
}

Status Engine::runStep() {
  do {
    for (size_t i = 0; i < ready.size(); ++i)
      work(ready[i]);
    ready.clear();
    settle();
  } while (advance());
  for (const QueueState &queue : queues)
    if (!queue.cursor.isAtEnd())
      return errorOf("rank ", ranks[queue.rank].number, " waits in command ",
                     at(queue).id, " '", at(queue).name,
                     "' for what never comes, expected a timeline of a "
                     "verified program");
  return Status::success();
}

Simulated Engine::finish() {
  result.timeline.head = head;
  result.timeline.head.predictedFrom = machine.from;
  result.timeline.head.machine = machine.machine;
  result.timeline.head.clocks.clear();
  return std::move(result);
}

Expected<Simulated> Engine::run() {
  if (Status status = prepare(); !status.ok())
    return status;
  for (int64_t number = 0; number < options.steps; ++number) {
    // The numbers of steps count from 1, as those of a session do.
    beginStep(number + 1);
    if (Status status = runStep(); !status.ok())
      return status;
  }
  return finish();
}
} // namespace
} // namespace sim

Timeline Simulated::takeAll() && {
  std::vector<TraceEvent> events;
  visitAll([&](const TraceEvent &event) { events.push_back(event); });
  timeline.events = std::move(events);
  return std::move(timeline);
}

Expected<Simulated> simulate(const TimelineHead &head, const Machine &machine,
                             const SimulationOptions &options) {
  return sim::Engine(head, machine, options).run();
}

} // namespace tandem::rt
