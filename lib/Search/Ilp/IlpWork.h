//===- IlpWork.h - work of each stage ---------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Seconds of the given stages as sums over columns. A stage that could run in
// one strand or in k has a binary column for that, and each of its signatures
// and changes a part that is chosen in k strands and a part in one: a union of
// the two programs (Balas 1979), which is as tight as they are, and needs no
// bounds on sums.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPWORK_H
#define TANDEM_LIB_SEARCH_ILPWORK_H

#include "IlpForms.h"
#include <array>

namespace tandem::search {

/// Per strand, once, in the last strand, and ahead of the only one.
struct IlpStageWork {
  std::array<IlpSum, cost::kMaxAxes> collectivePerStrand, collectiveOnce;
  IlpSum computationPerStrand, computationOnce, sums, ahead;
};

class IlpWork {
public:
  /// `scale`: units of the program per second.
  IlpWork(const IlpForms &forms, IntegerProgram &program, double scale);

  /// What a stage does if it has k strands, and if it has one. What it does not
  /// have is nothing.
  IlpStageWork split(unsigned stage) const { return stages[stage].split; }
  IlpStageWork alone(unsigned stage) const { return stages[stage].alone; }
  /// Seconds of the copies that its gradients send to the queue.
  const Expr &getWaiting(unsigned stage) const { return stages[stage].waiting; }

private:
  struct Stage {
    IlpStageWork split, alone;
    Expr waiting;
    std::vector<Expr> joins;
    bool canSplit = false, canBeAlone = true;
    /// 1 if there are k strands; -1: known.
    int isSplit = -1;
  };
  /// Parts of an expression.
  struct Parts {
    Expr split, alone;
  };

  size_t getNumAllowed(unsigned op) const;
  Expr getOverTime(unsigned op) const;
  void addStages();
  void addStrands(unsigned stage, unsigned begin, unsigned end);
  Parts getParts(unsigned op, const Expr &chosen) const;
  void addAhead(unsigned op);
  void addReads(unsigned op);
  void addCopyRow(const IlpChange &change, const IlpUse &use,
                  cost::ChangeTable &table);
  void addAheadRows();
  void addOperators();
  void addSums();
  void addChanges();
  void addChange(const IlpChange &change);
  Parts divide(const IlpChange &change);
  void addPartRows();

  const IlpForms &forms;
  const cost::SearchProblem &problem;
  IntegerProgram &program;
  double scale;
  int64_t numStrands;
  std::vector<Stage> stages;
  /// Of operators in stages that may have either: for each signature, that it
  /// is chosen and there are k strands.
  std::vector<std::vector<int>> splitColumns;
  /// Of operators that make values again, by signature: that they run ahead.
  std::vector<std::vector<Expr>> aheadOf;
  /// By tensor, use and layout wanted: the changes made for it, in parts.
  std::map<std::array<int, 3>, Parts> partsOfUses;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPWORK_H
