//===- TextTest.cpp - problems and plans as text --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Search.h"
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::cost;

/// y = x w split over the batch; the gradient of w is a sum over data and time.
static const char *const kProblem = R"(tandem-problem 1
accounting tandem
slowdown compute 1 collective 1
piece 0 s
memory 4096 B
axis data space 2 queue 0 all-gather 1 s 0 s/B reduce-scatter 1 s 0 s/B all-reduce 1 s 0.001 s/B all-to-all 1 s 0 s/B
axis micro time 2 all-gather 1 s 0 s/B reduce-scatter 1 s 0 s/B all-reduce 0.25 s 0 s/B all-to-all 0 s 0 s/B
tensor 0 x 8x4 4 B
tensor 1 w 4x4 4 B
tensor 2 dw 4x4 4 B
tensor 3 new 4x4 4 B
signatures 0
  data='-> gather(0)' micro='-> gather(0)' 0 s 0 B
signatures 1
  data='-> full' micro='-> full' 0 s 0 B
signatures 2
  data='gather(0), full -> reduce' micro='gather(0), full -> reduce' 3 s 16 B
signatures 3
  data='full, full -> full' micro='full, full -> full' 1 s 0 B
signatures 4
  data='full ->' micro='full ->' 0 s 0 B
operator 0 forward input x set 0 operands - results 0
operator 1 forward resident w set 1 operands - results 1
operator 2 backward compute dw set 2 operands 0,1 results 2 at model.py:3
operator 3 update compute sgd set 3 operands 1,2 results 3 attached 1
operator 4 update output w set 4 operands 3 results -
tie 1 4
)";

static SearchProblem parse() {
  std::string error;
  auto problem = parseSearchProblem(kProblem, "p.txt", error);
  EXPECT_TRUE(problem) << error;
  return *problem;
}

static Plan makePlan() {
  Plan plan;
  plan.signatures = {0, 0, 0, 0, 0};
  plan.stageEnds = {3, 5};
  return plan;
}

TEST(Text, ProblemPrintsAsItWasParsed) { EXPECT_EQ(print(parse()), kProblem); }

TEST(Text, PlanPrintsAsItWasParsed) {
  SearchProblem problem = parse();
  Plan plan = makePlan();
  plan.waiting = {{2, Layout(), Pass::Update}};
  std::string error;
  ASSERT_TRUE(derive(problem, plan, error)) << error;
  std::string text = print(problem, plan);
  auto again = parsePlan(problem, text, "plan.txt", error);
  ASSERT_TRUE(again) << error;
  EXPECT_EQ(*again, plan);
  EXPECT_EQ(print(problem, *again), text);
  EXPECT_TRUE(search::verifyPlan(problem, *again, error)) << error;
}

// Two strands of 3 s, the sum in the last one, then the all-reduce of 64 bytes,
// 1.064 s, and the update, 1 s.
TEST(Cost, SumsGradientsBehindTheLastStrand) {
  SearchProblem problem = parse();
  ChangeTable table(problem);
  std::string error;
  auto report = cost::cost(problem, makePlan(), table, error);
  ASSERT_TRUE(report) << error;
  ASSERT_EQ(report->steps.size(), 3u);
  EXPECT_EQ(report->steps[1].computation, 3.25);
  EXPECT_DOUBLE_EQ(report->steps[2].collective, 1.064);
  EXPECT_DOUBLE_EQ(report->seconds, 3 + 3.25 + 1.064 + 1);
  ASSERT_EQ(report->changes.size(), 1u);
  EXPECT_EQ(report->changes[0].stage, 1u);
}

// Parameter 64 B; x 64 B, terms of two strands 128 B, workspace 16 B.
TEST(Cost, HoldsTheTermsOfBothStrands) {
  SearchProblem problem = parse();
  ChangeTable table(problem);
  std::string error;
  auto report = cost::cost(problem, makePlan(), table, error);
  ASSERT_TRUE(report) << error;
  EXPECT_EQ(report->stageBytes[0], 64 + 64 + 128 + 16);
  // The sum and its copy; the new parameter is written in place.
  EXPECT_EQ(report->stageBytes[1], 64 + 64 + 64 + 64);
}

