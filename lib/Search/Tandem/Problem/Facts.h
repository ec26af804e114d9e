//===- Facts.h - lookup tables of a problem ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Read-only facts of a problem: who makes and uses a tensor; which operators
// take signatures of one index; what a signature costs over all strands.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PROBLEM_FACTS_H
#define TANDEM_LIB_SEARCH_TANDEM_PROBLEM_FACTS_H

#include "tandem/Cost/TensorIndex.h"
#include "tandem/Search/Mechanism.h"

namespace tandem::search {

class Facts : public cost::TensorIndex {
public:
  explicit Facts(const cost::SearchProblem &problem,
                 const MechanismSet &without = {});

  /// Left out of the search.
  MechanismSet without;
  bool does(Mechanism mechanism) const { return !without.has(mechanism); }
  int timeAxis;
  int64_t numStrands;
  /// Operators that take signatures of one index: variables of whoever chooses
  /// these. Of each operator the index of its group.
  std::vector<std::vector<unsigned>> groups;
  std::vector<unsigned> groupOf;
  /// An output that is written in place.
  std::vector<bool> isTiedOutput;
  /// Whether something may wait while the operator computes: it lies behind the
  /// first gradient, and is no update (Cost.h, *Waiting*).
  std::vector<bool> mayHide;
  /// Per tensor the one in whose memory it lies if it is a view, else itself;
  /// and the views.
  std::vector<unsigned> roots, views;
  /// Operator that makes each tensor, and whether some make values again.
  std::vector<unsigned> producers;
  bool hasAgain;
  /// Whether some use of the tensor may read nothing.
  std::vector<bool> hasChoice;

  /// Whether a search has to do with less work per operator.
  bool isLarge() const;
  /// An operator without operands that exists before the first stage.
  bool isArgument(unsigned op) const;
  /// Whether a signature's `seconds` are those of one strand.
  bool isPerStrand(const cost::Signature &signature) const {
    return problem.isOverTime(signature);
  }
  /// The uses that read the tensor; `scratch` holds them where not all do.
  const std::vector<cost::TensorUse> &
  getUses(const std::vector<unsigned> &signatures, unsigned tensor,
          std::vector<cost::TensorUse> &scratch) const;
  /// Whether each strand holds a share of a tensor in this layout.
  bool isOverTime(const cost::Layout &layout) const {
    return numStrands == 1 || layout[timeAxis] != cost::kFull;
  }
  /// Bytes beside an operator that reads the tensor in this layout: those of
  /// one strand, or of what all strands hold together.
  int64_t getShare(unsigned tensor, const cost::Layout &layout) const {
    int64_t bytes = problem.getBytes(tensor, layout);
    return isOverTime(layout) ? bytes / numStrands : bytes;
  }
  /// Whether the tensor, produced so, lies in the memory of its root.
  bool isFolded(unsigned tensor, const cost::Layout &produced,
                const cost::Layout &ofRoot, bool isSummed) const;
  /// Whether it holds nothing in its producer's layout, read last by `last`.
  bool isInKernel(unsigned tensor, bool isSummed, unsigned last) const {
    const cost::Tensor &data = problem.tensors[tensor];
    bool isUnread = data.heldFrom == cost::Tensor::kIfRead &&
                    last <= tensors[tensor].producer;
    return (data.isInKernel || isUnread) && !isSummed;
  }
  /// Whether copies of the tensor may wait until updates want them.
  bool mayWait(unsigned tensor) const;

  /// The producer's layout with `full` over time.
  cost::Layout getSummed(cost::Layout layout) const;
  /// Whether an operator takes the sum over time of what is produced (Cost.h,
  /// *Sums over time*).
  bool takesSum(unsigned op, const cost::Layout &produced,
                const cost::Layout &wanted) const;
  /// That sum, or what is produced: what its copies are made from.
  cost::Layout getBase(unsigned op, const cost::Layout &produced,
                       const cost::Layout &wanted) const {
    return takesSum(op, produced, wanted) ? getSummed(produced) : produced;
  }
  cost::Layout getBase(const std::vector<unsigned> &signatures, unsigned tensor,
                       const cost::TensorUse &use) const {
    return getBase(use.op, getProduced(signatures, tensor),
                   getWanted(signatures, use));
  }
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PROBLEM_FACTS_H
