//===- IlpProgram.cpp - an integer program --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpProgram.h"
#include <algorithm>

using namespace tandem::search;

void tandem::search::add(Expr &expr, const Expr &what, double factor) {
  for (Term term : what)
    expr.push_back({term.column, term.factor * factor});
}

double tandem::search::getValue(const Expr &expr,
                                const std::vector<double> &values) {
  double sum = 0;
  for (Term term : expr)
    sum += term.factor * values[term.column];
  return sum;
}

double IlpGroup::getLargest() const {
  double largest = 0;
  for (const Entry &entry : entries)
    largest = std::max(largest, entry.amount);
  return largest;
}

void IlpSum::add(IlpGroup::Key group, const Expr &chosen, double amount) {
  if (chosen.empty() || amount == 0)
    return;
  search::add(expr, chosen, amount);
  groups[group].entries.push_back({amount, chosen});
}

void IlpSum::add(const IlpSum &other, double factor) {
  search::add(expr, other.expr, factor);
  for (const auto &[key, group] : other.groups)
    for (const IlpGroup::Entry &entry : group.entries)
      groups[key].entries.push_back({entry.amount * factor, entry.chosen});
}

double IlpSum::getLargest() const {
  double largest = 0;
  for (const auto &[key, group] : groups)
    largest += group.getLargest();
  return largest;
}

bool IlpSum::isEmpty() const {
  return std::all_of(expr.begin(), expr.end(),
                     [](Term term) { return term.factor == 0; });
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
