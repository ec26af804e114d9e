//===- PiecesTest.cpp - where waiting collectives are sent ----------------===//
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

TEST_F(PiecesTest, areNotWorthALatencyThatFillsTheRoom) {
  b.problem.pieceLatency = 3;
  std::vector<WaitPiece> pieces = cut();
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].step, 3u);
  EXPECT_EQ(pieces[1].step, 6u);
}

TEST_F(PiecesTest, areOneWhereNothingIsSentBetween) {
  // Without the gathers.
  b.problem.signatureSets[4] = {signature("00>00", 3)};
  b.problem.signatureSets[5] = {signature("00>00", 3)};
  std::vector<WaitPiece> pieces = cut();
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0], (WaitPiece{0, 0, 3, 1}));
}

/// Every collective is sent whole, piece by piece, behind the slot that makes
/// its gradient and no later than beside the first update.
TEST(Pieces, ofRandomPlansAreWholeAndInOrder) {
  unsigned numCut = 0, numWaiting = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomOptions options;
    options.kind = RandomOptions::Kind::Wait;
    SearchProblem problem = makeRandomProblem(seed, options);
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
        if (change.copy == plan->waiting[piece.waiting])
          EXPECT_LE(stage, change.stage);
    }
    for (auto &[key, piece] : last)
      EXPECT_EQ(piece.end, 1);
    numWaiting += last.size();
  }
  EXPECT_GT(numWaiting, 50u);
  EXPECT_GT(numCut, 10u);
}

} // namespace