TEST(Cost, NeedsACutBeforeAChange) {
  SearchProblem problem = parse();
  Plan plan = makePlan();
  plan.stageEnds = {5};
  ChangeTable table(problem);
  std::string error;
  EXPECT_FALSE(cost::cost(problem, plan, table, error));
  EXPECT_NE(error.find("expected a cut"), std::string::npos) << error;
}

static std::string getError(std::string text, const std::string &from,
                            const std::string &to) {
  text.replace(text.find(from), from.size(), to);
  std::string error;
  EXPECT_FALSE(parseSearchProblem(text, "p.txt", error)) << to;
  return error;
}

/// Sums of bytes stay below 2^63.
TEST(Text, BytesHaveLimits) {
  std::string error =
      getError(kProblem, "3 s 16 B", "3 s 9223372036854775807 B");
  EXPECT_NE(error.find("found '9223372036854775807', expected a workspace of "
                       "at most 2^52 bytes"),
            std::string::npos)
      << error;
  std::string tensors = "tensor 3 new 4x4 4 B\n";
  for (int i = 4; i < 24; ++i)
    tensors += "tensor " + std::to_string(i) + " t 4503599627370496 1 B\n";
  error = getError(kProblem, "tensor 3 new 4x4 4 B\n", tensors);
  EXPECT_NE(error.find("expected tensors of less than 2^56 bytes together"),
            std::string::npos)
      << error;
}

TEST(Text, BadProblemsAreOneLine) {
  std::string text = kProblem;
  EXPECT_EQ(getError(text, "tandem-problem 1", "tandem-problem 2"),
            "p.txt:1: found '2', expected version 1 of a problem");
  EXPECT_EQ(getError(text, "piece 0 s", "piece -1 s"),
            "p.txt:4: found '-1', expected a number that is not negative");
  EXPECT_EQ(getError(text, "piece 0 s", "piece 1e308 s"),
            "p.txt:4: found '1e308', expected a number of at most 1e30");
  EXPECT_EQ(getError(text, "piece 0 s", "piece 0"),
            "p.txt:4: found 'nothing', expected the unit 's'");
  EXPECT_EQ(getError(text, "8x4", "7x4"),
            "p.txt:22: operator 'x' has the form 'data=gather(0),"
            "micro=gather(0)' of tensor 0, expected one that divides its "
            "dimensions");
  EXPECT_EQ(getError(text, "tie 1 4", "tie 1 9"),
            "p.txt:27: found no tie, expected 'tie N N' of two operators");
  EXPECT_EQ(getError(text, "operands 3 ", "operands 9 "),
            "p.txt:26: operator 'w' uses tensor 9, expected one made before");
  EXPECT_EQ(
      getError(text, "memory 4096 B", "memroy 4096 B"),
      "p.txt:5: found 'memroy', expected accounting, graph, slowdown, "
      "piece, memory, alignment, axis, tensor, signatures, operator or tie");
}

/// `x` held if it is read, `dw` in the memory of `w`, `new` inside of a kernel
/// and held from operator 2 on, parts of 64 bytes.
static std::string getPlaces() {
  std::string text = kProblem;
  for (auto [from, to] :
       {std::pair("memory 4096 B\n", "memory 4096 B\nalignment 64\n"),
        std::pair("x 8x4 4 B\n", "x 8x4 4 B if-read\n"),
        std::pair("dw 4x4 4 B\n", "dw 4x4 4 B view 1\n"),
        std::pair("new 4x4 4 B\n", "new 4x4 4 B times 2 inside from 2\n")})
    text.replace(text.find(from), strlen(from), to);
  return text;
}

