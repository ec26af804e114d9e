//===- Ilp.cpp - the cheapest plan by an integer program ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpMemory.h"
#include "IlpSearch.h"
#include <algorithm>
#include <cmath>

using namespace tandem::cost;
using namespace tandem::search;

/// An objective of about 1e6 units: absolute tolerances of 1e-7 are little.
constexpr double kUnits = 1e6;
/// Seconds that are given where none are left: 0 is no limit.
constexpr double kLeastTime = 1e-3;

IlpChoices tandem::search::allowAll(const SearchProblem &problem) {
  IlpChoices allowed;
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    allowed.emplace_back(problem.getSignatures(op).size(), true);
  return allowed;
}

std::optional<Plan>
tandem::search::findCheapest(const SearchProblem &problem,
                             const std::vector<Plan> &plans) {
  std::optional<Plan> cheapest;
  std::string error;
  for (Plan plan : plans)
    if (derive(problem, plan, error) &&
        (!cheapest || plan.cost < cheapest->cost))
      cheapest = std::move(plan);
  return cheapest;
}

IlpSearch::IlpSearch(const SearchProblem &problem, const SearchOptions &options,
                     bool onlyBounds)
    : problem(problem), options(options), onlyBounds(onlyBounds),
      table(problem), end(options), scale(getScale()),
      allowed(allowAll(problem)) {}

bool IlpSearch::checkStages() {
  unsigned begin = 0, numOperators = problem.operators.size();
  for (unsigned end : options.stageEnds) {
    bool isGood = end > begin && end <= numOperators;
    if (isGood && problem.operators[end - 1].pass == Pass::Update &&
        problem.operators[begin].pass != Pass::Update)
      isGood = false;
    if (!isGood) {
      result.error =
          "found a stage of the operators from " + std::to_string(begin) +
          " up to before " + std::to_string(end) +
          ", expected rising ends of at most " + std::to_string(numOperators) +
          ", and updates in stages of their own";
      return false;
    }
    begin = end;
  }
  if (options.stageEnds.empty() || begin == numOperators)
    return true;
  result.error = "the last stage ends before operator " +
                 std::to_string(begin) + ", expected the number of operators " +
                 std::to_string(numOperators);
  return false;
}

double IlpSearch::getScale() const {
  double seconds = 0;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    double largest = 0;
    for (const Signature &signature : problem.getSignatures(op))
      largest = std::max(largest, signature.seconds);
    seconds += largest;
  }
  return seconds > 0 ? kUnits / seconds : kUnits;
}

double IlpSearch::getTimeLeft() const {
  if (options.timeLimit <= 0)
    return 0;
  return std::max(end.getSecondsLeft(), kLeastTime);
}

/// Of what no solver looks after.
bool IlpSearch::isStopped() {
  return !end.proceeds(0, result.plan ? result.plan->cost : 0,
                       getBoundOfStages());
}

bool IlpSearch::fail(std::string error) {
  result.error = std::move(error);
  failed = true;
  return false;
}

//===----------------------------------------------------------------------===//
// Solutions
//===----------------------------------------------------------------------===//

/// Plans that are not cheaper than the best one are of no use.
IlpOptions IlpSearch::getOptions() {
  IlpOptions solver;
  solver.timeLimit = getTimeLeft();
  solver.gap = options.gap;
  if (result.plan)
    solver.most =
        result.plan->cost * scale * (1 - std::max(options.gap, kIlpTolerance));
  if (options.progress)
    solver.progress = [this](double best, double newBound) {
      double seconds = best < kInfinity ? best / scale : 0;
      double least = hasGivenStrands ? 0 : newBound / scale;
      return end.proceeds(0, seconds, std::max(getBoundOfStages(), least));
    };
  return solver;
}

void IlpSearch::takeBound(const IlpSolution &solution) {
  result.numVisited += solution.numNodes + 1;
  double proven = solution.bound;
  // Of a program without a choice the solver gives no bound.
  if (solution.status == IlpSolution::Status::Optimal)
    proven = std::isfinite(proven) ? std::min(proven, solution.objective)
                                   : solution.objective;
  takeBound(proven);
}

