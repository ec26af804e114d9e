//===- IlpProgram.cpp - an integer program and its solver -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpProgram.h"
#include <algorithm>
#include <string>
#ifdef TANDEM_HAS_CBC
#include <Cbc_C_Interface.h>
#endif

using namespace tandem::search;

void tandem::search::add(Expr &expr, const Expr &what, double factor) {
  for (Term term : what)
    expr.push_back({term.column, term.factor * factor});
}

double IlpSolution::get(const Expr &expr) const {
  double sum = 0;
  for (Term term : expr)
    sum += term.factor * values[term.column];
  return sum;
}

int IntegerProgram::addColumn(double lower, double upper, bool isInteger) {
  columns.push_back({lower, upper, 0, isInteger});
  return getNumColumns() - 1;
}

void IntegerProgram::minimize(const Expr &expr, double factor) {
  for (Term term : expr)
    columns[term.column].cost += term.factor * factor;
}

void IntegerProgram::addRow(const Expr &row, double lower, double upper) {
  Expr sorted = row, merged;
  std::sort(sorted.begin(), sorted.end(),
            [](Term a, Term b) { return a.column < b.column; });
  for (Term term : sorted) {
    if (!merged.empty() && merged.back().column == term.column)
      merged.back().factor += term.factor;
    else
      merged.push_back(term);
  }
  std::erase_if(merged, [](Term term) { return term.factor == 0; });
  if (!merged.empty())
    rows.push_back({std::move(merged), lower, upper});
  else if (lower > 0 || upper < 0)
    isContradictory = true;
}

void IntegerProgram::addLess(const Expr &a, const Expr &b) {
  Expr row = a;
  add(row, b, -1);
  addRow(row, -kInfinity, 0);
}

#ifdef TANDEM_HAS_CBC
namespace {
/// The program as CBC wants it: by columns.
struct SparseColumns {
  std::vector<int> starts{0}, rows;
  std::vector<double> factors;
};

/// Deletes the model at the end of the scope.
struct Model {
  Cbc_Model *cbc = Cbc_newModel();
  ~Model() { Cbc_deleteModel(cbc); }
};
} // namespace

static void setParameters(Cbc_Model *cbc, double timeLimit, double gap) {
  Cbc_setLogLevel(cbc, 0);
  Cbc_setParameter(cbc, "threads", "0");
  Cbc_setParameter(cbc, "randomSeed", "1");
  Cbc_setParameter(cbc, "randomCbcSeed", "1");
  // CBC 2.10's preprocessing loses optima (seen on random problems with a
  // memory limit: test/unit/Search/IlpTest.cpp).
  Cbc_setParameter(cbc, "preprocess", "off");
  // Plans whose costs differ by little are told apart.
  Cbc_setParameter(cbc, "increment", "1e-9");
  Cbc_setAllowableGap(cbc, 1e-9);
  Cbc_setAllowableFractionGap(cbc, gap);
  if (timeLimit > 0) {
    Cbc_setParameter(cbc, "timeMode", "elapsed");
    Cbc_setMaximumSeconds(cbc, timeLimit);
  }
}

static IlpSolution::Status getStatus(Cbc_Model *cbc) {
  if (Cbc_isProvenOptimal(cbc))
    return IlpSolution::Status::Optimal;
  if (Cbc_isProvenInfeasible(cbc))
    return IlpSolution::Status::Infeasible;
  if (Cbc_isSecondsLimitReached(cbc))
    return IlpSolution::Status::Stopped;
  return IlpSolution::Status::Failed;
}

IlpSolution IntegerProgram::solve(double timeLimit, double gap) const {
  IlpSolution solution;
  if (isContradictory) {
    solution.status = IlpSolution::Status::Infeasible;
    return solution;
  }
  std::vector<std::vector<Term>> byColumn(columns.size());
  std::vector<double> rowLower, rowUpper, lower, upper, cost;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (Term term : rows[i].terms)
      byColumn[term.column].push_back({static_cast<int>(i), term.factor});
    rowLower.push_back(rows[i].lower);
    rowUpper.push_back(rows[i].upper);
  }
  SparseColumns sparse;
  for (size_t i = 0; i < columns.size(); ++i) {
    for (Term term : byColumn[i]) {
      sparse.rows.push_back(term.column);
      sparse.factors.push_back(term.factor);
    }
    sparse.starts.push_back(static_cast<int>(sparse.rows.size()));
    lower.push_back(columns[i].lower);
    upper.push_back(columns[i].upper);
    cost.push_back(columns[i].cost);
  }
  Model model;
  Cbc_loadProblem(model.cbc, columns.size(), rows.size(), sparse.starts.data(),
                  sparse.rows.data(), sparse.factors.data(), lower.data(),
                  upper.data(), cost.data(), rowLower.data(), rowUpper.data());
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i].isInteger)
      Cbc_setInteger(model.cbc, i);
  setParameters(model.cbc, timeLimit, gap);
  Cbc_solve(model.cbc);
  solution.status = getStatus(model.cbc);
  solution.numNodes = std::max(0, Cbc_getNodeCount(model.cbc));
  solution.bound = Cbc_getBestPossibleObjValue(model.cbc);
  if (solution.status == IlpSolution::Status::Infeasible ||
      solution.status == IlpSolution::Status::Failed)
    return solution;
  const double *values = solution.status == IlpSolution::Status::Optimal
                             ? Cbc_getColSolution(model.cbc)
                             : Cbc_bestSolution(model.cbc);
  if (!values)
    return solution;
  solution.values.assign(values, values + columns.size());
  for (size_t i = 0; i < columns.size(); ++i)
    solution.objective += columns[i].cost * values[i];
  return solution;
}
#else
IlpSolution IntegerProgram::solve(double, double) const {
  IlpSolution solution;
  solution.status = IlpSolution::Status::NoSolver;
  return solution;
}
#endif
