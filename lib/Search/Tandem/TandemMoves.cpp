//===- TandemMoves.cpp - from good plans to better ones -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small changes with given stages, and new stages for given forms, in turn
// (docs/rationale/search.md, *Small changes*).
//
//===----------------------------------------------------------------------===//

#include "TandemDriver.h"
#include "TandemTies.h"
#include <algorithm>
#include <array>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Tensors and stages that small changes may look at (15 million in a second),
/// times operators: large problems ten times as large get a tenth. Small ones
/// need less: so much per operator.
constexpr uint64_t kSmallWork = 20'000'000'000, kWorkPerOperator = 150'000;
/// What new stages take, per operator.
constexpr uint64_t kDivideWork = 24;
/// Rounds of random changes, and what a change may cost in them at first.
constexpr unsigned kRounds = 6;
constexpr std::array kHeats = {1e-3, 3e-4};
/// Where there are fewer operators, each is a larger share, and there is time
/// for more rounds.
constexpr double kHeatOperators = 400;
/// Rounds with cheapest forms, and those in sequence that gain nothing.
constexpr unsigned kStagesRounds = 4, kIdleRounds = 2;
/// Given plans that cost this share more than the best one are left alone.
constexpr double kNear = 0.03;
/// Random changes where nothing fits: a share of the limit.
constexpr double kLargeHeat = 5e-3;
/// Plans of guides from which small changes are tried.
constexpr size_t kMaxLeaders = 4;
/// Plans that are too large and this share cheaper are made smaller.
constexpr double kWorthShrinking = 1e-3;
/// What is left for changes of an operator with those next to it, at last.
constexpr uint64_t kLastShare = 4;
/// Numbers that the problem without its time axis may look at for a plan that
/// the one with it has led to.
constexpr uint64_t kUntimedWork = 3'000'000'000;

static void spend(uint64_t &work, uint64_t amount) {
  work -= std::min(work, amount);
}

/// A share, one in so many, of what small changes may look at.
uint64_t Driver::getSmallWork(uint64_t share) const {
  uint64_t numOperators = problem.operators.size();
  return std::min(kWorkPerOperator * numOperators,
                  kSmallWork / (numOperators + 1)) /
         share;
}

/// Small changes and new stages in turn, as long as that helps. The best plan
/// of all that come is in the pool, the one that this led to is `offered`.
void Driver::descend(const Plan &plan, bool isCareful, uint64_t &work) {
  auto mayGoOn = [this] { return proceeds(0.6); };
  PlanImprover::Reach reach = isCareful && facts.does(Mechanism::Neighbours)
                                  ? PlanImprover::Reach::Neighbours
                                  : PlanImprover::Reach::Units;
  Plan now = plan;
  double before = kInfinity;
  if (!facts.does(Mechanism::Descent)) {
    pool.offerDivided(now, isCareful);
    return;
  }
  while (work > 0 && !end.isOver()) {
    now = improver.improve(now, reach, work, mayGoOn);
    double after = pool.offerDivided(now, isCareful);
    spend(work, kDivideWork * problem.operators.size());
    if (!pool.offered.plan || after >= before * (1 - 1e-9))
      return;
    before = after;
    now = *pool.offered.plan;
  }
}

void Driver::improve(uint64_t work) {
  if (!pool.best)
    return;
  uint64_t last = work / kLastShare;
  work -= last;
  descend(Plan(*pool.best), false, work);
  last += work;
  if (!end.isOver() && !isClosed())
    descend(Plan(*pool.best), true, last);
}

/// Random changes from a plan, if there is heat, and small ones behind them;
/// the best of all that come.
PlanPool::Record Driver::anneal(PlanPool::Record from, double heat,
                                uint64_t work) {
  if (end.isOver() || !from.plan)
    return from;
  auto mayGoOn = [this] { return proceeds(0.8); };
  PlanPool::Record best = pool.forget();
  Plan plan = *from.plan;
  if (heat > 0 && facts.does(Mechanism::Anneal)) {
    uint64_t random = work * 3 / 4;
    work -= random;
    double numOperators = static_cast<double>(problem.operators.size());
    heat *= std::max(1.0, kHeatOperators / numOperators);
    plan = improver.anneal(plan, heat, random, mayGoOn);
  }
  descend(plan, heat == 0, work);
  pool.restore(std::move(from));
  std::swap(best, from);
  best = pool.forget();
  pool.restore(std::move(from));
  return best;
}

/// Sorts plans, the best one first, and leaves so many, of each cost one.
void Driver::selectLeaders(size_t count) {
  std::stable_sort(leaders.begin(), leaders.end(),
                   [](const PlanPool::Record &a, const PlanPool::Record &b) {
                     return a.seconds < b.seconds;
                   });
  auto isEqual = [](const PlanPool::Record &a, const PlanPool::Record &b) {
    return a.seconds == b.seconds;
  };
  leaders.erase(std::unique(leaders.begin(), leaders.end(), isEqual),
                leaders.end());
  leaders.resize(std::min(leaders.size(), count));
}

