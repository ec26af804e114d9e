//===- IlpProgram.h - an integer program and its solver ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A linear program with binary columns, built row by row and minimised by HiGHS
// (one thread, fixed seed: same program, same solution). Knows nothing of
// plans.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPPROGRAM_H
#define TANDEM_LIB_SEARCH_ILPPROGRAM_H

#include "../Infinity.h"
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace tandem::search {

struct Term {
  int column;
  double factor;
};
/// A sum of terms; a column may stand in it more than once.
using Expr = std::vector<Term>;

/// Adds `factor` times `what`.
void add(Expr &expr, const Expr &what, double factor = 1);

/// With the values of all columns.
double getValue(const Expr &expr, const std::vector<double> &values);

/// Amounts of which at most one counts: where its expression is 1.
struct IlpGroup {
  /// By which who adds up names what a group is of.
  using Key = std::pair<int, int>;
  struct Entry {
    double amount;
    Expr chosen;
  };
  std::vector<Entry> entries;

  double getLargest() const;
};

/// Amounts over columns, seconds or bytes.
struct IlpSum {
  Expr expr;
  /// What it is made of.
  std::map<IlpGroup::Key, IlpGroup> groups;

  void add(IlpGroup::Key group, const Expr &chosen, double amount);
  void add(const IlpSum &other, double factor = 1);
  bool isEmpty() const;
  double getLargest() const;
};

struct IlpSolution {
  enum class Status {
    Optimal,
    /// The limit of time was reached, or the run interrupted; `values` may be
    /// empty.
    Stopped,
    Infeasible,
    /// The solver gave up.
    Failed
  };
  Status status = Status::Failed;
  std::vector<double> values;
  /// Of a program without its integers: by how much the objective rises at
  /// least for each unit of a column.
  std::vector<double> reducedCosts;
  double objective = 0, bound = -kInfinity;
  uint64_t numNodes = 0;

  double get(const Expr &expr) const { return getValue(expr, values); }
};

struct IlpOptions {
  double timeLimit = 0; // s; 0 for none
  double gap = 0;       // relative
  /// Solutions with a larger objective are none.
  double most = kInfinity;
  /// Called now and then with the best objective and the bound so far, infinite
  /// if there is none; returning false ends the run.
  std::function<bool(double best, double bound)> progress;
};

class IntegerProgram {
public:
  int addBinary() { return addColumn(0, 1, true); }
  int addContinuous(double lower, double upper) {
    return addColumn(lower, upper, false);
  }
  void minimize(const Expr &expr, double factor = 1);
  /// lower <= row <= upper.
  void addRow(const Expr &row, double lower, double upper);
  /// `a` <= `b`.
  void addLess(const Expr &a, const Expr &b);
  int getNumColumns() const { return static_cast<int>(columns.size()); }

  /// The solver's tolerances are absolute (1e-7): rows and objective should be
  /// in units in which that is little.
  IlpSolution solve(const IlpOptions &options) const;
  /// Without its integers: columns may be fractions. Solved again with more
  /// rows, it begins where the last time ended.
  IlpSolution relax(const IlpOptions &options);

private:
  struct Column {
    double lower, upper, cost = 0;
    bool isInteger;
  };
  struct Row {
    Expr terms;
    double lower, upper;
  };

  /// HiGHS, which is deleted with it.
  using Solver = std::unique_ptr<void, void (*)(void *)>;

  int addColumn(double lower, double upper, bool isInteger);
  void pass(void *solver, bool isRelaxed) const;
  void addRelaxedRows();
  void read(void *solver, IlpSolution &solution) const;

  std::vector<Column> columns;
  std::vector<Row> rows;
  /// A row without terms that cannot hold.
  bool isContradictory = false;
  /// What relaxes it, once it is asked to, and how many rows that has.
  Solver relaxer{nullptr, nullptr};
  size_t numRelaxedRows = 0;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPPROGRAM_H
