//===- Ilp.cpp - the cheapest plan by an integer program ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program that knows nothing of memory comes first: it is much smaller and
// tighter, and its solution is an optimum if it fits.
//
// Both programs are relaxations in a few points: of copies that wait the larger
// one does not know how long the queue holds them, and both take some freedom
// among the sources of a copy. So each solution is costed by `cost`; one that
// is dearer or larger than the program thinks is forbidden, and the program
// solved again.
//
//===----------------------------------------------------------------------===//

#include "IlpMemory.h"
#include "IlpTime.h"
#include "tandem/Cost/Hidup.h"
#include "tandem/Search/Search.h"
#include <algorithm>
#include <chrono>
#include <cmath>

using namespace tandem::cost;
using namespace tandem::search;

/// What the solver's tolerances can make of an objective, relative.
constexpr double kTolerance = 1e-7;
/// An objective of about 1e6 units: absolute tolerances of 1e-7 are little.
constexpr double kUnits = 1e6;
/// Solutions that may turn out to be dearer or larger than the program thinks.
constexpr unsigned kMaxRounds = 1000;

static IlpChoices allowAll(const SearchProblem &problem) {
  IlpChoices allowed;
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    allowed.emplace_back(problem.getSignatures(op).size(), true);
  return allowed;
}

/// The cheapest of the plans that are legal.
static std::optional<Plan> findCheapest(const SearchProblem &problem,
                                        const std::vector<Plan> &plans) {
  std::optional<Plan> cheapest;
  std::string error;
  for (Plan plan : plans)
    if (derive(problem, plan, error) &&
        (!cheapest || plan.cost < cheapest->cost))
      cheapest = std::move(plan);
  return cheapest;
}

namespace {
class IlpSearch {
public:
  /// `onlyBounds`: of all plans, whatever their memory.
  IlpSearch(const SearchProblem &problem, const SearchOptions &options,
            bool onlyBounds = false)
      : problem(problem), options(options), onlyBounds(onlyBounds),
        table(problem), start(std::chrono::steady_clock::now()),
        scale(getScale()), allowed(allowAll(problem)) {}

  SearchResult run();

private:
  bool checkStages();
  double getScale() const;
  double getTimeLeft() const;
  bool isStopped();
  bool isOutOfTime() const;
  void search(const IlpStages &stages);
  /// Whether an optimum was found that fits, or the search has to end.
  bool searchWithoutLimit(const IlpStages &stages);
  void narrow(const IlpStages &stages);
  unsigned forbidDear(const IlpForms &forms, const IlpRelaxation &relaxation);
  void searchWithLimit(const IlpStages &stages);
  bool isWhole(const IlpForms &forms) const;
  IlpFreedom getFreedom() const {
    return onlyBounds ? IlpFreedom::OfSources : IlpFreedom::OfMemory;
  }
  IlpOptions getOptions();
  Expr getStart(const IlpForms &forms, const IlpTime &time);
  /// False when no further solution is needed.
  bool takeSolution(const IlpForms &forms, const IlpSolution &solution);
  void takeBound(const IlpSolution &solution);
  void takeBound(double proven);
  bool takePlan(Plan plan);
  bool isClosed() const;
  bool fail(std::string error);
  void forbid(const IlpForms &forms, const IlpSolution &solution,
              IntegerProgram &program) const;
  void explainInfeasible(const IlpStages &stages);
  void claim();

  const SearchProblem &problem;
  const SearchOptions &options;
  bool onlyBounds;
  ChangeTable table;
  std::chrono::steady_clock::time_point start;
  double scale;
  /// What a plan cheaper than the best one can have.
  IlpChoices allowed;
  /// The cheapest of the plans that were given.
  std::optional<Plan> given;
  SearchResult result;
  double bound = 0;
  /// Costs add up over stages of one operator each: no plan with larger ones is
  /// cheaper.
  bool addsUp = false;
  /// For all plans. Forbidden solutions might be good with other stages.
  double boundOfAll = 0;
  bool failed = false, isInterrupted = false;
  /// The last solution's plan exceeds the limit.
  bool isTooLarge = false;
};
} // namespace

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
  std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  constexpr double kLeast = 1e-3;
  return std::max(options.timeLimit - elapsed.count(), kLeast);
}