/// They are prices: a plan stays one of the problem.
TEST(Text, PlacesPrintAsTheyWereParsed) {
  std::string error;
  auto problem = parseSearchProblem(getPlaces(), "p.txt", error);
  ASSERT_TRUE(problem) << error;
  EXPECT_EQ(print(*problem), getPlaces());
  EXPECT_EQ(problem->tensors[0].heldFrom, Tensor::kIfRead);
  EXPECT_EQ(problem->tensors[2].viewOf, 1);
  EXPECT_TRUE(problem->tensors[3].isInKernel);
  EXPECT_EQ(problem->tensors[3].heldFrom, 2);
  SearchProblem plain = parse();
  plain.tensors[3].times = 2;
  EXPECT_EQ(getStructureHash(*problem), getStructureHash(plain));
  EXPECT_NE(getProofHash(*problem, 1), getProofHash(plain, 1));
}

TEST(Text, BadPlacesAreOneLine) {
  std::string text = getPlaces();
  EXPECT_EQ(getError(text, "alignment 64", "alignment 0"),
            "p.txt:6: found '0', expected a number of bytes from 1 to 2^20");
  EXPECT_EQ(getError(text, "view 1", "view 2"),
            "p.txt:11: found '2', expected a tensor before this one");
  EXPECT_EQ(getError(text, "view 1", "view 0"),
            "p.txt:11: found '0', expected a tensor of as many bytes");
  EXPECT_EQ(getError(text, "from 2", "from x"),
            "p.txt:12: found 'x', expected an operator before its producer");
  EXPECT_EQ(getError(text, "from 2", "from 3"),
            "p.txt:26: operator 'sgd' makes tensor 3, held from operator 3, "
            "expected one before it");
  EXPECT_EQ(getError(text, "view 1", "from 1"),
            "p.txt:25: operator 'dw' makes terms over time of tensor 2, which "
            "is held from an earlier operator, expected another form");
  text.replace(text.find("view 1"), 6, "");
  EXPECT_EQ(getError(text, "tensor 1 w 4x4 4 B", "tensor 1 w 4x4 4 B inside x"),
            "p.txt:10: found 'x', expected the end of the line");
}

/// 8x4 elements of 4 bytes: 128, over two devices 64, over two strands 32 each.
TEST(Text, PartsOfStrandsAreAligned) {
  SearchProblem problem = parse();
  Layout whole, parts, terms;
  parts[0] = parts[1] = 0;
  terms[1] = kReduce;
  for (auto [alignment, bytes] :
       {std::pair(1, std::array{128, 64, 256}), {100, {200, 200, 400}}}) {
    problem.alignment = alignment;
    EXPECT_EQ(problem.getBytes(0, whole), bytes[0]);
    EXPECT_EQ(problem.getBytes(0, parts), bytes[1]);
    EXPECT_EQ(problem.getBytes(0, terms), bytes[2]);
  }
}

TEST(Text, ViewsHaveRoots) {
  SearchProblem problem = parse();
  problem.tensors[2].viewOf = 1;
  problem.tensors[3].viewOf = 2;
  EXPECT_EQ(problem.getRoot(3), 1U);
  problem.tensors[1].isInKernel = true;
  EXPECT_EQ(problem.getRoot(3), 2U);
  EXPECT_EQ(problem.getRoot(1), 1U);
}

TEST(Text, secondsHaveDigits) {
  EXPECT_EQ(printSeconds(1.10168), "1.101680 s");
  EXPECT_EQ(printSeconds(0.0054404), "0.005440 s");
  EXPECT_EQ(printSeconds(1e-3), "0.001000 s");
  EXPECT_EQ(printSeconds(0.000144868), "0.000144868 s");
  EXPECT_EQ(printSeconds(4.789e-6), "0.00000478900 s");
  EXPECT_EQ(printSeconds(0), "0.000000 s");
}

TEST(Text, provenToRounding) {
  EXPECT_TRUE(isProven(1, 1));
  EXPECT_TRUE(isProven(1, 1 - 1e-10));
  EXPECT_FALSE(isProven(1, 1 - 1e-8));
}
