//===- Copies.h - copies implied by a plan ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks a plan's decisions and derives from them every copy (tensor, layout,
// pass): its stage, its source and its life. Rules: Cost.h, *Copies* and *Sums
// over time*.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COST_COPIES_H
#define TANDEM_LIB_COST_COPIES_H

#include "tandem/Cost/Cost.h"

namespace tandem::cost {

/// Arguments exist before the first stage.
constexpr int kBeforeAll = -1;

struct PlacedCopy {
  Copy copy;
  Layout from;
  /// Made at the start of `stage`, alive up to and including the operator
  /// `lastOp`.
  unsigned stage, lastOp;
  /// For which it is made.
  unsigned firstOp = 0;
  bool waits = false;
  /// Written straight into an argument's memory.
  bool isInPlace = false;
  ChangeCost change;
};

/// What a plan makes of a tensor.
struct PlacedTensor {
  Layout produced;
  unsigned producer = 0;
  /// `kBeforeAll` for arguments.
  int stage = kBeforeAll;
  /// The last operator that takes the producer's own layout, or that is the
  /// first to take a copy that is made from it; the producer if there is none.
  /// What waits is left out.
  unsigned lastOp = 0;
  /// A gradient: summed over time behind its producer's stage.
  bool isSummed = false;
  /// Whether, once summed, the terms of the strands are still wanted.
  bool keepsTerms = false;
  bool isInPlace = false;
  /// Local seconds of the sum.
  double sumSeconds = 0;
};

struct Placement {
  std::vector<unsigned> stageOf; // per operator
  /// Whether the operator runs ahead of its stage.
  std::vector<bool> isAhead;
  std::vector<PlacedTensor> tensors;
  std::vector<PlacedCopy> copies;
  unsigned numStages = 0;
  /// First stage of the update pass; `numStages` if there is none.
  unsigned firstUpdateStage = 0;
};

/// The producer's layout with `full` over time.
Layout getSummedLayout(const SearchProblem &problem, Layout layout);

/// Nothing, and one line in `error`, if the decisions are not legal.
std::optional<Placement> placeCopies(const SearchProblem &problem,
                                     const Plan &plan, ChangeTable &table,
                                     std::string &error);

/// `operator 17 'nn.matmul'`, for errors.
std::string describeOperator(const SearchProblem &problem, unsigned op);
/// `tensor 5 'x'`.
std::string describeTensor(const SearchProblem &problem, unsigned tensor);

} // namespace tandem::cost

#endif // TANDEM_LIB_COST_COPIES_H
