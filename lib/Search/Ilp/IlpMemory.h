//===- IlpMemory.h - bytes of a plan with given stages ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows that keep each operator below the memory limit (Cost.h, *Memory*). Exact
// but for copies that wait: how long the queue holds them and their gradients
// is left out, and so is how much sooner a stage holds what it makes ahead. So
// the rows may allow too much, never too little.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPMEMORY_H
#define TANDEM_LIB_SEARCH_ILPMEMORY_H

#include "IlpForms.h"

namespace tandem::search {

class IlpMemory {
public:
  IlpMemory(const IlpForms &forms, IntegerProgram &program);

  /// A row for each operator beside which the limit could be exceeded.
  void limitPeak();
  /// Instead: the largest peak as the objective.
  void minimizePeak();
  /// An objective in bytes.
  int64_t toBytes(double units) const;

private:
  /// How bytes are held.
  enum class Life {
    /// From one operator to another.
    Produced,
    /// Likewise, and before the first operator of their stage.
    Copy,
    /// By all strands together.
    Once,
    /// By the strands that are done with the stage.
    AtEnd
  };
  struct Holding {
    IlpSum bytes;
    Life life;
    unsigned first, last;
  };
  /// Up to the operator something is needed if the expression is 1, or surely.
  struct Need {
    unsigned op;
    Expr needed;
    bool isSure = false;
  };
  /// Bytes beside an operator, and the most that they could be.
  struct Row {
    Expr bytes;
    double largest = 0;
  };

  void addHoldings();
  void addTensor(unsigned index);
  void addProduced(unsigned index, unsigned produced);
  void addGradient(unsigned index, unsigned produced, const Expr &held);
  std::vector<Need> getNeeds(unsigned index, unsigned produced,
                             const Expr &held) const;
  std::vector<Need> getSumNeeds(unsigned index, unsigned produced) const;
  std::vector<Need> getChain(const Expr &held, std::vector<Need> needs);
  void holdChain(unsigned index, const cost::Layout &layout,
                 const std::vector<Need> &chain, unsigned first, Life life);
  std::vector<Need> foldView(unsigned index, unsigned produced,
                             const std::vector<Need> &chain);
  Expr getBoth(const Expr &a, const Expr &b);
  void holdCopy(unsigned index, size_t place, const cost::Layout &layout,
                const Expr &held, Life life, unsigned first);
  void addCopies(unsigned index);
  Expr getHeld(unsigned index, unsigned produced);
  bool hasOnlyTiedUses(const IlpTensor &tensor) const;
  Expr getCopyHeld(const IlpTensor &tensor, const cost::Layout &layout,
                   const Expr &made);
  void hold(unsigned tensor, const cost::Layout &layout, const Expr &held,
            Life life, unsigned first, unsigned last);
  const Expr &getOverTime(unsigned stage);
  Expr getInWhole(const Expr &held, unsigned stage);
  Expr getLater(const Expr &head, const Expr &held, unsigned stage);
  unsigned holdRest(unsigned index, const cost::Layout &layout,
                    const std::vector<Need> &chain, unsigned first);
  void holdOnce(unsigned index, const cost::Layout &layout,
                const std::vector<Need> &chain, unsigned first);
  bool isOverTime(const cost::Layout &layout) const;
  unsigned getBegin(unsigned stage) const;
  double getFactor(const Holding &holding, unsigned op, bool isAtBegin) const;
  Row getRow(unsigned op, bool isAtBegin) const;
  std::vector<Row> getRows() const;
  double toUnits(int64_t bytes) const;

  const IlpForms &forms;
  const cost::SearchProblem &problem;
  const IlpStages &stages;
  IntegerProgram &program;
  int64_t numStrands;
  std::vector<bool> isTiedOutput;
  std::vector<Holding> holdings;
  /// Of roots, by the layout produced: what views in their memory need.
  std::vector<std::vector<std::vector<Need>>> viewNeeds;
  /// Of stages, where it was asked for: 1 if an operator is over time.
  std::vector<std::optional<Expr>> stagesOverTime;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPMEMORY_H
