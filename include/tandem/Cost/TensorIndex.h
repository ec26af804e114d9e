//===- TensorIndex.h - makers and readers of tensors ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_TENSORINDEX_H
#define TANDEM_COST_TENSORINDEX_H

#include "tandem/Cost/SearchProblem.h"

namespace tandem::cost {

/// An operand: `operators[op].operands[operand]`.
struct TensorUse {
  unsigned op, operand;
};

/// Facts of one tensor.
struct TensorFacts {
  unsigned producer = 0;
  /// Index among the producer's results.
  unsigned result = 0;
  /// In the order of operators, then of operands.
  std::vector<TensorUse> uses;
  unsigned numUpdateUses = 0;
  /// Whether some, or all, uses return it to an argument's memory.
  bool hasTiedUse = false, hasOnlyTiedUses = false;
};

/// Who makes each tensor of a problem and who reads it. The problem has to
/// outlive the index.
class TensorIndex {
public:
  explicit TensorIndex(const SearchProblem &problem);

  const SearchProblem &problem;
  std::vector<TensorFacts> tensors;

  /// The layout in which a tensor is made, or in which a use wants it, by a
  /// signature per operator.
  const Layout &getProduced(const std::vector<unsigned> &signatures,
                            unsigned tensor) const {
    const TensorFacts &info = tensors[tensor];
    return problem.getSignatures(info.producer)[signatures[info.producer]]
        .results[info.result];
  }
  const Layout &getWanted(const std::vector<unsigned> &signatures,
                          const TensorUse &use) const {
    return problem.getSignatures(use.op)[signatures[use.op]]
        .operands[use.operand];
  }
  /// Whether the use reads nothing with some signature.
  bool mayBeAbsent(const TensorUse &use) const;
};

} // namespace tandem::cost

#endif // TANDEM_COST_TENSORINDEX_H
