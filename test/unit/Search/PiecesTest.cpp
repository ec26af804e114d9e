//===- PiecesTest.cpp - slots of waiting collectives ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Pieces.h"
#include "ProblemBuilder.h"
#include "RandomPlan.h"
#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace tandem::cost;
using namespace tandem::cost::test;

namespace {

constexpr Pass kBackward = Pass::Backward, kUpdate = Pass::Update;

/// A gradient of 32 elements that takes 8 s, 1/4 s each, and what is computed
/// behind it: 3 s per strand in each of two stages, which gather an input of
/// each strand before, for 1 s; the update of 1 s.
struct PiecesTest : ::testing::Test {
  ProblemBuilder b;
  Plan plan;
  ChangeTable table{b.problem};

  PiecesTest() {
    Rates rates = perByte(1.0 / 64);
    rates[unsigned(Change::AllReduce)] = {0, 8.0 / 128};
    rates[unsigned(Change::ReduceScatter)] = {100, 0};
    b.addAxis("data", 2, rates);
    b.addTime(2, perByte(0));
    unsigned x = b.addTensor("x", {8, 4}), w = b.addTensor("w", {8, 4});
    unsigned y = b.addTensor("y", {8, 4});
    b.addInput(x, {signature(">00")});
    b.addInput(y, {signature(">00")});
    b.addResident(w, {signature(">ff")});
    unsigned dw = addCompute({x}, "00>rr", 3);
    addCompute({x}, "f0>f0", 3);
    addCompute({y}, "f0>f0", 3);
    unsigned updated = addCompute({w, dw}, "ff,ff>ff", 1, kUpdate);
    unsigned output = b.addOutput(kUpdate, updated, {signature("ff>")});
    b.problem.ties.push_back({2, output});
    plan.signatures.resize(b.problem.operators.size());
    plan.stageEnds = {4, 5, 6, 8};
    plan.waiting = {{dw, layout("ff"), kUpdate}};
  }

  unsigned addCompute(std::vector<unsigned> operands, const char *forms,
                      double seconds, Pass pass = kBackward) {
    unsigned result = b.addTensor("t", {8, 4});
    b.addCompute(pass, std::move(operands), {result},
                 {signature(forms, seconds)});
    return result;
  }

  std::vector<WaitPiece> cut() {
    std::string error;
    auto report = cost(b.problem, plan, table, error);
    EXPECT_TRUE(report) << error;
    return report ? cutWaiting(b.problem, plan, table, *report)
                  : std::vector<WaitPiece>();
  }
};

TEST_F(PiecesTest, fillWhatSlotsHaveLeft) {
  b.problem.pieceLatency = 0.5;
  std::string error;
  auto report = cost(b.problem, plan, table, error);
  ASSERT_TRUE(report) << error;
  // The gradient is there when slot 2 ends. Slots 3 and 4 compute for 3 s.
  std::vector<double> rooms;
  for (unsigned slot : {3u, 4u})
    rooms.push_back(3 - report->steps[slot].collective);
  // The first piece has no further latency, the second has. Between the third
  // and the rest, which is sent beside the computation before the first update
  // and behind it, nothing is sent: they are one.
  double first = rooms[0] / 8, second = first + (rooms[1] - 0.5) / 8;
  std::vector<WaitPiece> pieces = cut();
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_NEAR(pieces[0].end, first, 1.0 / 32);
  EXPECT_NEAR(pieces[1].end, second, 2.0 / 32);
  EXPECT_EQ(pieces[2].end, 1);
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(pieces[i].step, 3 + i);
    // Whole elements.
    EXPECT_EQ(pieces[i].end * 32, std::floor(pieces[i].end * 32));
  }
}

TEST_F(PiecesTest, areOnlyCutWhereTheCostHasBegun) {
  b.problem.pieceLatency = 3;
  std::vector<WaitPiece> pieces = cut();
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0], (WaitPiece{0, 0, 6, 1}));
}

TEST_F(PiecesTest, areOneWhereNothingIsSentBetween) {
  // Without the gathers.
  b.problem.signatureSets[4] = {signature("00>00", 3)};
  b.problem.signatureSets[5] = {signature("00>00", 3)};
  std::vector<WaitPiece> pieces = cut();
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0], (WaitPiece{0, 0, 3, 1}));
}