/// Plans dearer than the best one may have been left out of the program.
void IlpSearch::takeBound(double proven) {
  proven /= scale;
  if (result.plan)
    proven = std::min(proven, result.plan->cost);
  bound = std::max(bound, proven);
}

/// The plan is kept if it fits and is the cheapest so far. Rows may let a stage
/// run ahead whose copies of an earlier pass are made in it.
bool IlpSearch::takePlan(Plan plan) {
  std::string error;
  std::optional<CostReport> report = cost::cost(problem, plan, table, error);
  isTooLarge = false;
  if (!report && !plan.ahead.empty())
    return false;
  if (!report)
    return fail("the integer program allows a plan that is not legal, which is "
                "a mistake of the search: " +
                error);
  isTooLarge = report->peak > problem.memoryLimit;
  if (isTooLarge)
    return false;
  plan.cost = report->seconds;
  if (!result.plan || plan.cost < result.plan->cost)
    result.plan = std::move(plan);
  return true;
}

bool IlpSearch::isClosed() const {
  double gap = std::max(options.gap, kIlpTolerance);
  return result.plan && result.plan->cost - bound <= gap * result.plan->cost;
}

bool IlpSearch::takeSolution(const IlpForms &forms,
                             const IlpSolution &solution) {
  switch (solution.status) {
  case IlpSolution::Status::Failed:
    return fail("the solver gave up, expected a solution or a proof that there "
                "is none; use another search");
  case IlpSolution::Status::Infeasible:
    return false;
  case IlpSolution::Status::Optimal:
  case IlpSolution::Status::Stopped:
    break;
  }
  takeBound(solution);
  if (onlyBounds)
    return false;
  if (!solution.values.empty())
    takePlan(forms.getPlan(solution));
  return !failed && solution.status == IlpSolution::Status::Optimal &&
         !end.isOver() && !isClosed();
}

//===----------------------------------------------------------------------===//
// The program that knows of memory
//===----------------------------------------------------------------------===//

bool IlpSearch::isWhole(const IlpForms &forms) const {
  if (onlyBounds)
    return true;
  bool hasWaiting =
      std::any_of(forms.changes.begin(), forms.changes.end(),
                  [](const IlpChange &change) { return change.waits; });
  return options.stageEnds.empty() && forms.addsUp &&
         (!hasWaiting ||
          (problem.pieceLatency == 0 && !forms.hasSourcesOfWaiting));
}

void IlpSearch::searchWithLimit(const IlpStages &stages) {
  std::unique_ptr<IlpModel> model = makeModel(stages, IlpFreedom::None);
  if (!model)
    return;
  if (problem.memoryLimit != kNoLimit)
    IlpMemory(model->forms, model->program).limitPeak();
  solve(*model);
}

void IlpSearch::search(const IlpStages &stages) {
  searchStrands(stages);
  if (!searchWithoutLimit(stages))
    searchWithLimit(stages);
}

/// Says by how much the limit is exceeded, or that nothing is legal.
void IlpSearch::explainInfeasible(const IlpForms &forms) {
  std::string withStages = result.isInfeasible ? "" : " with these stages";
  IntegerProgram smallest;
  IlpChoices all = allowAll(problem);
  IlpSolution solution;
  solution.status = IlpSolution::Status::Infeasible;
  int64_t peak = 0;
  if (forms.freedom == IlpFreedom::None) {
    IlpForms held(problem, forms.stages, all, table, smallest, IlpFreedom::None,
                  [] { return false; });
    IlpMemory memory(held, smallest);
    memory.minimizePeak();
    IlpOptions solver = getOptions();
    solver.gap = 0;
    solution = smallest.solve(solver);
    peak = memory.toBytes(solution.objective);
  }
  if (solution.status == IlpSolution::Status::Infeasible) {
    result.error = "no choice of signatures is legal" + withStages;
    return;
  }
  result.lacksMemory = true;
  result.error = "no plan" + withStages + " fits into " +
                 std::to_string(problem.memoryLimit) + " B";
  if (solution.status != IlpSolution::Status::Optimal)
    return;
  result.smallestPeak = peak;
  result.error += ": the smallest peak is " + std::to_string(peak) + " B";
}