bool IlpSearch::isOutOfTime() const {
  std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  return options.timeLimit > 0 && elapsed.count() >= options.timeLimit;
}

/// Of what no solver looks after.
bool IlpSearch::isStopped() {
  if (options.progress && !isInterrupted)
    isInterrupted =
        !options.progress(0, result.plan ? result.plan->cost : 0, bound);
  return isInterrupted || isOutOfTime();
}

bool IlpSearch::fail(std::string error) {
  result.error = std::move(error);
  failed = true;
  return false;
}

/// Asks for a plan that differs in some decision.
void IlpSearch::forbid(const IlpForms &forms, const IlpSolution &solution,
                       IntegerProgram &program) const {
  Expr row;
  double least = 1;
  for (int column : forms.getDecisions()) {
    bool isSet = solution.values[column] > 0.5;
    row.push_back({column, isSet ? -1.0 : 1.0});
    least -= isSet;
  }
  program.addRow(row, least, kInfinity);
}

//===----------------------------------------------------------------------===//
// Solutions
//===----------------------------------------------------------------------===//

IlpOptions IlpSearch::getOptions() {
  IlpOptions solver;
  solver.timeLimit = getTimeLeft();
  solver.gap = options.gap;
  if (options.progress)
    solver.progress = [this](double best, double newBound) {
      double seconds = best < kInfinity ? best / scale : 0;
      isInterrupted |=
          !options.progress(0, seconds, std::max(bound, newBound / scale));
      return !isInterrupted;
    };
  return solver;
}