TEST_F(PiecesTest, payTheLatencyOfTheirCollective) {
  // Of 8 s, 2 are latency. What is cut least is an all-to-all of 2 s, from the
  // first dimension to the second, of which each member has two columns.
  Rates &rates = b.problem.axes[0].rates;
  rates[unsigned(Change::AllReduce)] = {2, 6.0 / 128};
  rates[unsigned(Change::ReduceScatter)] = {2, 6.0 / 128};
  EXPECT_DOUBLE_EQ(getLeastPieceLatency(b.problem), 2 + 1);
  b.problem.computeSlowdown = b.problem.collectiveSlowdown = 1.25;
  EXPECT_DOUBLE_EQ(getLeastPieceLatency(b.problem), 2 * 1.25 / 0.75 + 1);
  b.problem.computeSlowdown = b.problem.collectiveSlowdown = 1;
  b.problem.pieceLatency = 3;
  // No slot has more than 3 s, so `cost` takes nothing, and nothing is begun
  // before the last one.
  std::vector<WaitPiece> pieces = cut();
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0], (WaitPiece{0, 0, 6, 1}));
}

TEST(Pieces, areCutWhereACollectiveLeavesMost) {
  std::vector<int64_t> shape = {6, 8, 5};
  EXPECT_EQ(getCutExtent(shape, 2, kReduce, kFull), 240);
  EXPECT_EQ(getCutExtent(shape, 2, kReduce, 1), 20); // 6, (8 / 2) 5
  EXPECT_EQ(getCutExtent(shape, 2, 2, kFull), 48);   // 6 8, 5 / 2
  EXPECT_EQ(getCutExtent(shape, 2, 0, kFull), 120);  // 1, (6 / 2) 8 5
  EXPECT_EQ(getCutExtent(shape, 2, 0, 1), 20);       // 1, (8 / 2) 5
  EXPECT_EQ(getCutExtent(shape, 2, 1, 0), 5);        // 1, 6 / 2, 5
  EXPECT_EQ(getCutExtent(shape, 2, 2, 0), 24);       // 1, (6 / 2) 8
  EXPECT_EQ(getCutExtent({}, 2, kReduce, kFull), 1);
}

/// What a queue has to do: seconds that disturb the other queue, behind those
/// of a latency, and how many steps of the other queue come first.
struct Work {
  double latency, seconds;
  unsigned needed;
};

/// Two queues that work off what they have as early as they can. While both
/// work, they have 1 / a and 1 / b of their speed, or half of it.
double runQueues(const SearchProblem &problem, std::vector<Work> compute,
                 std::vector<Work> comm) {
  double a = problem.computeSlowdown, b = problem.collectiveSlowdown, now = 0;
  if (1 / a + 1 / b <= 1)
    a = b = 2;
  unsigned i = 0, k = 0;
  while (i < compute.size() || k < comm.size()) {
    Work *first =
        i < compute.size() && compute[i].needed <= k ? &compute[i] : nullptr;
    Work *second = k < comm.size() && comm[k].needed <= i ? &comm[k] : nullptr;
    if (!first && !second)
      return std::numeric_limits<double>::infinity();
    bool isSlow = first && second && second->latency == 0;
    double firstSpeed = isSlow ? 1 / a : 1, secondSpeed = isSlow ? 1 / b : 1;
    double *left = !second               ? nullptr
                   : second->latency > 0 ? &second->latency
                                         : &second->seconds;
    double span = std::min(first ? first->seconds / firstSpeed
                                 : std::numeric_limits<double>::infinity(),
                           left ? *left / secondSpeed
                                : std::numeric_limits<double>::infinity());
    now += span;
    if (first && (first->seconds -= span * firstSpeed) <= 1e-15)
      ++i;
    if (left && (*left -= span * secondSpeed) <= 1e-15) {
      *left = 0;
      k += second->latency == 0 && second->seconds <= 1e-15;
    }
  }
  return now;
}

