//===- FuzzTest.cpp - mutated problems and plans --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Mutated texts: each gives one error line or a problem that a search can take;
// none ends the process.
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Search.h"
#include <gtest/gtest.h>
#include <random>

using namespace tandem;
using namespace tandem::cost;

static const char *const kProblem = R"(tandem-problem 1
accounting hidup-serial
slowdown compute 1 collective 1
piece 0 s
memory 4096 B
axis data space 2 queue 0 all-gather 1 s 1e-3 s/B reduce-scatter 1 s 0 s/B all-reduce 1 s 0.001 s/B all-to-all 1 s 0 s/B
tensor 0 x 8x4 4 B
tensor 1 w 4x4 4 B
tensor 2 y 8x4 4 B
tensor 3 loss scalar 4 B
signatures 0
  data='-> gather(0)' 0 s 0 B
  data='-> full' 0 s 0 B
signatures 1
  data='-> replicate' 0 s 0 B
  data='-> gather(1)' 0 s 0 B
signatures 2
  data='gather(0), full -> gather(0)' 3 s 16 B
  data='full, gather(1) -> gather(1)' 3 s 16 B
signatures 3
  data='gather(0), gather(0) -> reduce' 1 s 0 B
signatures 4
  data='reduce ->' 0 s 0 B
operator 0 forward input x set 0 operands - results 0
operator 1 forward resident w set 1 operands - results 1
operator 2 forward compute y set 2 operands 0,1 results 2 at model.py:3
operator 3 forward compute loss set 3 operands 2,0 results 3 attached 1
operator 4 forward output loss set 4 operands 3 results -
)";

namespace {
class Mutator {
public:
  explicit Mutator(unsigned seed) : random(seed) {}

  /// One or two changes, of a character, a word or a line.
  std::string mutate(std::string text) {
    for (unsigned left = 1 + draw(2); left > 0; --left)
      change(text);
    return text;
  }

private:
  size_t draw(size_t limit) { return limit ? random() % limit : 0; }

  void change(std::string &text) {
    switch (draw(6)) {
    case 0:
      return mutateCharacter(text);
    case 1:
      return mutateLine(text);
    case 2:
      text.resize(draw(text.size() + 1));
      return;
    default:
      return mutateWord(text);
    }
  }

  void mutateCharacter(std::string &text) {
    if (!text.empty())
      text[draw(text.size())] = static_cast<char>(draw(256));
  }

  /// The part of the text around a random place, between `ends`.
  std::pair<size_t, size_t> pick(const std::string &text, const char *ends) {
    size_t place = draw(text.size());
    size_t begin = text.find_last_of(ends, place);
    begin = begin == std::string::npos ? 0 : begin + 1;
    size_t end = std::min(text.find_first_of(ends, begin), text.size());
    return {begin, end - begin};
  }

  void mutateLine(std::string &text) {
    auto [begin, size] = pick(text, "\n");
    std::string line = text.substr(begin, size) + "\n";
    if (draw(2))
      text.erase(begin, std::min(size + 1, text.size() - begin));
    else
      text.insert(draw(2) ? begin : 0, line);
  }

  void mutateWord(std::string &text) {
    static const char *const words[] = {"",
                                        "-",
                                        "-1",
                                        "0",
                                        "1",
                                        "7",
                                        "128",
                                        "4294967296",
                                        "18446744073709551616",
                                        "9223372036854775807",
                                        "1e308",
                                        "-1e-3",
                                        "nan",
                                        "inf",
                                        "1e999",
                                        "0x0",
                                        "4503599627370496x4503599627370496",
                                        "gather(9)",
                                        "gather(127)",
                                        "gather(128)",
                                        "gather(-1)",
                                        "reduce",
                                        "replicate",
                                        "full",
                                        "'",
                                        "data='",
                                        "->",
                                        ",",
                                        "0,0,0,0",
                                        "tandem",
                                        "hidup-serial",
                                        "hidup-overlapped",
                                        "backward",
                                        "update",
                                        "resident",
                                        "output",
                                        "time",
                                        "tie",
                                        "#",
                                        "scalar",
                                        "s",
                                        "B",
                                        "s/B",
                                        "\r",
                                        "\t",
                                        "stage",
                                        "operator"};
    auto [begin, size] = pick(text, " \n,'");
    if (draw(3))
      text.replace(begin, size, words[draw(std::size(words))]);
    else
      text.insert(begin, text.substr(begin, size) + " ");
  }

  std::mt19937 random;
};
} // namespace

static void expectOneLine(const std::string &error, const std::string &text) {
  EXPECT_FALSE(error.empty()) << text;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

/// What the search finds is legal, and what it does not find it explains.
static bool searchIn(const SearchProblem &problem, const std::string &text) {
  search::SearchResult result = search::searchHidup(problem, {});
  if (!result.plan) {
    expectOneLine(result.error, text);
    return false;
  }
  std::string error;
  EXPECT_TRUE(search::verifyPlan(problem, *result.plan, error)) << error << "\n"
                                                                << text;
  return true;
}

TEST(Fuzz, Problems) {
  Mutator mutator(1);
  unsigned numProblems = 0, numPlans = 0;
  for (unsigned trial = 0; trial < 20000; ++trial) {
    std::string text = mutator.mutate(kProblem), error;
    auto problem = parseSearchProblem(text, "p.txt", error);
    if (!problem) {
      expectOneLine(error, text);
      continue;
    }
    ++numProblems;
    numPlans += searchIn(*problem, text);
    auto again = parseSearchProblem(print(*problem), "p.txt", error);
    ASSERT_TRUE(again) << error << "\n" << text;
    EXPECT_EQ(*again, *problem) << text;
  }
  // Both ways are taken.
  EXPECT_GT(numProblems, 500u);
  EXPECT_LT(numProblems, 19000u);
  EXPECT_GT(numPlans, 300u);
}

TEST(Fuzz, Plans) {
  std::string error;
  auto problem = parseSearchProblem(kProblem, "p.txt", error);
  ASSERT_TRUE(problem) << error;
  Plan plan = *search::searchHidup(*problem, {}).plan;
  std::string text = print(*problem, plan);
  Mutator mutator(2);
  unsigned numPlans = 0, numLegal = 0;
  for (unsigned trial = 0; trial < 20000; ++trial) {
    std::string mutated = mutator.mutate(text);
    error.clear();
    auto parsed = parsePlan(*problem, mutated, "plan.txt", error);
    if (!parsed) {
      expectOneLine(error, mutated);
      continue;
    }
    ++numPlans;
    bool isLegal = search::verifyPlan(*problem, *parsed, error);
    numLegal += isLegal;
    if (!isLegal)
      expectOneLine(error, mutated);
    else
      EXPECT_NEAR(parsed->cost, plan.cost, 1e-9 * plan.cost) << mutated;
  }
  EXPECT_GT(numPlans, 500u);
  EXPECT_LT(numLegal, numPlans);
}
