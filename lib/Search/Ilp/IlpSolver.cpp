//===- IlpSolver.cpp - integer programs by HiGHS --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpProgram.h"
#include <algorithm>
#include <cmath>
#include <string>

using namespace tandem::search;

//===----------------------------------------------------------------------===//
// HiGHS' C interface (highs_c_api.h of HiGHS 1.15), as far as it is used
//===----------------------------------------------------------------------===//

/// Its integers, 32 bits in the package of PyPI.
using HighsInt = int;

extern "C" {
void *Highs_create();
void Highs_destroy(void *highs);
HighsInt Highs_setBoolOptionValue(void *highs, const char *option,
                                  HighsInt value);
HighsInt Highs_setIntOptionValue(void *highs, const char *option,
                                 HighsInt value);
HighsInt Highs_setDoubleOptionValue(void *highs, const char *option,
                                    double value);
HighsInt Highs_setStringOptionValue(void *highs, const char *option,
                                    const char *value);
HighsInt Highs_passMip(void *highs, HighsInt numColumns, HighsInt numRows,
                       HighsInt numEntries, HighsInt format, HighsInt sense,
                       double offset, const double *cost, const double *lower,
                       const double *upper, const double *rowLower,
                       const double *rowUpper, const HighsInt *starts,
                       const HighsInt *indices, const double *values,
                       const HighsInt *integrality);
HighsInt Highs_addRow(void *highs, double lower, double upper,
                      HighsInt numEntries, const HighsInt *indices,
                      const double *values);
/// `in` begins with an int that is set to interrupt.
using HighsCallback = void (*)(int kind, const char *message, const void *out,
                               int *in, void *data);
HighsInt Highs_setCallback(void *highs, HighsCallback callback, void *data);
HighsInt Highs_startCallback(void *highs, int kind);
const void *Highs_getCallbackDataOutItem(const void *out, const char *name);
HighsInt Highs_zeroAllClocks(const void *highs);
HighsInt Highs_run(void *highs);
HighsInt Highs_getModelStatus(const void *highs);
HighsInt Highs_getIntInfoValue(const void *highs, const char *info,
                               HighsInt *value);
HighsInt Highs_getInt64InfoValue(const void *highs, const char *info,
                                 int64_t *value);
HighsInt Highs_getDoubleInfoValue(const void *highs, const char *info,
                                  double *value);
HighsInt Highs_getSolution(const void *highs, double *columns, double *duals,
                           double *rows, double *rowDuals);
}

constexpr HighsInt kRowwise = 2, kMinimize = 1, kFeasible = 2;
enum HighsStatus { // kHighsModelStatus...
  Empty = 6,
  Optimal = 7,
  Infeasible = 8,
  UnboundedOrInfeasible = 9,
  TimeLimit = 13,
  Interrupt = 17,
  HighsInterrupt = 19
};
enum HighsCallbackKind { SimplexInterrupt = 1, IpmInterrupt, MipInterrupt = 6 };

namespace {
/// What a run knows of itself while it runs.
struct Watch {
  const IlpOptions &options;
  bool isInterrupted = false;
};
} // namespace

static void watch(int kind, const char *, const void *out, int *in,
                  void *data) {
  Watch &watch = *static_cast<Watch *>(data);
  double best = kInfinity, bound = -kInfinity;
  auto read = [&](const char *name, double &value) {
    if (const void *item = Highs_getCallbackDataOutItem(out, name))
      value = *static_cast<const double *>(item);
  };
  if (kind == MipInterrupt) {
    read("mip_primal_bound", best);
    read("mip_dual_bound", bound);
  }
  if (!watch.isInterrupted)
    watch.isInterrupted = !watch.options.progress(best, bound);
  *in = watch.isInterrupted;
}

static void setOptions(void *solver, const IlpOptions &options) {
  Highs_setBoolOptionValue(solver, "output_flag", 0);
  Highs_setIntOptionValue(solver, "threads", 1);
  Highs_setStringOptionValue(solver, "parallel", "off");
  Highs_setIntOptionValue(solver, "random_seed", 1);
  Highs_setDoubleOptionValue(solver, "mip_rel_gap", options.gap);
  Highs_setDoubleOptionValue(solver, "mip_abs_gap", 0);
  Highs_setDoubleOptionValue(solver, "mip_feasibility_tolerance", 1e-7);
  // At the default, 0.05, searching for solutions takes two thirds of the time.
  constexpr double kHeuristicEffort = 0.005;
  Highs_setDoubleOptionValue(solver, "mip_heuristic_effort", kHeuristicEffort);
  if (options.timeLimit > 0)
    Highs_setDoubleOptionValue(solver, "time_limit", options.timeLimit);
}

static IlpSolution::Status getStatus(void *solver) {
  switch (Highs_getModelStatus(solver)) {
  case Empty:
  case Optimal:
    return IlpSolution::Status::Optimal;
  case Infeasible:
  case UnboundedOrInfeasible:
    // No objective is unbounded: no column with a negative price is.
    return IlpSolution::Status::Infeasible;
  case TimeLimit:
  case Interrupt:
  case HighsInterrupt:
    return IlpSolution::Status::Stopped;
  default:
    return IlpSolution::Status::Failed;
  }
}