/// The steps of a plan on two queues, with the pieces in their slots.
double follow(const SearchProblem &problem, const Plan &plan,
              const CostReport &report, ChangeTable &table, unsigned &numCut) {
  std::map<std::pair<unsigned, unsigned>, std::vector<WaitPiece>> byWaiter;
  std::vector<WaitPiece> pieces = cutWaiting(problem, plan, table, report);
  for (const WaitPiece &piece : pieces)
    byWaiter[{piece.waiting, piece.collective}].push_back(piece);
  auto getStage = [&](unsigned op) {
    return std::upper_bound(plan.stageEnds.begin(), plan.stageEnds.end(), op) -
           plan.stageEnds.begin();
  };
  // Of each collective: what it takes, and the steps that its gradient needs.
  auto getChange = [&](const WaitPiece &piece) {
    const Copy &copy = plan.waiting[piece.waiting];
    Layout base;
    for (const CopyChange &change : report.changes)
      if (change.copy == copy)
        base = change.from;
    std::vector<AxisChange> changes =
        table.getSequence(copy.tensor, base, copy.layout);
    std::erase_if(changes, [](const AxisChange &c) { return c.from == kFull; });
    return changes[piece.collective];
  };
  std::vector<unsigned> producers = problem.getProducers();
  auto getNeeded = [&](const WaitPiece &piece) {
    unsigned stage = getStage(producers[plan.waiting[piece.waiting].tensor]);
    unsigned last = 0;
    for (unsigned j = 0; j < report.steps.size(); ++j)
      if (report.steps[j].stage <= stage)
        last = j + 1;
    return last;
  };
  std::map<std::pair<unsigned, unsigned>, double> done;
  std::vector<Work> compute, comm;
  for (unsigned j = 0; j < report.steps.size(); ++j) {
    std::vector<Work> early, late;
    for (const WaitPiece &piece : pieces) {
      if (piece.step != j)
        continue;
      AxisChange change = getChange(piece);
      double &before = done[{piece.waiting, piece.collective}];
      double share = piece.end - before;
      before = piece.end;
      bool isCut = byWaiter[{piece.waiting, piece.collective}].size() > 1;
      numCut += isCut;
      Work work{change.latency, (change.seconds - change.latency) * share,
                getNeeded(piece)};
      if (!isCut)
        work = {0, change.seconds, work.needed};
      (report.slots[j].isSerial && work.needed < j ? early : late)
          .push_back(work);
    }
    comm.insert(comm.end(), early.begin(), early.end());
    unsigned behind = report.slots[j].isSerial ? 0 : 1, needed = 0;
    if (report.steps[j].collective > 0) {
      comm.push_back(
          {0, report.steps[j].collective, j > behind ? j - behind : 0});
      needed = comm.size();
    }
    comm.insert(comm.end(), late.begin(), late.end());
    // What runs ahead waits for no collective of its stage.
    compute.push_back({0, report.steps[j].ahead, 0});
    // An update needs all that waited.
    unsigned op = plan.stageEnds[report.steps[j].stage] - 1;
    if (problem.operators[op].pass == Pass::Update)
      needed = comm.size();
    compute.push_back({0, report.steps[j].computation, needed});
  }
  return runQueues(problem, compute, comm);
}

/// What a plan costs is what its steps take, at most.
TEST(Pieces, areNeverBehindTheCost) {
  unsigned numPlans = 0, numCut = 0, numSlow = 0, numAhead = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    auto kind = seed % 2 ? RandomOptions::Kind::Wait : RandomOptions::Kind::Any;
    SearchProblem problem = makeRandomProblem(seed, {.kind = kind});
    problem.pieceLatency = getLeastPieceLatency(problem);
    ChangeTable table(problem);
    Random random(seed);
    if (seed % 3 == 0)
      addAgain(problem, random);
    auto plan = makeRandomPlan(problem, table, random);
    if (!plan || (plan->waiting.empty() && plan->ahead.empty()))
      continue;
    std::string error;
    auto report = cost(problem, *plan, table, error);
    ASSERT_TRUE(report) << error;
    double seconds = follow(problem, *plan, *report, table, numCut);
    EXPECT_LE(seconds, report->seconds * (1 + 1e-9)) << "seed " << seed;
    ++numPlans;
    numSlow += problem.computeSlowdown > 1;
    numAhead += !plan->ahead.empty();
  }
  EXPECT_GT(numPlans, 300u);
  EXPECT_GT(numSlow, 50u);
  EXPECT_GT(numCut, 50u);
  EXPECT_GT(numAhead, 50u);
}

/// Every collective is sent whole, piece by piece, behind the slot that makes
/// its gradient and no later than beside the first update.
TEST(Pieces, ofRandomPlansAreWholeAndInOrder) {
  unsigned numCut = 0, numWaiting = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SearchProblem problem =
        makeRandomProblem(seed, {.kind = RandomOptions::Kind::Wait});
    ChangeTable table(problem);
    Random random(seed);
    auto plan = makeRandomPlan(problem, table, random);
    if (!plan)
      continue;
    std::string error;
    auto report = cost(problem, *plan, table, error);
    ASSERT_TRUE(report) << error;
    std::map<std::pair<unsigned, unsigned>, WaitPiece> last;
    unsigned step = 0;
    for (const WaitPiece &piece : cutWaiting(problem, *plan, table, *report)) {
      EXPECT_GE(piece.step, step);
      step = piece.step;
      auto [place, isNew] =
          last.try_emplace({piece.waiting, piece.collective}, piece);
      numCut += !isNew;
      EXPECT_GT(piece.end, isNew ? 0 : place->second.end);
      place->second = piece;
      unsigned stage = report->steps[piece.step].stage;
      for (const CopyChange &change : report->changes)
        if (change.copy == plan->waiting[piece.waiting]) {
          EXPECT_LE(stage, change.stage);
        }
    }
    for (auto &[key, piece] : last)
      EXPECT_EQ(piece.end, 1);
    numWaiting += last.size();
  }
  EXPECT_GT(numWaiting, 50u);
  EXPECT_GT(numCut, 10u);
}

} // namespace
