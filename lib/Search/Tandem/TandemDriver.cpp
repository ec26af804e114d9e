//===- TandemDriver.cpp - the way from a problem to its plan --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemDriver.h"
#include "TandemFold.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// As `kFoldDistance`, of the coarse folding.
constexpr unsigned kCoarseDistance = 1;
/// Folding that leaves a larger share of the variables saves little, and lets
/// some that differ share their messages.
constexpr double kWorthFolding = 0.75;
/// Numbers that the sweeps of one search for forms may look at: at first, and
/// as long as better forms may come.
constexpr uint64_t kFormWork = 100'000'000, kMoreFormWork = 30'000'000;
constexpr unsigned kMaxFormSweeps = 1000;
/// Forms whose weighted cost is this share above its bound are as good as the
/// best ones; a bound that rises by less than a share leads to no others.
constexpr double kNearBound = 1e-2, kSettled = 1e-3;
/// In problems of more operators random changes find little for their time.
constexpr unsigned kMaxAnnealed = 1000;
/// A plan that is this share better is tried to be proven again.
constexpr double kWorthProof = 1e-2;
/// Live tensors of labels that the exact search may look at (3 million in a
/// second), and the one that drops labels; with patience, only the user's limit
/// of time ends it, or so many labels at a position: some hundred megabytes.
constexpr uint64_t kExactWork = 3'000'000, kRoughWork = 300'000,
                   kMaxLabels = 200'000;

Driver::Driver(const SearchProblem &problem, const SearchOptions &options,
               SearchEnd &end)
    : problem(problem), options(options), end(end),
      facts(problem, options.without), table(problem), graph(facts, table),
      addsUp(isSum()),
      repeats(facts.does(Mechanism::Folding) ? findRepeats(graph, kFoldDistance)
                                             : getUnfolded(graph)),
      folded(graph, repeats),
      coarse(graph, facts.does(Mechanism::Coarse)
                        ? findRepeats(graph, kCoarseDistance)
                        : repeats),
      pool(facts, table), improver(graph, table, repeats) {
  size_t numLeft = std::set<unsigned>(repeats.begin(), repeats.end()).size();
  double share =
      static_cast<double>(numLeft) / static_cast<double>(repeats.size());
  if (facts.does(Mechanism::Unfolded) && share > kWorthFolding && !findsForms())
    unfolded.emplace(graph, getUnfolded(graph));
}

/// False if the search has to end.
bool Driver::proceeds(double done) {
  return end.proceeds(done, pool.seconds, lowerBound);
}

