//===- simulate_test.cpp - steps in virtual time --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/timelines.h"
#include "sim/fair_share.h"
#include "tandem_rt/held.h"
#include "tandem_rt/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tandem::rt::cts {
namespace {

//===----------------------------------------------------------------------===//
// Shares
//===----------------------------------------------------------------------===//

/// Speeds by flow.
std::map<uint32_t, double> speedsOf(sim::FairShare &shares) {
  std::map<uint32_t, double> speeds;
  shares.settle([&](uint32_t flow, double speed) { speeds[flow] = speed; });
  return speeds;
}

TEST(FairShare, WhatOneDoesNotUseOthersHave) {
  sim::FairShare shares(3);
  shares.add(0, {{0, 1}}, 1);
  EXPECT_EQ(speedsOf(shares)[0], 1);
  // Three on link 0, of which one is held up on link 1 by two more.
  shares.add(1, {{0, 1}}, 1);
  shares.add(2, {{0, 1}, {1, 1}}, 1);
  for (uint32_t flow : {3, 4, 5})
    shares.add(flow, {{1, 2}}, 2);
  auto speeds = speedsOf(shares);
  EXPECT_DOUBLE_EQ(speeds[2], 0.25);
  EXPECT_DOUBLE_EQ(speeds[3], 0.125);
  EXPECT_DOUBLE_EQ(speeds[0], 0.375);
  EXPECT_DOUBLE_EQ(speeds[1], 0.375);
  shares.remove(2);
  speeds = speedsOf(shares);
  EXPECT_DOUBLE_EQ(speeds[0], 0.5);
  EXPECT_DOUBLE_EQ(speeds[3], 1.0 / 6);
  EXPECT_EQ(speeds.count(2), 0u);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Nodes of neighbours that share a link each. A collective needs so many
/// microseconds of the link of each node that its group leaves.
class Nodes : public Machine {
public:
  Nodes(const TimelineHead &head, int64_t perNode, double computing,
        double moving)
      : perNode(perNode), computing(computing), moving(moving) {
    numLinks = uint32_t(head.numRanks() / perNode);
    from = "a test";
  }
  double secondsOf(const RankCommand &command) const override {
    return computing * 1e-6 * (kindOf(command.rank) == 0 ? 1 : 2);
  }
  Movement movementOf(const std::vector<int64_t> &members,
                      const std::vector<RankCommand> &) const override {
    std::map<uint32_t, int64_t> counts;
    for (int64_t member : members)
      ++counts[linksOf(member)[0]];
    Movement movement{.phases = {{}}};
    for (auto [link, count] : counts)
      if (counts.size() > 1)
        movement.phases[0].push_back({link, moving * 1e-6});
    return movement;
  }
  int64_t kindOf(int64_t rank) const override { return rank == slowRank; }
  std::vector<uint32_t> linksOf(int64_t rank) const override {
    return {uint32_t(rank / perNode)};
  }
  int64_t slowRank = -1;

private:
  const int64_t perNode;
  const double computing, moving;
};

/// Computes, and sums over the outer axis of outer=2,inner=2.
struct Grid : TimelineBuilder {
  explicit Grid(int64_t outer = 2, int64_t inner = 2)
      : TimelineBuilder(outer * inner) {
    timeline.head.mesh = {{"outer", outer}, {"inner", inner}};
    first = compute("first");
    sync(kCompute, kComm);
    sum = collective("sum");
    end = sync(kComm, kCompute);
  }
  uint32_t first, sum, end;
};

double endOf(const Simulated &simulated) {
  int64_t end = 0;
  for (const TraceEvent &event : simulated.timeline.events)
    end = std::max(end, event.end);
  return double(end) * 1e-3;
}

/// With the timeline of all ranks.
Simulated run(const Grid &grid, const Machine &machine,
              const SimulationOptions &options = {}) {
  Expected<Simulated> simulated =
      simulate(grid.timeline.head, machine, options);
  EXPECT_OK(simulated.status());
  if (!simulated.ok())
    return {};
  Simulated all = *simulated;
  all.timeline = std::move(*simulated).takeAll();
  return all;
}

/// Two groups over two nodes: with and without the other one.
TEST(Simulate, GroupsOfANodeShareItsLink) {
  Grid grid;
  Nodes machine(grid.timeline.head, 2, 10, 40);
  Simulated both = run(grid, machine);
  EXPECT_EQ(both.ranks, std::vector<int64_t>{0});
  EXPECT_DOUBLE_EQ(endOf(both), 90);
  // Every rank is in the timeline, as if it had been simulated.
  EXPECT_EQ(both.timeline.events.size(), 4u * 4);
  EXPECT_DOUBLE_EQ(endOf(run(grid, Nodes(grid.timeline.head, 1, 10, 40))), 50);
  // One group comes later: the other one has the link for itself until then.
  machine.slowRank = 1;
  Simulated late = run(grid, machine);
  EXPECT_EQ(late.ranks, (std::vector<int64_t>{0, 1, 2, 3}));
  // 10 alone, 30 shared until 80; then the last 10 of the other one.
  EXPECT_DOUBLE_EQ(endOf(late), 90);
  for (const TraceEvent &event : late.timeline.events)
    if (event.command == grid.sum && event.rank % 2 == 0)
      EXPECT_EQ(event.end, 80000);
}

/// What is folded gives the times of what is not.
TEST(Simulate, EqualRanksAreSimulatedOnce) {
  Grid grid(4, 6);
  for (int64_t perNode : {1, 2, 3, 4, 6, 8, 12}) {
    Nodes machine(grid.timeline.head, perNode, 10, 40);
    Simulated folded = run(grid, machine);
    Simulated whole = run(grid, machine, {.jitter = 1e-12});
    EXPECT_EQ(whole.ranks.size(), 24u);
    EXPECT_LT(folded.ranks.size(), 24u) << perNode;
    auto textOf = [](Simulated &simulated) {
      std::vector<std::array<int64_t, 4>> list;
      for (const TraceEvent &event : simulated.timeline.events)
        list.push_back({event.rank, event.command, event.begin, event.end});
      std::sort(list.begin(), list.end());
      return list;
    };
    EXPECT_EQ(textOf(folded), textOf(whole)) << perNode;
  }
}

TEST(Simulate, StragglersAndJitter) {
  Grid grid;
  Nodes machine(grid.timeline.head, 1, 10, 40);
  EXPECT_DOUBLE_EQ(endOf(run(grid, machine, {.stragglers = {{3, 1.5}}})), 55);
  SimulationOptions options{.jitter = 0.1, .seed = 7, .steps = 200};
  Simulated one = run(grid, machine, options);
  EXPECT_EQ(endOf(one), endOf(run(grid, machine, options)));
  options.seed = 8;
  EXPECT_NE(endOf(one), endOf(run(grid, machine, options)));
  double sum = 0, squares = 0, count = 0;
  for (const TraceEvent &event : one.timeline.events)
    if (event.command == grid.first) {
      double micros = double(event.end - event.begin) * 1e-3;
      sum += micros, squares += micros * micros, ++count;
    }
  EXPECT_EQ(count, 800);
  EXPECT_NEAR(sum / count, 10, 0.15);
  EXPECT_NEAR(std::sqrt(squares / count - sum * sum / count / count), 1, 0.1);
}

/// From point 0 to point 1 of the first axis.
static TimelineCommand makeTransfer(uint32_t id) {
  return {.id = id,
          .name = "transfer",
          .queue = kComm,
          .role = CommandRole::Communicate,
          .axes = {0},
          .from = 0,
          .to = 1};
}

/// A sender waits for its receiver, as Gloo and NCCL do.
TEST(Simulate, TransfersBeginWithBothEnds) {
  TimelineBuilder b(2);
  TimelineHead &head = b.timeline.head;
  head.mesh = {{"pipe", 2}};
  head.rankPrograms.resize(2);
  head.rankToProgram = {0, 1};
  TimelineCommand transfer = makeTransfer(9);
  b.compute("late");
  b.sync(kCompute, kComm);
  head.rankPrograms[1] = std::exchange(head.rankPrograms[0], {transfer});
  head.rankPrograms[1].push_back(transfer);
  Expected<Simulated> simulated = simulate(head, Nodes(head, 1, 50, 20));
  ASSERT_TRUE(simulated.ok()) << simulated.status().message();
  std::map<int64_t, std::pair<int64_t, int64_t>> times;
  for (const TraceEvent &event : simulated->timeline.events)
    if (simulated->timeline.head[event].isTransfer())
      times[event.rank] = {event.begin, event.end};
  EXPECT_EQ(times[0], std::pair(int64_t(0), int64_t(70000)));
  EXPECT_EQ(times[1], std::pair(int64_t(50000), int64_t(70000)));
}

/// What is no end of a transfer cannot take part in it.
TEST(Simulate, OthersWaitForEver) {
  TimelineBuilder b(3);
  TimelineHead &head = b.timeline.head;
  head.mesh = {{"pipe", 3}};
  head.rankPrograms.resize(2);
  head.rankToProgram = {0, 1, 1};
  TimelineCommand transfer = makeTransfer(9);
  transfer.to = 2;
  head.rankPrograms[1].push_back(transfer);
  expectError(simulate(head, Nodes(head, 1, 50, 20)).status(),
              "waits in command 9");
}

/// A sum in pieces of 20 us, and a transfer that begins at 30 and takes as long
/// alone: half of the link until the piece at hand ends, and then all.
TEST(Simulate, PiecesOfSumsYieldToTransfers) {
  TimelineBuilder b(4);
  TimelineHead &head = b.timeline.head;
  head.mesh = {{"pipe", 2}, {"data", 2}};
  head.queues.push_back({QueueRole::Communication, "sums", true});
  head.rankPrograms.resize(2);
  head.rankToProgram = {0, 0, 1, 1};
  for (int i = 0; i < 4; ++i)
    b.collective("piece", 2);
  for (TimelineCommand &piece : head.rankPrograms[0])
    piece.axes = {1};
  b.compute("first");
  b.sync(kCompute, kComm);
  TimelineCommand transfer = makeTransfer(99);
  for (auto &commands : head.rankPrograms)
    commands.push_back(transfer);
  auto endsOf = [&] {
    Expected<Simulated> simulated = simulate(head, Nodes(head, 1, 30, 20));
    EXPECT_OK(simulated.status());
    std::map<std::string, std::vector<int64_t>> ends;
    for (const TraceEvent &event : simulated->timeline.events)
      if (event.rank == 0)
        ends[simulated->timeline.head[event].name].push_back(event.end / 1000);
    return ends;
  };
  auto ends = endsOf();
  EXPECT_EQ(ends["transfer"], std::vector<int64_t>{60});
  EXPECT_EQ(ends["piece"], (std::vector<int64_t>{20, 50, 80, 100}));
  head.queues[2].yields = false;
  ends = endsOf();
  EXPECT_EQ(ends["transfer"], std::vector<int64_t>{70});
  EXPECT_EQ(ends["piece"], (std::vector<int64_t>{20, 50, 80, 100}));
}

/// Copies are flows over the link of their node.
struct Hosts : Nodes {
  using Nodes::Nodes;
  Movement movementOf(const std::vector<int64_t> &members,
                      const std::vector<RankCommand> &commands) const override {
    if (members.size() > 1)
      return Nodes::movementOf(members, commands);
    return {0, {{{linksOf(members[0])[0], copying * 1e-6}}}};
  }
  double copying = 0;
};

/// Computes, and copies beside another computation.
struct Copying : TimelineBuilder {
  explicit Copying(int64_t ranks) : TimelineBuilder(ranks) {
    timeline.head.queues.push_back({QueueRole::Copy, "copy"});
    compute("first");
    sync(kCompute, 2);
    copy = compute("copy", 2);
    second = compute("second");
  }
  /// When a command ends, by rank.
  std::vector<double> endsOf(uint32_t command, const Machine &machine,
                             const SimulationOptions &options = {}) {
    Expected<Simulated> simulated = simulate(timeline.head, machine, options);
    EXPECT_OK(simulated.status());
    std::vector<double> ends(size_t(timeline.head.numRanks()));
    for (const TraceEvent &event : std::move(*simulated).takeAll().events)
      if (event.command == command)
        ends[size_t(event.rank)] = double(event.end) * 1e-3;
    return ends;
  }
  uint32_t copy = 0, second = 0;
};

TEST(Simulate, CopiesShareTheLinkOfTheirNode) {
  Copying c(4);
  auto ends = [&](int64_t perNode, int64_t slowRank, double jitter = 0) {
    Hosts machine(c.timeline.head, perNode, 10, 0);
    machine.copying = 40, machine.slowRank = slowRank;
    return c.endsOf(c.copy, machine, {.jitter = jitter});
  };
  using Ends = std::vector<double>;
  EXPECT_EQ(ends(1, -1), (Ends{50, 50, 50, 50}));
  EXPECT_EQ(ends(2, -1), (Ends{90, 90, 90, 90}));
  EXPECT_EQ(ends(4, -1), (Ends{170, 170, 170, 170}));
  EXPECT_EQ(ends(2, -1, 1e-12), (Ends{90, 90, 90, 90}));
  // 10 us alone, 60 beside the one that comes later, which has 10 left then.
  EXPECT_EQ(ends(2, 1), (Ends{80, 90, 90, 90}));
}

/// 40 us of a copy beside 10 us of computation, which is 1.25 times slower and
/// slows no copy down.
TEST(Simulate, CopiesSlowComputationByAFactorOfTheirOwn) {
  Copying c(1);
  Hosts machine(c.timeline.head, 1, 10, 0);
  machine.copying = 40, machine.copySlowdown = 1.25;
  machine.computationSlowdown = machine.movementSlowdown = 2;
  EXPECT_EQ(c.endsOf(c.copy, machine), std::vector<double>{50});
  EXPECT_EQ(c.endsOf(c.second, machine), std::vector<double>{22.5});
  // Of a copy that ends before: 5 us, in which 4 are computed, and 6 behind it.
  machine.copying = 5;
  EXPECT_EQ(c.endsOf(c.second, machine), std::vector<double>{21});
}

TEST(Simulate, MemoryIsInUseUntilItsLastReader) {
  ProgramBuilder b({{"data", 1}});
  b.setArena(64);
  BufferRef x = b.arena(0, 16), y = b.arena(16, 16), z = b.arena(32, 16);
  b.add({.name = "x"}, Fill{x, {0}});
  b.add({.name = "y"}, Copy{x, y});
  b.add({.name = "z"}, Fill{z, {0}});
  b.add({.name = "z again"}, Copy{y, z});
  TimelineHead head = headOf(b.get(), "0123");
  Expected<Simulated> simulated = simulate(head, Nodes(head, 1, 10, 0));
  ASSERT_TRUE(simulated.ok()) << simulated.status().message();
  MemoryUse use = memoryOf(b.get(), simulated->timeline, 0);
  EXPECT_EQ(use.held, 64);
  EXPECT_EQ(use.fixed, 0);
  EXPECT_EQ(use.peak, 32);
  EXPECT_EQ(use.peakTime, 10000);
  EXPECT_EQ(use.overTime,
            (std::vector<std::pair<int64_t, int64_t>>{
                {0, 16}, {10000, 32}, {20000, 32}, {30000, 32}, {40000, 0}}));
}

} // namespace
} // namespace tandem::rt::cts
