//===- Pieces.h - where waiting collectives are sent ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `cost` says how many seconds of the waiting queue a slot takes (Cost.h,
// *Waiting*). A schedule needs whole elements: this cuts each waiting
// collective into pieces that fill the same slots. A slot is filled up to its
// room; only what continues a collective that an earlier slot began pays the
// latency of a further piece. So the queue is at most as long as that of
// `cost`, but for what is left of one element per slot.
//
// Two pieces of one collective with no other collective between them are one
// piece, in the slot of the first.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_PIECES_H
#define TANDEM_COST_PIECES_H

#include "tandem/Cost/Cost.h"

namespace tandem::cost {

struct WaitPiece {
  /// Index into `Plan::waiting`.
  unsigned waiting;
  /// Which of the collectives that lead from the gradient to the copy.
  unsigned collective;
  /// Index into `CostReport::steps`: the piece is sent in the slot in which
  /// this step communicates.
  unsigned step;
  /// The share of the collective that is done behind this piece, up to 1.
  double end;
  bool operator==(const WaitPiece &) const = default;
};

/// The pieces in the order of the queue. `report` is that of `plan`.
std::vector<WaitPiece> cutWaiting(const SearchProblem &problem,
                                  const Plan &plan, ChangeTable &table,
                                  const CostReport &report);

} // namespace tandem::cost

#endif // TANDEM_COST_PIECES_H
