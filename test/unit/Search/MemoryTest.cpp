//===- MemoryTest.cpp - peaks of plans, by brute force --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainMaker.h"
#include "RandomPlan.h"
#include "RandomProblem.h"
#include "tandem/Cost/TensorIndex.h"
#include "tandem/Search/Exhaustive.h"
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

/// Of random chains in which sources are chosen.
constexpr uint64_t kNumChains = 200;

//===----------------------------------------------------------------------===//
// Strands, operator by operator
//===----------------------------------------------------------------------===//

namespace {
/// A moment: a strand of a stage runs an operator. Strands run a stage one
/// after the other; if no operator in it is over time, only the first one does.
struct Moment {
  unsigned stage;
  int64_t strand;
  unsigned op;
  auto operator<=>(const Moment &) const = default;
};

/// What is held at each moment of a plan without copies that wait.
class Simulation {
public:
  Simulation(const SearchProblem &problem, const Plan &plan,
             const CostReport &report)
      : problem(problem), plan(plan), report(report), index(problem),
        numStrands(problem.getNumStrands()) {
    for (unsigned op = 0, stage = 0; op < problem.operators.size(); ++op) {
      stage += op == plan.stageEnds[stage];
      stageOf.push_back(stage);
      lastStrands.resize(stage + 1);
      const Signature &signature =
          problem.getSignatures(op)[plan.signatures[op]];
      if (!problem.operators[op].isArgument() && problem.isOverTime(signature))
        lastStrands[stage] = numStrands - 1;
    }
  }

  int64_t getPeak() {
    for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor)
      addTensor(tensor);
    for (const CopyChange &change : report.changes)
      addCopy(change);
    int64_t peak = 0;
    for (unsigned op = 0; op < stageOf.size(); ++op)
      for (int64_t strand = 0; strand <= lastStrands[stageOf[op]]; ++strand)
        peak = std::max(
            peak, getBytes({stageOf[op], strand, op}) +
                      problem.getSignatures(op)[plan.signatures[op]].workspace);
    return peak;
  }
  /// Whether a copy was made from another one of its pass, which lets go of
  /// what was produced before the definition does.
  bool hasChains = false;

private:
  struct Piece {
    Moment first, last;
    int64_t bytes;
  };

  int64_t getBytes(const Moment &now) const {
    int64_t bytes = arguments;
    for (const Piece &piece : pieces)
      if (piece.first <= now && now <= piece.last)
        bytes += piece.bytes;
    return bytes;
  }
  bool isOverTime(const Layout &layout) const {
    int time = problem.getTimeAxis();
    return numStrands == 1 || layout[time] != kFull;
  }
  unsigned getBegin(unsigned stage) const {
    return stage == 0 ? 0 : plan.stageEnds[stage - 1];
  }
  /// One piece per strand, or one from the first strand to the last.
  void addPieces(unsigned tensor, const Layout &layout, unsigned first,
                 unsigned last, bool isCopy) {
    int64_t bytes = problem.getBytes(tensor, layout);
    bool isSplit = isOverTime(layout);
    for (int64_t strand = 0; strand < (isSplit ? numStrands : 1); ++strand)
      pieces.push_back(
          {isCopy ? Moment{stageOf[first], 0, getBegin(stageOf[first])}
                  : Moment{stageOf[first], strand, first},
           {stageOf[last], isSplit ? strand : lastStrands[stageOf[last]], last},
           isSplit ? bytes / numStrands : bytes});
  }
  const Layout &getWanted(const TensorUse &use) const {
    return index.getWanted(plan.signatures, use);
  }
  const Layout &getProduced(unsigned tensor) const {
    return index.getProduced(plan.signatures, tensor);
  }
  Pass getPass(const TensorUse &use) const {
    return problem.operators[use.op].pass;
  }
  bool takesSum(unsigned tensor, const TensorUse &use) const {
    int time = problem.getTimeAxis();
    return time >= 0 && getPass(use) == Pass::Update &&
           getProduced(tensor)[time] == kReduce &&
           getWanted(use)[time] == kFull;
  }
  Layout getSum(unsigned tensor) const {
    Layout sum = getProduced(tensor);
    if (int time = problem.getTimeAxis(); time >= 0)
      sum[time] = kFull;
    return sum;
  }
  bool isTied(const TensorUse &use) const {
    for (auto [first, second] : problem.ties)
      if (first == use.op || second == use.op)
        return problem.operators[use.op].kind == Operator::Kind::Output;
    return false;
  }

