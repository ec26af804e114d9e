//===- Descent.h - signatures by coordinate descent -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides the signatures of a problem axis by axis, time first: a greedy pass
// in the order of the operators, then sweeps in which each operator in turn
// takes the signature that is cheapest given its neighbours, until nothing
// improves. Deterministic, and without the problem's prices: cost is counted in
// bytes that a device sends for changes of form, each once per (tensor, form,
// pass), plus, far below, the work that every point of an axis does though it
// could be split.
//
// It is what plan presets are decided by: a preset says which signatures are
// allowed and what an axis is for.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_DESCENT_H
#define TANDEM_SEARCH_DESCENT_H

#include "tandem/Cost/Plan.h"
#include <functional>

namespace tandem::search {

/// What an axis is for.
struct AxisUse {
  unsigned axis = 0;
  /// Every point trains on its own part of the batch: gradients are summed over
  /// the axis whatever the operators do, so that this costs next to nothing
  /// against other communication.
  bool isBatchAxis = false;
};

class Descent {
public:
  explicit Descent(const cost::SearchProblem &problem);

  /// Of the signatures that operator `op` has left, leaves those that
  /// `isAllowed`; all, if none is.
  void keep(unsigned op,
            const std::function<bool(const cost::Signature &)> &isAllowed);
  /// Decides one axis: leaves signatures of the same forms on it. Time comes
  /// first, then space axes in the order of the mesh.
  void decide(const AxisUse &use);

  /// The first signature that is left of each operator, in one stage.
  cost::Plan getPlan() const;

private:
  const cost::SearchProblem &problem;
  /// Per operator, indices of the signatures that are left, at least one.
  std::vector<std::vector<unsigned>> left;
  /// Bytes of each tensor that one point of the axes decided so far holds.
  std::vector<double> bytes;
};

} // namespace tandem::search

#endif // TANDEM_SEARCH_DESCENT_H