/// The columns of the plan that was given: if its stages are others, those of
/// its signatures.
Expr IlpSearch::getStart(const IlpForms &forms, const IlpTime &time) {
  if (!given)
    return {};
  std::string error;
  std::optional<CostReport> report;
  if (given->stageEnds == forms.stages.ends)
    report = cost(problem, *given, table, error);
  Expr columns = forms.getColumns(*given, report ? &*report : nullptr);
  if (report)
    time.follow(*report, columns);
  return columns;
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

/// The plan is kept if it fits and is the cheapest so far.
bool IlpSearch::takePlan(Plan plan) {
  std::string error;
  std::optional<CostReport> report = cost(problem, plan, table, error);
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
  double gap = std::max(options.gap, kTolerance);
  return result.plan && result.plan->cost - bound <= gap * result.plan->cost;
}

bool IlpSearch::takeSolution(const IlpForms &forms,
                             const IlpSolution &solution) {
  switch (solution.status) {
  case IlpSolution::Status::NoSolver:
    return fail("Tandem was built without HiGHS, expected the Python package "
                "highspy for 'ilp'; run scripts/setup, or use another search");
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
         !isOutOfTime() && !isInterrupted && !isClosed();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Whether plans with larger stages are no cheaper.
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

/// Forbids signatures with which a plan costs more than the best one, by the
/// relaxation's reduced costs. Returns how many.
unsigned IlpSearch::forbidDear(const IlpForms &forms,
                               const IlpRelaxation &relaxation) {
  double most = result.plan->cost * scale * (1 + kTolerance);
  unsigned count = 0;
  for (unsigned op = 0; op < allowed.size(); ++op)
    for (unsigned s = 0; s < allowed[op].size(); ++s)
      if (allowed[op][s] &&
          relaxation.objective +
                  relaxation.reducedCosts[forms.getColumn(op, s)] >
              most) {
        allowed[op][s] = false;
        ++count;
      }
  return count;
}

/// The signatures that a plan cheaper than the best one can have. What they
/// leave makes a program that is smaller and tighter, so that more can go.
void IlpSearch::narrow(const IlpStages &stages) {
  constexpr double kWorthwhile = 0.03;
  for (bool isFirst = true; result.plan && !isOutOfTime() && !isInterrupted;
       isFirst = false) {
    IntegerProgram program;
    IlpForms forms(problem, stages, allowed, table, program, getFreedom(),
                   [this] { return isStopped(); });
    if (forms.isCut)
      return;
    IlpTime(forms, program, scale).build();
    if (isFirst)
      addsUp = isWhole(forms);
    IlpRelaxation relaxation = program.relax(getOptions());
    if (relaxation.status != IlpSolution::Status::Optimal)
      break;
    takeBound(relaxation.objective);
    if (addsUp)
      boundOfAll = bound;
    if (isClosed())
      break;
    size_t numAllowed = 0;
    for (const std::vector<bool> &choices : allowed)
      numAllowed += std::count(choices.begin(), choices.end(), true);
    unsigned count = forbidDear(forms, relaxation);
    if (count < kWorthwhile * static_cast<double>(numAllowed))
      break;
  }
}

bool IlpSearch::searchWithoutLimit(const IlpStages &stages) {
  narrow(stages);
  if (isClosed() || (result.plan && (isInterrupted || isOutOfTime())))
    return true;
  bool isNarrowed = allowed != allowAll(problem);
  IntegerProgram program;
  IlpForms forms(problem, stages, allowed, table, program, getFreedom(),
                 [this] { return isStopped(); });
  if (forms.isCut)
    return true;
  IlpTime time(forms, program, scale);
  time.build();
  if (!isNarrowed)
    addsUp = isWhole(forms);
  IlpOptions solver = getOptions();
  solver.start = getStart(forms, time);
  for (unsigned round = 0; round < kMaxRounds; ++round) {
    IlpSolution solution = program.solve(solver);
    bool isOpen = takeSolution(forms, solution);
    bool isInfeasible = solution.status == IlpSolution::Status::Infeasible;
    // All plans that are left are dearer.
    if (isInfeasible && result.plan)
      bound = result.plan->cost;
    if (addsUp && round == 0)
      boundOfAll = bound;
    if (isInfeasible && !result.plan) {
      result.isInfeasible = addsUp;
      result.error = "no choice of signatures is legal";
      if (!addsUp)
        result.error += " with these stages";
    }
    if (!isOpen || isTooLarge)
      return !isOpen;
    forbid(forms, solution, program);
    solver.start.clear();
    solver.timeLimit = getTimeLeft();
  }
  return true;
}

void IlpSearch::searchWithLimit(const IlpStages &stages) {
  IntegerProgram program;
  bool isNarrowed = allowed != allowAll(problem);
  IlpForms forms(problem, stages, allowed, table, program, IlpFreedom::None,
                 [this] { return isStopped(); });
  if (forms.isCut)
    return;
  IlpTime time(forms, program, scale);
  time.build();
  if (problem.memoryLimit != kNoLimit)
    IlpMemory(forms, program).limitStages();
  if (!isNarrowed)
    addsUp = isWhole(forms);
  for (unsigned round = 0; round < kMaxRounds; ++round) {
    IlpOptions solver = getOptions();
    solver.start = getStart(forms, time);
    IlpSolution solution = program.solve(solver);
    bool isOpen = takeSolution(forms, solution);
    if (addsUp && round == 0)
      boundOfAll = bound;
    if (solution.status == IlpSolution::Status::Infeasible) {
      // All plans that are left are dearer or too large.
      if (result.plan) {
        bound = result.plan->cost;
      } else {
        result.isInfeasible = addsUp && round == 0;
        explainInfeasible(stages);
      }
    }
    if (!isOpen)
      return;
    forbid(forms, solution, program);
  }
}

void IlpSearch::search(const IlpStages &stages) {
  if (!searchWithoutLimit(stages))
    searchWithLimit(stages);
}

/// Says by how much the limit is exceeded.
void IlpSearch::explainInfeasible(const IlpStages &stages) {
  std::string withStages = result.isInfeasible ? "" : " with these stages";
  IntegerProgram smallest;
  IlpChoices all = allowAll(problem);
  IlpForms forms(problem, stages, all, table, smallest, IlpFreedom::None,
                 [] { return false; });
  IlpMemory memory(forms, smallest);
  memory.minimizePeak();
  IlpOptions solver = getOptions();
  solver.gap = 0;
  IlpSolution solution = smallest.solve(solver);
  if (solution.status == IlpSolution::Status::Infeasible) {
    result.error = "no choice of signatures is legal" + withStages;
    return;
  }
  result.error = "no plan" + withStages + " fits into " +
                 std::to_string(problem.memoryLimit) + " B";
  if (solution.status == IlpSolution::Status::Optimal)
    result.error += ": the smallest peak is " +
                    std::to_string(memory.toBytes(solution.objective)) + " B";
}

void IlpSearch::claim() {
  std::string error;
  if (!derive(problem, *result.plan, error)) {
    result.plan.reset();
    result.error = error;
    return;
  }
  Plan &plan = *result.plan;
  auto round = [&](double value) {
    return plan.cost - value <= kTolerance * plan.cost ? plan.cost : value;
  };
  result.stagesBound = round(bound);
  plan.lowerBound = round(boundOfAll);
  plan.isOptimal = isProven(plan.cost, plan.lowerBound);
}

SearchResult IlpSearch::run() {
  bool isHidup = problem.accounting != Accounting::Tandem;
  if ((isHidup && !checkHidupProblem(problem, result.error)) || !checkStages())
    return std::move(result);
  given = findCheapest(problem, options.starts);
  result.plan = given;
  search(IlpStages(problem, options.stageEnds.empty() ? getFinestStages(problem)
                                                      : options.stageEnds));
  if (failed) {
    result.plan.reset();
    return std::move(result);
  }
  if (result.plan)
    claim();
  else if (result.error.empty())
    result.error = "no plan was found before the search was stopped";
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// The whole problem
//===----------------------------------------------------------------------===//

/// Half of the time for a plan to begin with. Returns its bound.
static double addStart(const SearchProblem &problem, SearchOptions &options) {
  SearchOptions first = options;
  first.timeLimit /= 2;
  SearchResult found = searchTandem(problem, first);
  if (!found.plan)
    return 0;
  options.starts = {std::move(*found.plan)};
  return options.starts.front().lowerBound;
}

/// A bound for all plans: pieces that cost nothing make none dearer, and then
/// the smallest stages are the best.
static double getBoundOfAll(SearchProblem problem,
                            const SearchOptions &options) {
  problem.pieceLatency = 0;
  SearchResult result = IlpSearch(problem, options, /*onlyBounds=*/true).run();
  return result.plan ? result.plan->lowerBound : 0;
}

/// Where stages matter, with those of the plan to begin with: which stages are
/// best, no integer program says.
static SearchResult searchWhole(const SearchProblem &problem,
                                SearchOptions options) {
  auto start = std::chrono::steady_clock::now();
  double limit = options.timeLimit;
  auto setTime = [&](double share) {
    std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - start;
    constexpr double kLeast = 1e-3;
    if (limit > 0)
      options.timeLimit = std::max(share * (limit - elapsed.count()), kLeast);
  };
  double lowerBound = 0;
  if (options.starts.empty())
    lowerBound = addStart(problem, options);
  setTime(1);
  if (addsUp(problem) && problem.pieceLatency == 0)
    return IlpSearch(problem, options).run();
  // With duplex the bound for all plans is that of the start.
  if (addsUp(problem)) {
    setTime(0.5);
    lowerBound = getBoundOfAll(problem, options);
  }
  if (std::optional<Plan> given = findCheapest(problem, options.starts))
    options.stageEnds = std::move(given->stageEnds);
  setTime(1);
  SearchResult result = IlpSearch(problem, options).run();
  if (result.plan && lowerBound > 0) {
    Plan &plan = *result.plan;
    plan.lowerBound = lowerBound;
    if (plan.cost - lowerBound <= kTolerance * plan.cost)
      plan.lowerBound = plan.cost;
    plan.isOptimal = isProven(plan.cost, plan.lowerBound);
  }
  return result;
}

SearchResult tandem::search::searchIlp(const SearchProblem &problem,
                                       const SearchOptions &options) {
  if (!options.stageEnds.empty())
    return IlpSearch(problem, options).run();
  return searchWhole(problem, options);
}