  bool isFromProduced(const CopyChange &change) const {
    const Layout &produced = getProduced(change.copy.tensor);
    int time = problem.getTimeAxis();
    return change.from == produced ||
           (time >= 0 && change.copy.pass == Pass::Update &&
            produced[time] == kReduce &&
            change.from == getSum(change.copy.tensor));
  }

  void addTensor(unsigned tensor) {
    const TensorFacts &info = index.tensors[tensor];
    const Layout &produced = getProduced(tensor);
    const Operator &producer = problem.operators[info.producer];
    if (producer.isArgument()) {
      arguments += problem.getBytes(tensor, produced);
      return;
    }
    bool isInPlace = !info.uses.empty(), isSummed = false, hasTerms = false;
    unsigned last = info.producer;
    for (const TensorUse &use : info.uses) {
      isInPlace &= isTied(use) && getWanted(use) == produced;
      bool isSum = takesSum(tensor, use);
      isSummed |= isSum;
      hasTerms |= !isSum;
      Layout base = isSum ? getSum(tensor) : produced;
      if (getWanted(use) == base)
        last = std::max(last, use.op);
    }
    for (const CopyChange &change : report.changes)
      if (change.copy.tensor == tensor && isFromProduced(change))
        last = std::max(last, getFirstUse(change.copy));
    if (isInPlace)
      return;
    unsigned end = plan.stageEnds[stageOf[info.producer]];
    if (isSummed && !hasTerms)
      addTerms(tensor, info.producer, end - 1);
    else
      addPieces(tensor, produced, info.producer, last, false);
    if (isSummed && last >= end)
      pieces.push_back({{stageOf[end], 0, end},
                        {stageOf[last], lastStrands[stageOf[last]], last},
                        problem.getBytes(tensor, getSum(tensor))});
  }
  /// They are there until the last strand has summed them up.
  void addTerms(unsigned tensor, unsigned first, unsigned last) {
    int64_t bytes = problem.getBytes(tensor, getProduced(tensor));
    for (int64_t strand = 0; strand < numStrands; ++strand)
      pieces.push_back({{stageOf[first], strand, first},
                        {stageOf[last], numStrands - 1, last},
                        bytes / numStrands});
  }
  unsigned getFirstUse(const Copy &copy) const {
    for (const TensorUse &use : index.tensors[copy.tensor].uses)
      if (getPass(use) == copy.pass && getWanted(use) == copy.layout)
        return use.op;
    return 0;
  }
  bool isKept(Copy copy, Pass pass) const {
    copy.pass = pass;
    return std::binary_search(plan.kept.begin(), plan.kept.end(), copy);
  }

  void addCopy(const CopyChange &change) {
    const Copy &copy = change.copy;
    const std::vector<TensorUse> &uses = index.tensors[copy.tensor].uses;
    unsigned first = getFirstUse(copy), last = first;
    bool isAlive = true, isInPlace = true;
    Pass pass = copy.pass;
    for (const TensorUse &use : uses) {
      if (getWanted(use) == copy.layout)
        isInPlace &= isTied(use);
      if (use.op < first)
        continue;
      // Behind a pass it is there if it is kept.
      if (getPass(use) != pass)
        isAlive &= isKept(copy, pass);
      pass = getPass(use);
      if (isAlive)
        last = use.op;
    }
    hasChains |= !isFromProduced(change);
    if (!isInPlace)
      addPieces(copy.tensor, copy.layout, first, last, true);
  }

  const SearchProblem &problem;
  const Plan &plan;
  const CostReport &report;
  TensorIndex index;
  int64_t numStrands, arguments = 0;
  std::vector<unsigned> stageOf;
  /// By stage.
  std::vector<int64_t> lastStrands;
  std::vector<Piece> pieces;
};
} // namespace

