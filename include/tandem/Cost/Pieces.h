//===- Pieces.h - slots of waiting collectives ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `cost` says how many seconds of the waiting queue a slot takes (Cost.h,
// *Waiting*). A schedule needs collectives: this says where each is sent, whole
// or in pieces.
//
// A piece pays the latency L of its collective, in which nothing is sent, and
// for its share of the rest. It is cut along the dimension of
// `getCutExtent`, into whole indices of e seconds. A collective is sent as soon
// as what slots have left holds all of it, over as many slots as nothing else
// is sent between; else it is cut, and only where `cost` has begun it.
//
// If a further piece costs at least `getLeastPieceLatency`, every slot holds
// its pieces, what is sent is never behind what `cost` has taken, and the steps
// take at most the plan's cost (docs/rationale/stages.md has the proof).
//
// Two pieces of one collective with no other collective between them are one
// piece, in the slot of the first.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_PIECES_H
#define TANDEM_COST_PIECES_H

#include "tandem/Cost/Cost.h"
#include <span>

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

/// Into how many parts a collective can be cut, that changes an axis of
/// `size` members from `from` to `to`: the largest extent that it leaves alone.
/// `shape` is what a device holds if the axis is `full`. An all-reduce counts
/// all elements; of the others what lies before, between and behind the
/// dimensions `from` and `to`, the latter of them with what a member has of the
/// dimension that it cuts (of a gather: joins).
int64_t getCutExtent(std::span<const int64_t> shape, int64_t size, Form from,
                     Form to);

/// The least `pieceLatency`, s, with which a schedule keeps up with `cost`:
/// L (1 + beta) / (1 - beta) + e, L and e being the largest of any collective
/// that could wait; 0 if there is none.
double getLeastPieceLatency(const SearchProblem &problem);

/// The pieces in the order of the queue. `report` is that of `plan`.
std::vector<WaitPiece> cutWaiting(const SearchProblem &problem,
                                  const Plan &plan, ChangeTable &table,
                                  const CostReport &report);

} // namespace tandem::cost

#endif // TANDEM_COST_PIECES_H