double tandem::search::getProven(const Plan &plan, double bound) {
  return plan.cost - bound <= kIlpTolerance * plan.cost ? plan.cost : bound;
}

/// Keeps the larger of two bounds for all plans.
static void raiseBound(Plan &plan, double bound) {
  plan.lowerBound = getProven(plan, std::max(plan.lowerBound, bound));
  plan.isOptimal = isProven(plan.cost, plan.lowerBound);
}

void IlpSearch::claim() {
  std::string error;
  if (!derive(problem, *result.plan, error)) {
    result.plan.reset();
    result.error = error;
    return;
  }
  result.stagesBound = getProven(*result.plan, bound);
  result.plan->lowerBound = 0;
  raiseBound(*result.plan, boundOfAll);
}

SearchResult IlpSearch::run() {
  if (!checkAccounting(problem, result.error) || !checkStages())
    return std::move(result);
  result.plan = findCheapest(problem, options.starts);
  search(IlpStages(problem, options.stageEnds.empty() ? getFinestStages(problem)
                                                      : options.stageEnds));
  if (failed) {
    result.plan.reset();
    return std::move(result);
  }
  if (!result.plan && result.error.empty())
    result.error =
        "no plan was found before the search was stopped; give it more time, "
        "or a plan to begin with";
  if (result.plan)
    claim();
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// The whole problem
//===----------------------------------------------------------------------===//

/// A bound for all plans: pieces that cost nothing make none dearer, and then
/// the smallest stages are the best.
static double getBoundOfAll(SearchProblem problem,
                            const SearchOptions &options) {
  problem.pieceLatency = 0;
  SearchResult result = IlpSearch(problem, options, /*onlyBounds=*/true).run();
  return result.plan ? result.plan->lowerBound : 0;
}

/// Where stages matter, with those of the plan to begin with: which stages are
/// best, no integer program says. Of the bounds for all plans, that of the plan
/// to begin with among them, the largest is kept.
static SearchResult searchWhole(const SearchProblem &problem,
                                SearchOptions options) {
  SearchEnd end(options);
  bool isLimited = options.timeLimit > 0;
  auto setTime = [&](double share) {
    if (isLimited)
      options.timeLimit = std::max(share * end.getSecondsLeft(), kLeastTime);
  };
  double lowerBound = 0;
  std::optional<Plan> start = findCheapest(problem, options.starts);
  if (!start) {
    SearchOptions first = options;
    first.timeLimit /= 2;
    SearchResult found = searchTandem(problem, first);
    if (found.isInfeasible)
      return found;
    if (found.plan) {
      lowerBound = found.plan->lowerBound;
      options.starts = {*found.plan};
    }
    start = std::move(found.plan);
  }
  bool isSum = addsUp(problem, allowAll(problem));
  bool areFinest = isSum && problem.pieceLatency == 0;
  // With duplex the bound for all plans is that of the start.
  if (isSum && !areFinest) {
    setTime(0.5);
    lowerBound = std::max(lowerBound, getBoundOfAll(problem, options));
  }
  if (!areFinest && start)
    options.stageEnds = std::move(start->stageEnds);
  setTime(1);
  SearchResult result = IlpSearch(problem, options).run();
  if (!result.plan)
    return result;
  Plan &plan = *result.plan;
  // Larger stages may be cheaper where what waits has other sources.
  if (areFinest && plan.lowerBound == 0 && !isProven(plan.cost, lowerBound)) {
    setTime(1);
    options.starts = {plan};
    lowerBound = std::max(lowerBound, getBoundOfAll(problem, options));
  }
  raiseBound(plan, lowerBound);
  return result;
}

SearchResult tandem::search::searchIlp(const SearchProblem &problem,
                                       const SearchOptions &options) {
  if (!options.stageEnds.empty())
    return IlpSearch(problem, options).run();
  return searchWhole(problem, options);
}