/// Whether the best plan is good enough.
bool Driver::isClosed() const {
  return pool.best &&
         (pool.seconds - lowerBound <= kTolerance * pool.seconds ||
          pool.seconds <= lowerBound * (1 + options.gap) * (1 + 1e-12));
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Weights that lead to good plans; no bounds.
std::vector<Weights> Driver::getGuides() const {
  std::vector<Weights> guides(2);
  double scale = std::isfinite(pool.seconds) ? pool.seconds : 1;
  double join = scale / static_cast<double>(problem.operators.size());
  guides[1].waiting = 0.2;
  auto add = [&](double split, double collectiveOnce, double collectiveSplit,
                 double joins) {
    Weights weights;
    weights.split = split;
    weights.collectiveOnce = collectiveOnce;
    weights.collectiveSplit = collectiveSplit;
    weights.waiting = std::min(collectiveSplit, 0.1);
    weights.join = joins * join;
    guides.push_back(weights);
  };
  if (!facts.does(Mechanism::Guides))
    return guides;
  add(1, 0.5, 0.5, 0);
  if (facts.numStrands > 1) {
    add(0.8, 0.2, 0.2, 0.5);
    add(0.97, 0.03, 0.03, 0.5);
    add(1, 1, 0.1, 0);
    add(0.5, 0.5, 0.5, 0.1);
    add(1, 0.5, 0.2, 4);
  }
  // What holds less often communicates less, too.
  if (pool.leastPeak < std::numeric_limits<int64_t>::max()) {
    guides.push_back(guides[1]);
    guides.back().memory =
        scale / 100 / static_cast<double>(pool.leastPeak + 1);
  }
  return guides;
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

std::vector<unsigned>
Driver::getSignatures(const std::vector<unsigned> &values) const {
  std::vector<unsigned> signatures;
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    signatures.push_back(values[graph.variableOf[op]]);
  return signatures;
}

/// Few sweeps of large problems, many of small ones.
unsigned Driver::getNumSweeps(uint64_t budget, const Relaxation &relaxation,
                              unsigned least, unsigned most) {
  uint64_t sweeps = budget / (1 + relaxation.getWork());
  return std::clamp<uint64_t>(sweeps, least, most);
}

/// Makes plans of what suits the weights: after some sweeps, and after twice as
/// many as long as that leads to other forms. Returns the seconds of the best
/// one.
double Driver::searchForms(const Weights &weights) {
  graph.setWeights(weights);
  Relaxation &relaxation = getRelaxation();
  // Messages of other prices are a worse start than none.
  relaxation.reset();
  unsigned sweeps = getNumSweeps(kFormWork, relaxation, 3, 12), done = 0;
  unsigned most =
      findsForms() || !facts.does(Mechanism::MoreSweeps)
          ? sweeps
          : getNumSweeps(kMoreFormWork, relaxation, sweeps, kMaxFormSweeps);
  PlanPool::Record found;
  double least = kInfinity, bound = -kInfinity;
  bool mayImprove = true;
  while (mayImprove && done < most) {
    for (; done < std::min(sweeps, most); ++done)
      relaxation.sweep();
    sweeps *= 2;
    double relaxed = offerForms(relaxation, least), before = bound;
    if (pool.offered.seconds < found.seconds)
      found = pool.offered;
    bound = relaxation.getBound();
    bool hasMoved = relaxed < least || bound - before > kSettled * bound;
    least = std::min(least, relaxed);
    mayImprove = hasMoved && least - bound > kNearBound * bound;
  }
  if (found.plan && facts.does(Mechanism::Leaders))
    leaders.push_back(found);
  return found.seconds;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Every plan holds what is resident, and what the backward pass needs of the
/// forward pass when it begins.
bool Driver::proveInfeasible(SearchResult &result) const {
  int64_t least = graph.getLeastBytes();
  if (least <= problem.memoryLimit)
    return false;
  result.isInfeasible = result.lacksMemory = true;
  result.error = "every plan holds at least " + std::to_string(least) +
                 " bytes on a device, " +
                 std::to_string(least - problem.memoryLimit) +
                 " more than the limit of " +
                 std::to_string(problem.memoryLimit) + describeNeed();
  return true;
}

/// The largest tensors that are always there.
std::string Driver::describeNeed() const {
  std::vector<std::pair<int64_t, unsigned>> sizes;
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor) {
    const TensorFacts &info = facts.tensors[tensor];
    if (!graph.held.isHeld(tensor))
      continue;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Signature &signature : problem.getSignatures(info.producer))
      least = std::min(
          least, problem.getBytes(tensor, signature.results[info.result]));
    sizes.emplace_back(-least, tensor);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.resize(std::min<size_t>(sizes.size(), 3));
  std::string text = "; the largest tensors are";
  for (size_t i = 0; i < sizes.size(); ++i)
    text += (i ? ", '" : " '") + problem.tensors[sizes[i].second].name + "' (" +
            std::to_string(-sizes[i].first) + " bytes)";
  return sizes.empty() ? "" : text;
}

//===----------------------------------------------------------------------===//
// All together
//===----------------------------------------------------------------------===//

/// False if there is no time left for it.
bool Driver::makePriced() {
  if (!priced)
    priced = std::make_unique<PricedRelaxations>(
        graph, [this] { return proceeds(0.9); });
  if (end.isOver())
    priced.reset();
  return priced != nullptr;
}

/// Offers the best plan that labels find, and takes over what they prove.
void Driver::searchByLabels(LabelLimits limits) {
  if (!facts.does(Mechanism::Exact) || problem.operators.size() > kMaxExact ||
      isClosed() || isProven || end.isOver() || !makePriced())
    return;
  // Plans that gain less than the gap are of no interest.
  limits.upperBound = pool.seconds / (1 + options.gap) * (1 + 1e-12);
  limits.proceeds = [&](double done) { return proceeds(0.9 + 0.1 * done); };
  LabelResult labels = searchLabels(facts, table, *priced, limits);
  numLabels += labels.numLabels;
  if (labels.plan)
    pool.offer(*labels.plan);
  if (!labels.isComplete)
    return;
  // What `cost` judges otherwise than the label did proves nothing: the label's
  // seconds stay a bound, but another plan may lie between the two. A label
  // that ended above the limit says nothing of those that were dropped there.
  double bound = std::min(limits.upperBound / (1 + 1e-12), labels.dropped);
  if (labels.plan)
    bound = std::min(bound, labels.seconds);
  isProven = pool.seconds <= bound * (1 + kTolerance) ||
             (!labels.plan && std::isinf(labels.dropped));
  if (pool.best)
    lowerBound = std::max(lowerBound, std::min(bound, pool.seconds));
}

/// Finds a plan in little time, so that fewer labels are below it; then looks
/// at all of these.
void Driver::searchExactly() {
  if (facts.does(Mechanism::RoughExact))
    searchByLabels({.maxWork = kRoughWork, .drops = true});
  searchByLabels({.maxWork = kExactWork});
}

SearchResult Driver::finish() {
  if (!isProven)
    pool.polish([&] { return !end.isOver() && !isClosed() && proceeds(0.95); });
  SearchResult result;
  result.numVisited = pool.numPlans + numLabels;
  if (!pool.best) {
    result.isInfeasible = isProven;
    result.lacksMemory = pool.leastPeak < std::numeric_limits<int64_t>::max();
    result.error =
        !result.lacksMemory
            ? std::string("no plan brings all tensors into the layouts that "
                          "their users accept")
            : (isProven ? "no plan fits" : "found no plan that fits") +
                  std::string(" into ") + std::to_string(problem.memoryLimit) +
                  " bytes; the smallest one that was found exceeds the limit "
                  "by " +
                  std::to_string(pool.leastPeak - problem.memoryLimit) +
                  " bytes" + describeNeed();
    return result;
  }
  if (!derive(problem, *pool.best, result.error))
    return result;
  Plan &plan = *pool.best;
  plan.lowerBound = std::min(std::max(lowerBound, 0.0), plan.cost);
  plan.isOptimal = plan.cost - plan.lowerBound <= kTolerance * plan.cost;
  if (plan.isOptimal)
    plan.lowerBound = plan.cost;
  result.plan = std::move(pool.best);
  return result;
}

/// Plans under all guides, within the memory limit.
void Driver::searchByGuides() {
  std::vector<Weights> guides = getGuides();
  for (size_t i = 0; i < guides.size(); ++i) {
    if (pool.best && !proceeds(0.4 * double(i) / double(guides.size())))
      return;
    searchForms(guides[i]);
    // The scale of prices is known after the first plan.
    if (i == 0)
      guides = getGuides();
  }
  fitMemory();
  makeFit();
  shrinkCheapest();
}

PlanPool::Record Driver::runBriefly() {
  searchByGuides();
  searchAddedUp();
  Weights weights = getBoundWeights(problem, 1, 1);
  weights.memory = memoryPrice;
  searchBoundForms(weights);
  return pool.forget();
}

SearchResult Driver::run() {
  SearchResult impossible;
  if (proveInfeasible(impossible))
    return impossible;
  lowerBound = getLeastComputation() * (1 - 1e-12);
  // Starts wait, and leave no trace: a search that begins with one, or with
  // guides by what they cost, may end with a worse plan.
  PlanPool given(facts, table);
  offerStarts(given);
  PlanPool::Record started = given.forget();
  startUntimed();
  searchByGuides();
  PlanPool::Record untimed;
  bool goesOn = pool.best && proceeds(0.5);
  if (!goesOn)
    untimed = joinUntimed();
  if (untimed.plan && !pool.best)
    pool.offer(*untimed.plan);
  if (pool.best && !goesOn && end.isOver()) {
    pool.restore(std::move(untimed));
    pool.restore(std::move(started));
    return finish();
  }
  searchAddedUp();
  if (!end.isOver() && facts.does(Mechanism::StrandsBound))
    raiseBound();
  if (facts.does(Mechanism::Shrink) && hasTooLarge()) {
    searchBoundForms(getBestWeights());
    shrinkCheapest();
  }
  graph.setWeights(Weights());
  if (!end.isOver() && !isClosed())
    improve(getSmallWork(4));
  joinBound();
  if (!untimed.plan)
    untimed = joinUntimed();
  bool isWorth =
      problem.operators.size() <= kMaxUntimed || untimed.seconds < pool.seconds;
  if (untimed.plan && isWorth && !end.isOver() && !isClosed())
    improveFrom(*untimed.plan, getSmallWork(8));
  searchExactly();
  if (!end.isOver() && !isClosed() && !isProven &&
      problem.operators.size() <= kMaxAnnealed) {
    double before = pool.seconds;
    annealAll(getSmallWork(1));
    improve(getSmallWork(8));
    // Fewer labels are below a better plan.
    bool isPatient = options.timeLimit > 0;
    if (isPatient)
      searchByLabels({.maxFront = kMaxLabels});
    else if (pool.seconds < before * (1 - kWorthProof))
      searchByLabels({.maxWork = kExactWork});
  }
  pool.restore(std::move(untimed));
  improveStart(std::move(started));
  if (facts.does(Mechanism::Refine))
    refineInRounds();
  return finish();
}