/// Plans of different guides lie in different valleys. Of several, all descend;
/// the better half is changed at random, until one is left.
void Driver::annealAll(uint64_t work) {
  if (!pool.best)
    return;
  leaders.push_back({pool.best, pool.seconds});
  selectLeaders(kMaxLeaders);
  double heat = 0;
  while (leaders.size() > 1) {
    uint64_t share = work / 4 / leaders.size();
    for (PlanPool::Record &leader : leaders)
      leader = anneal(std::move(leader), heat, share);
    heat = kHeats.front();
    selectLeaders(leaders.size() / 2);
  }
  PlanPool::Record best = std::move(leaders.front());
  leaders.clear();
  double numOperators = static_cast<double>(problem.operators.size());
  double numRounds = kRounds * std::max(1.0, kHeatOperators / numOperators);
  for (unsigned round = 0; round < numRounds && !isClosed(); ++round)
    best = anneal(std::move(best), kHeats[round % kHeats.size()],
                  work / 2 / kRounds);
  pool.restore(std::move(best));
}

/// Improves what comes from the plan, apart from the best one so far.
void Driver::improveFrom(const Plan &plan, uint64_t work) {
  PlanPool::Record best = pool.forget();
  pool.offer(plan);
  improve(work);
  leaders.push_back({pool.best, pool.seconds});
  pool.restore(std::move(best));
}

/// The plans that are given, with better stages. Of those whose forms are too
/// large whatever the stages nothing is asked.
void Driver::offerStarts(PlanPool &to) const {
  for (const Plan &plan : options.starts)
    if (graph.getHeldBytes(plan.signatures) <= problem.memoryLimit)
      to.offer(plan);
}

/// Better plans from where the given ones are, if that may lead somewhere.
void Driver::improveStart(PlanPool::Record started) {
  if (!started.plan)
    return;
  bool isNear = !pool.best || started.seconds <= pool.seconds * (1 + kNear);
  if (isNear && facts.does(Mechanism::Starts) && !end.isOver() && !isClosed())
    improveFrom(*started.plan, getSmallWork(8));
  pool.restore(std::move(started));
}

/// Begins to look for the plan of the problem without its time axis: so
/// splitting over time never makes a plan dearer, and changes of single forms
/// lead from there to other plans than from those of the guides. Not beside
/// the search of a small problem: whoever ends one after so many questions
/// gets the same plan every time.
void Driver::startUntimed() {
  std::optional<UntimedProblem> untimed = dropTime(problem);
  if (end.isOver() || !untimed || !facts.does(Mechanism::Untimed))
    return;
  untimedSearch = std::make_unique<UntimedSearch>();
  UntimedSearch &search = *untimedSearch;
  search.options.gap = options.gap;
  search.options.without = options.without;
  for (const Plan &start : options.starts)
    if (std::optional<Plan> plan = untimed->lower(start))
      search.options.starts.push_back(std::move(*plan));
  search.isApart = problem.operators.size() > kMaxExact;
  search.options.progress = [this, &search](double done, double, double) {
    return search.isApart ? !end.isOver() : proceeds(0.4 + 0.1 * done);
  };
  search.end.emplace(search.options);
  search.problem = std::move(*untimed);
  auto policy = search.isApart ? std::launch::async : std::launch::deferred;
  search.found = std::async(policy, [&search] {
    const SearchProblem &problem = search.problem.problem;
    search.driver =
        std::make_unique<Driver>(problem, search.options, *search.end);
    PlanPool::Record found;
    if (problem.operators.size() > kMaxUntimed)
      found = search.driver->runBriefly();
    else if (SearchResult result = search.driver->run(); result.plan)
      found = {result.plan, result.plan->cost};
    if (found.plan)
      found.plan = search.problem.lift(*found.plan);
    return found;
  });
}

/// What the search without a time axis found; nothing if that was asked before.
PlanPool::Record Driver::joinUntimed() {
  if (!untimedSearch || !untimedSearch->found.valid())
    return {};
  wait(untimedSearch->found);
  untimedSearch->isApart = false;
  return untimedSearch->found.get();
}

/// Where the best plan splits nothing over time, what the problem without its
/// time axis makes of it.
bool Driver::tryUntimed() {
  std::optional<Plan> lowered;
  if (untimedSearch)
    lowered = untimedSearch->problem.lower(*pool.best);
  if (!lowered)
    return false;
  uint64_t numBest = pool.numBest, work = kUntimedWork;
  Driver &driver = *untimedSearch->driver;
  driver.pool.forget();
  driver.pool.offerDivided(*lowered, true);
  driver.refine(work);
  if (driver.pool.best)
    pool.offerDivided(untimedSearch->problem.lift(*driver.pool.best), true);
  return pool.numBest != numBest;
}