/// A row's columns and factors, behind those of other rows.
static void append(const Expr &row, std::vector<HighsInt> &indices,
                   std::vector<double> &values) {
  for (Term term : row) {
    indices.push_back(term.column);
    values.push_back(term.factor);
  }
}

void IntegerProgram::pass(void *solver, bool isRelaxed) const {
  std::vector<HighsInt> starts, indices, integrality;
  std::vector<double> values, rowLower, rowUpper, lower, upper, cost;
  for (const Row &row : rows) {
    starts.push_back(static_cast<HighsInt>(indices.size()));
    append(row.terms, indices, values);
    rowLower.push_back(row.lower);
    rowUpper.push_back(row.upper);
  }
  for (const Column &column : columns) {
    lower.push_back(column.lower);
    upper.push_back(column.upper);
    cost.push_back(column.cost);
    integrality.push_back(column.isInteger && !isRelaxed);
  }
  Highs_passMip(solver, static_cast<HighsInt>(columns.size()),
                static_cast<HighsInt>(rows.size()),
                static_cast<HighsInt>(indices.size()), kRowwise, kMinimize, 0,
                cost.data(), lower.data(), upper.data(), rowLower.data(),
                rowUpper.data(), starts.data(), indices.data(), values.data(),
                integrality.data());
}

/// Values, objective and bound of what the solver ended with.
void IntegerProgram::read(void *solver, IlpSolution &solution) const {
  int64_t numNodes = 0;
  Highs_getInt64InfoValue(solver, "mip_node_count", &numNodes);
  solution.numNodes = static_cast<uint64_t>(std::max<int64_t>(0, numNodes));
  double bound = -kInfinity;
  Highs_getDoubleInfoValue(solver, "mip_dual_bound", &bound);
  if (std::isfinite(bound))
    solution.bound = bound;
  HighsInt primal = 0;
  Highs_getIntInfoValue(solver, "primal_solution_status", &primal);
  if (primal != kFeasible)
    return;
  std::vector<double> rowValues(rows.size()), rowDuals(rows.size());
  solution.values.resize(columns.size());
  solution.reducedCosts.resize(columns.size());
  Highs_getSolution(solver, solution.values.data(),
                    solution.reducedCosts.data(), rowValues.data(),
                    rowDuals.data());
  for (size_t i = 0; i < columns.size(); ++i)
    solution.objective += columns[i].cost * solution.values[i];
}

/// Runs the solver, watched by `options.progress`.
static void run(void *solver, const IlpOptions &options) {
  Watch data{options};
  if (options.progress) {
    Highs_setCallback(solver, watch, &data);
    for (int kind : {SimplexInterrupt, IpmInterrupt, MipInterrupt})
      Highs_startCallback(solver, kind);
  }
  Highs_run(solver);
}

/// Those that the program has got since it was relaxed.
void IntegerProgram::addRelaxedRows() {
  for (; numRelaxedRows < rows.size(); ++numRelaxedRows) {
    const Row &row = rows[numRelaxedRows];
    std::vector<HighsInt> indices;
    std::vector<double> values;
    append(row.terms, indices, values);
    Highs_addRow(relaxer.get(), row.lower, row.upper,
                 static_cast<HighsInt>(indices.size()), indices.data(),
                 values.data());
  }
}

IlpSolution IntegerProgram::relax(const IlpOptions &options) {
  IlpSolution relaxation;
  if (isContradictory) {
    relaxation.status = IlpSolution::Status::Infeasible;
    return relaxation;
  }
  bool isNew = !relaxer;
  if (isNew)
    relaxer = Solver(Highs_create(), Highs_destroy);
  setOptions(relaxer.get(), options);
  Highs_zeroAllClocks(relaxer.get());
  if (isNew) {
    pass(relaxer.get(), /*isRelaxed=*/true);
    numRelaxedRows = rows.size();
  }
  addRelaxedRows();
  run(relaxer.get(), options);
  relaxation.status = getStatus(relaxer.get());
  if (relaxation.status == IlpSolution::Status::Optimal)
    read(relaxer.get(), relaxation);
  return relaxation;
}

/// What lies above `most` may still be what the solver ends with.
static void dropDear(IlpSolution &solution, double most) {
  constexpr double kRounding = 1e-9;
  if (solution.values.empty() || solution.objective <= most * (1 + kRounding))
    return;
  solution.values.clear();
  if (solution.status == IlpSolution::Status::Optimal)
    solution.status = IlpSolution::Status::Infeasible;
}

IlpSolution IntegerProgram::solve(const IlpOptions &options) const {
  IlpSolution solution;
  if (isContradictory) {
    solution.status = IlpSolution::Status::Infeasible;
    return solution;
  }
  Solver highs(Highs_create(), Highs_destroy);
  setOptions(highs.get(), options);
  Highs_setDoubleOptionValue(highs.get(), "objective_bound", options.most);
  pass(highs.get(), /*isRelaxed=*/false);
  run(highs.get(), options);
  solution.status = getStatus(highs.get());
  if (solution.status == IlpSolution::Status::Optimal ||
      solution.status == IlpSolution::Status::Stopped)
    read(highs.get(), solution);
  dropDear(solution, options.most);
  return solution;
}
