//===- HeldLine.h - what an edited plan holds -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes that a plan holds at each operator (Cost.h, *Memory*), as differences
// between operators. A measure adds up the stages that differ from the plan
// that was kept last. All that lies between two of them is held as then, but
// for one number of bytes: sums of integers, so that they equal those of a walk
// over all stages.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_IMPROVE_HELDLINE_H
#define TANDEM_LIB_SEARCH_TANDEM_IMPROVE_HELDLINE_H

#include "Tandem/Improve/CopyPlacer.h"

namespace tandem::search {

/// What begins and ends with an operator.
struct OperatorBytes {
  /// Of all strands: there from the operator on, from the begin of its stage,
  /// from that of the stage behind, and up to the operator.
  int64_t births = 0, copyBirths = 0, lateBirths = 0, deaths = 0;
  /// Of one strand: made, copies that it is the first to take, terms that are
  /// summed up at the end of the stage, and up to the operator.
  int64_t shares = 0, copyShares = 0, termShares = 0, goneShares = 0;
  /// Of its signature.
  int64_t workspace = 0;
  bool isOverTime = false;

  bool operator==(const OperatorBytes &) const = default;
};

/// Bytes that are added to an operator.
struct HeldEntry {
  int64_t OperatorBytes::*member;
  unsigned op;
  int64_t bytes;
};

class HeldLine {
public:
  /// Looks at the stages of `plan` as they are at each call.
  HeldLine(const EditedPlan &plan, int64_t numStrands)
      : plan(plan), numStrands(numStrands) {}

  /// Nothing is held by so many operators.
  void reset(size_t numOperators);
  void add(const HeldEntry &entry, int sign);
  void addArguments(int64_t bytes) { argumentBytes += bytes; }
  void setOperator(unsigned op, int64_t workspace, bool isOverTime);
  /// A stage begins with the operator, or none does any more.
  void touch(unsigned op);
  /// What is held now is what later measures compare with.
  void keep();

  struct Measure {
    int64_t peak = 0;
    /// Bytes above the limit, summed over stages or over operators.
    int64_t excess = 0;
  };
  Measure measure(int64_t limit, bool byOperator);
  /// Of the plan that was kept last.
  size_t getNumStages() const { return ofStages.size(); }

private:
  /// Held before a stage: by one strand, and once.
  struct Level {
    int64_t alive = 0, once = 0;
  };
  void listChanged();
  unsigned walk(unsigned stage, Level &level);
  void addStage(Measure &sum, int64_t limit, bool byOperator, unsigned begin,
                unsigned end) const;
  void addKept(Measure &sum, int64_t limit, bool byOperator, unsigned begin,
               unsigned end, int64_t more) const;

  const EditedPlan &plan;
  int64_t numStrands, argumentBytes = 0;
  std::vector<OperatorBytes> operators;
  /// Operators at which something may differ from what was kept; and the first
  /// ones of their stages.
  std::vector<unsigned> touched, changed;
  std::vector<bool> isTouched;
  /// Held by all strands at each operator of the stage that was walked last.
  std::vector<int64_t> atOperators;

  //--- Of the plan that was kept last.
  std::vector<OperatorBytes> keptOperators;
  /// By operator: whether a stage begins there, what is held before it, and the
  /// number of the stage.
  std::vector<bool> wasBegin;
  std::vector<Level> before;
  std::vector<unsigned> numberOf;
  /// Held by all strands: at operators, and at most in stages.
  std::vector<int64_t> ofOperators, ofStages;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_IMPROVE_HELDLINE_H