/// The peak is one that strands reach, and just that if there is one strand.
TEST(MemoryTest, holdsWhatStrandsHold) {
  unsigned numEqual = 0, numStrands = 0, numSharp = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, {.isRich = seed % 2 != 0});
    ChangeTable table(problem);
    Random random(seed);
    std::optional<Plan> plan = makeRandomPlan(problem, table, random);
    if (!plan)
      continue;
    plan->waiting.clear();
    std::string error;
    std::optional<CostReport> report = cost::cost(problem, *plan, table, error);
    ASSERT_TRUE(report) << error;
    Simulation simulation(problem, *plan, *report);
    int64_t peak = simulation.getPeak();
    EXPECT_GE(report->peak, peak) << seed;
    if (problem.getNumStrands() == 1 && !simulation.hasChains) {
      EXPECT_EQ(report->peak, peak) << seed;
      ++numEqual;
    }
    if (problem.getNumStrands() > 1) {
      ++numStrands;
      numSharp += report->peak == peak;
    }
  }
  printf("%u plans of one strand, %u of several, %u of which hold just that\n",
         numEqual, numStrands, numSharp);
  EXPECT_GT(numEqual, 30u);
  EXPECT_GT(numSharp, numStrands / 4);
}

//===----------------------------------------------------------------------===//
// Searches
//===----------------------------------------------------------------------===//

namespace {
/// Of all plans of a problem.
struct Peaks {
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
};
} // namespace

/// None if there are more plans than `maxPlans`.
static std::optional<Peaks> findPeaks(const SearchProblem &problem,
                                      uint64_t maxPlans) {
  Peaks peaks;
  std::string error;
  uint64_t numVisited = 0;
  auto visit = [&](const Plan &, const CostReport &report) {
    peaks.least = std::min(peaks.least, report.peak);
    peaks.most = std::max(peaks.most, report.peak);
    return true;
  };
  if (!enumeratePlans(problem, maxPlans, visit, numVisited, error))
    return std::nullopt;
  return peaks;
}

