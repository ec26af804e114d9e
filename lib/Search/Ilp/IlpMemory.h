//===- IlpMemory.h - bytes of a plan with given stages ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows that keep each stage below the memory limit (Cost.h, *Memory*). Exact
// but for copies that wait: how long the queue holds them and their gradients
// is left out, so that the rows may allow too much, never too little.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPMEMORY_H
#define TANDEM_LIB_SEARCH_ILPMEMORY_H

#include "IlpForms.h"

namespace tandem::search {

class IlpMemory {
public:
  IlpMemory(const IlpForms &forms, IntegerProgram &program);

  /// A row for each stage that could exceed the limit.
  void limitStages();
  /// Instead: the largest stage as the objective.
  void minimizePeak();
  /// An objective in bytes.
  int64_t toBytes(double units) const;

private:
  /// Bytes that are held from one stage to another, both included.
  struct Holding {
    IlpSum bytes;
    int first, last;
  };

  void addHoldings();
  void addResidents();
  void addTensor(unsigned index);
  void addUpdateUses(unsigned index, int lastOther);
  void addCopies(unsigned index);
  void addWorkspaces();
  Expr getHeld(unsigned index, unsigned produced);
  bool hasOnlyTiedUses(const IlpTensor &tensor) const;
  Expr getCopyHeld(const IlpTensor &tensor, const cost::Layout &layout,
                   const Expr &made);
  Expr getWaiting(unsigned index, const cost::Layout &produced,
                  const cost::Layout &wanted) const;
  void hold(IlpSum bytes, int first, int last);
  Expr getTotal(unsigned stage, double &largest) const;
  double toUnits(int64_t bytes) const;
  double getBytes(unsigned tensor, const cost::Layout &layout) const;

  const IlpForms &forms;
  const cost::SearchProblem &problem;
  const IlpStages &stages;
  IntegerProgram &program;
  std::vector<bool> isTiedOutput;
  std::vector<Holding> holdings;
  /// Changes of each tensor that wait.
  std::vector<std::vector<const IlpChange *>> waiting;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPMEMORY_H