/// Other forms of the best plan that cost the same, and the cuts that these
/// want; true if that is a better plan.
bool Driver::tryTies() {
  if (!facts.does(Mechanism::Ties))
    return false;
  Plan plan = *pool.best;
  std::string error;
  if (!derive(problem, plan, error))
    return false;
  auto mayGoOn = [this] { return !isClosed() && proceeds(0.9); };
  Plan settled = plan;
  settleTies(problem, settled, mayGoOn);
  if (settled == plan)
    return false;
  PlanPool::Record before = pool.forget();
  pool.offerDivided(settled, true);
  pool.polish(mayGoOn);
  bool isBetter = pool.seconds < before.seconds;
  pool.restore(std::move(before));
  return isBetter;
}

/// Better cuts for the best plan's forms, other forms that cost the same, and
/// the cheapest forms for its stages, in turn until none of these gains; then
/// other stages, and the same from there. `work` is what is left for forms.
void Driver::refine(uint64_t &work) {
  if (!pool.best || isProven || problem.operators.size() > kMaxRefined)
    return;
  auto mayGoOn = [this] { return !isClosed() && proceeds(0.9); };
  unsigned op = 0;
  do {
    do
      pool.polish(mayGoOn);
    while (mayGoOn() && (tryTies() || tryCheapestForms(work)));
  } while (mayGoOn() && facts.does(Mechanism::Joins) && joinStages(op, work));
}

/// Random changes from the best plan, or from where they led to the last time;
/// and the cheapest forms from there. True if that gains.
bool Driver::refineAnnealed(PlanPool::Record &last, bool isAgain,
                            uint64_t &work) {
  PlanPool::Record best = pool.forget();
  pool.restore(isAgain && last.plan ? last : best);
  annealAll(getSmallWork(1));
  improve(getSmallWork(8));
  last = {pool.best, pool.seconds};
  isCoarse = !isCoarse;
  refine(work);
  bool isBetter = pool.seconds < best.seconds;
  pool.restore(std::move(best));
  return isBetter;
}

/// From cheapest forms random changes lead to other stages than from those that
/// they led to, and so again, until some rounds did not gain.
void Driver::refineInRounds() {
  uint64_t work = getSumWork(kStagesWork);
  refine(work);
  work += getSumWork(kLastStagesWork);
  PlanPool::Record last;
  unsigned numIdle = 0;
  for (unsigned i = 0; facts.does(Mechanism::Rounds) && i < kStagesRounds &&
                       numIdle < kIdleRounds;
       ++i) {
    if (work <= kKeptStagesWork || !pool.best || end.isOver() || isClosed() ||
        !hasExactForms())
      break;
    bool isBetter = refineAnnealed(last, numIdle % 2 == 0, work);
    numIdle = isBetter ? 0 : numIdle + 1;
  }
  if (facts.does(Mechanism::Settle))
    settleStages();
}

/// Removes cuts that gain nothing, and sees to it that no other forms are
/// cheaper without them.
void Driver::settleStages() {
  bool isUntimed = untimedSearch && untimedSearch->driver->addsUp &&
                   pool.best && untimedSearch->problem.lower(*pool.best);
  if (!pool.best || isProven || end.isOver() || isClosed() ||
      !(addsUp || isUntimed))
    return;
  isCoarse = true;
  pool.best->stageEnds = pool.getFewestStages();
  uint64_t work = kKeptStagesWork;
  refine(work);
  pool.best->stageEnds = pool.getFewestStages();
}

/// Whether plans that are too large are worth being made smaller; in large
/// problems small changes do not get there.
bool Driver::hasTooLarge() const {
  return pool.best && !end.isOver() && !facts.isLarge() &&
         pool.leastSeconds < pool.seconds * (1 - kWorthShrinking);
}

/// Where the cheapest plan is too large, lowers what it holds too much, tensor
/// by tensor: prices of bytes decide for all that are alike at once.
void Driver::shrinkCheapest() {
  if (!hasTooLarge() || !facts.does(Mechanism::Shrink))
    return;
  Plan from = *pool.cheapest;
  PlanPool::Record best = pool.forget();
  uint64_t work = getSmallWork(8);
  descend(from, false, work);
  pool.restore(std::move(best));
}

/// Where no plan fits, lowers what the smallest one holds too much.
void Driver::makeFit() {
  if (!facts.does(Mechanism::MakeFit))
    return;
  if (!pool.best)
    offerStarts(pool);
  auto mayGoOn = [this] { return proceeds(0.4); };
  for (unsigned round = 0; round < kRounds; ++round) {
    if (pool.best || !pool.smallest || end.isOver())
      return;
    uint64_t work = getSmallWork(kRounds);
    Plan plan = *pool.smallest;
    if (round > 0)
      plan = improver.anneal(plan, kLargeHeat, work, mayGoOn);
    work = getSmallWork(kRounds);
    descend(plan, true, work);
  }
}