/// Views, insides of kernels and alignment, below limits that bind.
TEST(MemoryTest, searchesAgreeOnPlaces) {
  unsigned numPlans = 0, numTooLarge = 0, numProven = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SearchProblem problem =
        makeRandomProblem(seed, {.maxForward = 4, .maxPlans = 3'000});
    Random random(seed);
    addPlaces(problem, random);
    std::optional<Peaks> peaks = findPeaks(problem, 200'000);
    if (!peaks)
      continue;
    auto [least, most] = *peaks;
    problem.memoryLimit =
        least - 10 + static_cast<int64_t>(random.below(1 + (most - least) / 2));
    SearchResult exact = searchExhaustive(problem, {});
    SearchResult found = searchTandem(problem, {});
    ASSERT_EQ(bool(exact.plan), bool(found.plan))
        << seed << ": " << exact.error << "; " << found.error;
    numTooLarge += !exact.plan;
    if (!exact.plan)
      continue;
    ++numPlans;
    EXPECT_LE(found.plan->lowerBound, exact.plan->cost * (1 + 1e-9)) << seed;
    if (found.plan->isOptimal) {
      ++numProven;
      EXPECT_NEAR(found.plan->cost, exact.plan->cost, 1e-9 * exact.plan->cost)
          << seed;
    }
    if (seed % 3 != 0)
      continue;
    SearchResult program = searchIlp(problem, {});
    ASSERT_TRUE(program.plan) << seed << ": " << program.error;
    EXPECT_LE(program.plan->lowerBound, exact.plan->cost * (1 + 1e-9)) << seed;
    if (program.plan->isOptimal) {
      EXPECT_NEAR(program.plan->cost, exact.plan->cost, 1e-9 * exact.plan->cost)
          << seed;
    }
  }
  printf("%u problems with plans, %u proven, %u without\n", numPlans, numProven,
         numTooLarge);
  EXPECT_GT(numPlans, 60u);
  EXPECT_GT(numProven, numPlans / 2);
  EXPECT_GT(numTooLarge, 0u);
}

static SearchProblem readProblem(const std::string &name) {
  std::ifstream file(std::string(TANDEM_SEARCH_INPUTS) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  std::string error;
  std::optional<SearchProblem> problem =
      parseSearchProblem(text.str(), name, error);
  EXPECT_TRUE(problem) << error;
  return problem.value_or(SearchProblem());
}

/// An all-reduced tensor that is kept counts once: no all-reduce is repeated.
TEST(MemoryTest, twoTensorParallelLayers) {
  SearchProblem problem = readProblem("two-layers.txt");
  problem.memoryLimit = 10'500;
  for (auto search : {searchTandem, searchIlp}) {
    SearchResult result = search(problem, {});
    ASSERT_TRUE(result.plan) << result.error;
    EXPECT_NEAR(result.plan->cost, 40.0, 1e-9);
    EXPECT_TRUE(result.plan->isOptimal);
  }
}

//===----------------------------------------------------------------------===//
// Sources that are chosen
//===----------------------------------------------------------------------===//

/// A chain of six whose backward readers take saved tensors, or what is made
/// again: brute force over all schedules knows the optima.
TEST(MemoryTest, aChainMakesAgainWhatPaysLeast) {
  SearchProblem problem = readProblem("chain.txt");
  for (auto [limit, seconds] : std::map<int64_t, double>{
           {371, 48}, {370, 49}, {270, 52}, {225, 55}, {220, 0}}) {
    problem.memoryLimit = limit;
    for (auto search : {searchTandem, searchIlp, searchExhaustive}) {
      SearchResult result = search(problem, {});
      EXPECT_EQ(bool(result.plan), seconds > 0) << limit << result.error;
      if (!result.plan) {
        EXPECT_NE(result.error.find("fit"), std::string::npos) << result.error;
        continue;
      }
      EXPECT_NEAR(result.plan->cost, seconds, 1e-9) << limit;
      EXPECT_TRUE(result.plan->isOptimal) << limit;
    }
  }
}

namespace {
/// Layers u = f(x), v = g(u), x = h(v), whose backward readers take v as it was
/// saved, or made again of u, as it was saved or made again of x. Seconds are
/// 5, 1 and 1, and 2 of the reader; bytes 40, 40 and 10.
SearchProblem makeLayers(unsigned count) {
  ProblemBuilder builder;
  builder.addAxis("data", 1, perByte(0));
  Layout absent;
  absent[0] = kAbsent;
  const Layout full;
  const Signature leftOut = {{absent, absent}, {absent}};
  std::vector<unsigned> xs{builder.addTensor("x", {10})}, us{0}, vs{0};
  builder.addInput(xs[0], {{{}, {full}}});
  auto add = [&](Pass pass, std::vector<unsigned> operands, int64_t bytes,
                 SignatureSet set) {
    unsigned result = builder.addTensor("t", {bytes});
    builder.addCompute(pass, std::move(operands), {result}, std::move(set));
    return result;
  };
  for (unsigned i = 0; i < count; ++i) {
    us.push_back(add(Pass::Forward, {xs[i]}, 40, {{{full}, {full}, 5}}));
    vs.push_back(add(Pass::Forward, {us.back()}, 40, {{{full}, {full}, 1}}));
    xs.push_back(add(Pass::Forward, {vs.back()}, 10, {{{full}, {full}, 1}}));
  }
  unsigned gradient = xs.back();
  for (unsigned i = count; i > 0; --i) {
    unsigned u = add(Pass::Backward, {xs[i - 1]}, 40,
                     {{{absent}, {absent}}, {{full}, {full}, 5}});
    unsigned v = add(
        Pass::Backward, {us[i], u}, 40,
        {leftOut, {{full, absent}, {full}, 1}, {{absent, full}, {full}, 1}});
    gradient = add(Pass::Backward, {gradient, vs[i], v, xs[i - 1]}, 10,
                   {{{full, full, absent, full}, {full}, 2},
                    {{full, absent, full, full}, {full}, 2}});
  }
  builder.addOutput(Pass::Backward, gradient, {{{full}, {}}});
  for (Tensor &tensor : builder.problem.tensors)
    tensor.elementBytes = 1;
  return builder.problem;
}
} // namespace

/// What is read by a clone alone is made again with it: one alone saves
/// nothing. Layers differ in nothing but their place.
TEST(MemoryTest, asManyLayersAreMadeAgainAsTheLimitAsks) {
  constexpr int64_t kCount = 60;
  SearchProblem problem = makeLayers(kCount);
  for (int64_t numAgain : {0, 7, 30, 55}) {
    // While g of the last layer runs.
    problem.memoryLimit = 10 * kCount + 40 * (kCount - numAgain) + 40;
    SearchResult result = searchTandem(problem, {});
    ASSERT_TRUE(result.plan) << result.error;
    EXPECT_NEAR(result.plan->cost,
                static_cast<double>(9 * kCount + 6 * numAgain), 1e-6)
        << numAgain;
  }
}

/// Prices of bytes are not tried where what is made again makes plans fit.
TEST(MemoryTest, pricesWaitForSources) {
  SearchProblem problem = makeLayers(60);
  problem.memoryLimit = 10 * 60 + 40 * 30 + 40;
  SearchOptions unpriced;
  unpriced.without.add(Mechanism::BoundPrices);
  SearchResult result = searchTandem(problem, {}),
               other = searchTandem(problem, unpriced);
  ASSERT_TRUE(result.plan && other.plan) << result.error << other.error;
  EXPECT_EQ(result.plan->cost, other.plan->cost);
  EXPECT_EQ(result.numVisited, other.numVisited);
}

TEST(MemoryTest, formsAreAbsentOnAllAxes) {
  std::string text = R"(tandem-problem 1
axis data space 2
axis micro time 2
tensor 0 x 4 1 B
signatures 0
  data='-> full' micro='-> full' 0 s 0 B
signatures 1
  data='absent ->' micro='full ->' 0 s 0 B
operator 0 forward input x set 0 operands - results 0
operator 1 forward compute y set 1 operands 0 results -
)",
              error;
  EXPECT_FALSE(parseSearchProblem(text, "p.txt", error));
  EXPECT_EQ(error,
            "p.txt:10: operator 'y' has the form 'data=absent' of tensor 0, "
            "expected 'absent' on all axes or on none");
}

TEST(MemoryTest, searchesAgreeOnSources) {
  unsigned numPlans = 0, numProven = 0, numAgain = 0, numTooLarge = 0;
  for (uint64_t seed = 0; seed < kNumChains; ++seed) {
    SearchProblem problem = ChainMaker(seed).run();
    Random random(seed);
    for (Tensor &tensor : problem.tensors)
      if (random.chance(0.3))
        tensor.heldFrom = Tensor::kIfRead;
    std::optional<Peaks> peaks = findPeaks(problem, 300'000);
    if (!peaks)
      continue;
    auto [least, most] = *peaks;
    problem.memoryLimit =
        least - 2 + static_cast<int64_t>(random.below(1 + (most - least) / 2));
    SearchResult exact = searchExhaustive(problem, {});
    for (auto search : {searchTandem, searchIlp}) {
      SearchResult found = search(problem, {});
      ASSERT_EQ(bool(exact.plan), bool(found.plan))
          << seed << ": " << exact.error << "; " << found.error;
      if (!exact.plan)
        continue;
      ++numPlans;
      double optimum = exact.plan->cost;
      EXPECT_LE(found.plan->lowerBound, optimum * (1 + 1e-9)) << seed;
      EXPECT_GE(found.plan->cost, optimum * (1 - 1e-9)) << seed;
      if (!found.plan->isOptimal)
        continue;
      ++numProven;
      EXPECT_NEAR(found.plan->cost, optimum, 1e-9 * optimum) << seed;
    }
    numTooLarge += !exact.plan;
    SearchProblem free = problem;
    free.memoryLimit = kNoLimit;
    if (exact.plan)
      numAgain += searchTandem(free, {}).plan->cost < exact.plan->cost;
  }
  printf("%u plans, %u proven; the limit binds in %u problems, none fits in "
         "%u\n",
         numPlans, numProven, numAgain, numTooLarge);
  EXPECT_GT(numPlans, kNumChains);
  EXPECT_GT(numProven, numPlans / 2);
  EXPECT_GT(numAgain, kNumChains / 5);
}
