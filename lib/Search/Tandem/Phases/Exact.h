//===- Exact.h - exact search of small problems -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Branch and bound over all that a plan decides. Signatures come first, one
// group of operators after the other, as long as the relaxation's bound, with
// the messages of the free problem, is below the best plan. Then kept and
// waiting copies, tensor by tensor; then the best stages, by the dynamic
// program with all divisions. Where its plan does not fit into the memory, they
// are gone over one by one.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PHASES_EXACT_H
#define TANDEM_LIB_SEARCH_TANDEM_PHASES_EXACT_H

#include "Tandem/Phases/Context.h"
#include "Tandem/Relaxation/Relaxation.h"

namespace tandem::search {

class ExactSearch {
public:
  /// `weights` are those of a bound (`getBoundWeights`). Offers what it finds
  /// to the context's pool; looks at operators of plans, `maxWork` at most.
  ExactSearch(SearchContext &context, const Weights &weights, uint64_t maxWork);

  /// Whether no plan is left that is cheaper than `getGoal`.
  bool run();
  /// Plans that cost as much or more are of no interest: the best one, less the
  /// gap that is allowed.
  double getGoal() const;

  /// Nodes: signatures of some operators.
  uint64_t numNodes = 0;

private:
  /// Copies of one tensor.
  struct Copies {
    std::vector<cost::Copy> kept, waiting;
  };

  bool spend(uint64_t more);
  bool chooseSignatures(unsigned variable);
  bool chooseCopies(unsigned tensor);
  void addCopies(unsigned tensor, unsigned firstUse,
                 const std::vector<cost::Layout> &there, const Copies &before,
                 std::vector<Copies> &all) const;
  bool isUseful(unsigned tensor, unsigned firstUse,
                const cost::Layout &layout) const;
  bool mayWait(unsigned tensor, const cost::TensorUse &use) const;
  double getSeconds(unsigned tensor, const cost::Layout &from,
                    const cost::Layout &to) const;
  bool divide();
  bool tryAhead();
  bool tryDivisions(unsigned firstOp);

  SearchContext &context;
  const cost::SearchProblem &problem;
  const Facts &facts;
  FactorGraph graph;
  Relaxation relaxation;
  FixedForms forms;
  StagePlanner stages;
  uint64_t work = 0, maxWork, nextQuestion = 0;
  /// What is decided so far.
  std::vector<unsigned> values; // per variable
  cost::Plan plan;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PHASES_EXACT_H
