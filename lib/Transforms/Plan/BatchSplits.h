//===- BatchSplits.h - splits of the batch ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_BATCHSPLITS_H
#define TANDEM_LIB_TRANSFORMS_PLAN_BATCHSPLITS_H

#include "OperatorGroups.h"

namespace tandem::plan {

/// Which factors of each operator, and which dimensions of each value, come
/// from the batch dimension of an input.
struct BatchMarks {
  BatchMarks(const StepGraph &graph, const std::vector<bool> &isSource);

  /// Bit f of `factors[op]`, bit d of `dims[value]`.
  std::vector<uint64_t> factors, dims;
};

/// Splits over the batch and over experts, while `groups` is being made.
class BatchSplits {
public:
  BatchSplits(const StepGraph &graph, const OperatorGroups &groups);

  /// Whether operator `index` sums over the batch, as a loss, a statistic or a
  /// gradient.
  bool isSummed(unsigned index) const;
  /// Whether groups `joined`, which read what `index` makes, could not be split
  /// as it can: over the batch (a statistic of it would be finished inside), or
  /// over experts, as a parameter of three dimensions that it reads may be
  /// stored.
  bool isLost(unsigned index, llvm::ArrayRef<int> joined) const;

private:
  using Known = llvm::DenseMap<std::pair<unsigned, int64_t>, bool>;
  bool takes(unsigned value, spmd::AxisForm form, llvm::ArrayRef<int> joined,
             Known &known) const;

  const StepGraph &graph;
  const OperatorGroups &groups;
  BatchMarks marks;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_BATCHSPLITS_H
