//===- Ilp.cpp - the cheapest plan by an integer program ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program is a relaxation in two points: of copies that wait it does not
// know how long the queue holds them, and among sources of equal cost it takes
// any. So each solution is costed by `cost`; one that is dearer or larger than
// the program thinks is forbidden, and the program solved again.
//
//===----------------------------------------------------------------------===//

#include "IlpMemory.h"
#include "IlpTime.h"
#include "tandem/Search/Search.h"
#include <algorithm>
#include <chrono>

using namespace tandem::cost;
using namespace tandem::search;

/// What the solver's tolerances can make of an objective, relative.
constexpr double kTolerance = 1e-8;
/// An objective of about 1e6 units: absolute tolerances of 1e-7 are little.
constexpr double kUnits = 1e6;
/// Solutions that may turn out to be dearer or larger than the program thinks.
constexpr unsigned kMaxRounds = 1000;

namespace {
class IlpSearch {
public:
  IlpSearch(const SearchProblem &problem, const SearchOptions &options)
      : problem(problem), options(options), table(problem),
        start(std::chrono::steady_clock::now()) {}

  SearchResult run();

private:
  bool checkStages();
  double getScale() const;
  double getTimeLeft() const;
  bool isOutOfTime() const;
  void search(const IlpStages &stages);
  /// False when no further round is needed.
  bool takeSolution(const IlpForms &forms, const IlpSolution &solution);
  void forbid(const IlpForms &forms, const IlpSolution &solution);
  void explainInfeasible(const IlpStages &stages);
  void takeStarts();
  void claim();

  const SearchProblem &problem;
  const SearchOptions &options;
  ChangeTable table;
  std::chrono::steady_clock::time_point start;
  IntegerProgram program;
  SearchResult result;
  double bound = 0;
  /// Costs add up over stages of one operator each: no plan with larger ones is
  /// cheaper.
  bool addsUp = false;
  /// For all plans. Forbidden solutions might be good with other stages.
  double boundOfAll = 0;
  bool failed = false;
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

/// Asks for a plan that differs in some decision.
void IlpSearch::forbid(const IlpForms &forms, const IlpSolution &solution) {
  Expr row;
  double least = 1;
  for (int column : forms.getDecisions()) {
    bool isSet = solution.values[column] > 0.5;
    row.push_back({column, isSet ? -1.0 : 1.0});
    least -= isSet;
  }
  program.addRow(row, least, kInfinity);
}

bool IlpSearch::takeSolution(const IlpForms &forms,
                             const IlpSolution &solution) {
  Plan plan = forms.getPlan(solution);
  std::string error;
  std::optional<CostReport> report = cost(problem, plan, table, error);
  if (!report) {
    result.error = "the integer program allows a plan that is not legal, which "
                   "is a mistake of the search: " +
                   error;
    failed = true;
    return false;
  }
  if (report->peak <= problem.memoryLimit &&
      (!result.plan || report->seconds < result.plan->cost)) {
    result.plan = std::move(plan);
    result.plan->cost = report->seconds;
  }
  double best = result.plan ? result.plan->cost : 0;
  if (solution.status == IlpSolution::Status::Stopped || isOutOfTime() ||
      (options.progress && !options.progress(0, best, bound)))
    return false;
  double gap = std::max(options.gap, kTolerance);
  return !result.plan || best - bound > gap * best;
}

void IlpSearch::search(const IlpStages &stages) {
  IlpForms forms(problem, stages, table, program);
  double scale = getScale();
  IlpTime(forms, program, scale).build();
  if (problem.memoryLimit != kNoLimit)
    IlpMemory(forms, program).limitStages();
  bool hasWaiting =
      std::any_of(forms.changes.begin(), forms.changes.end(),
                  [](const IlpChange &change) { return change.waits; });
  addsUp = options.stageEnds.empty() && forms.addsUp &&
           (!hasWaiting ||
            (problem.pieceLatency == 0 && !forms.hasSourcesOfWaiting));
  for (unsigned round = 0; round < kMaxRounds; ++round) {
    IlpSolution solution = program.solve(getTimeLeft(), options.gap);
    result.numVisited += solution.numNodes + 1;
    switch (solution.status) {
    case IlpSolution::Status::NoSolver:
      result.error = "Tandem was built without CBC, expected coinor-libcbc-dev "
                     "for 'ilp'; use another search";
      failed = true;
      return;
    case IlpSolution::Status::Failed:
      result.error = "the solver gave up, expected a solution or a proof that "
                     "there is none; use another search";
      failed = true;
      return;
    case IlpSolution::Status::Infeasible:
      // All plans that are left are dearer or too large.
      if (result.plan) {
        bound = result.plan->cost;
      } else {
        result.isInfeasible = addsUp && round == 0;
        explainInfeasible(stages);
      }
      return;
    case IlpSolution::Status::Optimal:
      bound = std::max(bound, solution.objective / scale);
      break;
    case IlpSolution::Status::Stopped:
      bound = std::max(bound, solution.bound / scale);
      break;
    }
    if (addsUp && round == 0)
      boundOfAll = bound;
    if (solution.values.empty() || !takeSolution(forms, solution))
      return;
    forbid(forms, solution);
  }
}

/// Says by how much the limit is exceeded.
void IlpSearch::explainInfeasible(const IlpStages &stages) {
  std::string withStages = result.isInfeasible ? "" : " with these stages";
  IntegerProgram smallest;
  IlpForms forms(problem, stages, table, smallest);
  IlpMemory memory(forms, smallest);
  memory.minimizePeak();
  IlpSolution solution = smallest.solve(getTimeLeft(), 0);
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

/// Plans that were given may be better than one whose search was cut short.
void IlpSearch::takeStarts() {
  for (Plan plan : options.starts) {
    std::string error;
    if (derive(problem, plan, error) &&
        (!result.plan || plan.cost < result.plan->cost))
      result.plan = std::move(plan);
  }
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
  if (problem.accounting != Accounting::Tandem) {
    result.error = "found an accounting of HiDup, expected 'tandem' for 'ilp'; "
                   "use another search";
    return std::move(result);
  }
  if (!checkStages())
    return std::move(result);
  search(IlpStages(problem, options.stageEnds.empty() ? getFinestStages(problem)
                                                      : options.stageEnds));
  if (failed) {
    result.plan.reset();
    return std::move(result);
  }
  takeStarts();
  if (result.plan)
    claim();
  else if (result.error.empty())
    result.error = "no plan was found within the limit of time";
  return std::move(result);
}

SearchResult tandem::search::searchIlp(const SearchProblem &problem,
                                       const SearchOptions &options) {
  return IlpSearch(problem, options).run();
}
