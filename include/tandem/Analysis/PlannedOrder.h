//===- PlannedOrder.h - when a plan wants operators to run ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a search decided beside signatures, as attributes that live from `plan`
// to `schedule`. A step without them is scheduled by its own rules.
//
//   sched.stage    the plan's stage, on operators, reforms, collectives and, as
//                  result attribute, on what is returned
//   sched.in_turn  on the function: array<i64: stage, ...>, stages whose first
//                  strand's collectives begin only when everything before them
//                  is computed, since memory has no room for what they make
//                  any sooner; on a step of the comm queue (`unit`), that it is
//                  one of these, until its events are placed
//   sched.waits    on the collectives between a gradient and its update that
//                  wait: array<f64: stage, strand, share, ...>, the slot of
//                  each piece and the share of the collective that is done
//                  behind it; the last one is 1
//   sched.joins    on changes over time that bring the strands together
//
// For predictions only, where the plan was priced with `seconds`:
//
//   sched.seconds  what the plan counts for an operator, once per strand; what
//                  an operator was taken apart into has it in each part, with
//                  one `nn.id`
//   sched.latency  seconds of `sched.seconds` that are the latency of a piece
//                  of a collective, in which nothing is sent
//   sched.prices   on the module: {cost = s, compute_slowdown, collective_
//                  slowdown, and per axis and kind of change
//                  (Cost/SearchProblem.h) latency in s and s/B}
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_PLANNEDORDER_H
#define TANDEM_ANALYSIS_PLANNEDORDER_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace tandem {

constexpr llvm::StringLiteral kStageAttrName = "sched.stage";
constexpr llvm::StringLiteral kInTurnAttrName = "sched.in_turn";
constexpr llvm::StringLiteral kWaitsAttrName = "sched.waits";
constexpr llvm::StringLiteral kJoinsAttrName = "sched.joins";
constexpr llvm::StringLiteral kSecondsAttrName = "sched.seconds";
constexpr llvm::StringLiteral kLatencyAttrName = "sched.latency";
constexpr llvm::StringLiteral kPricesAttrName = "sched.prices";

/// A part of a collective that waits: the slot in which it is sent, and the
/// share of the collective that is done behind it.
struct PlannedPiece {
  unsigned stage = 0, strand = 0;
  double end = 0;
  bool operator==(const PlannedPiece &) const = default;
};

/// The pieces of each of the collectives that follow each other in a change.
using PlannedPieces = llvm::SmallVector<llvm::SmallVector<PlannedPiece, 2>, 1>;

/// How plan files and `spmd.waits` write a copy whose collectives wait.
constexpr llvm::StringLiteral kWaitGrammar =
    "RESULT FORMS [in STAGE/STRAND SHARE, ... [then STAGE/STRAND SHARE, ...]]";

/// Reads `3/1 0.25, 4/0 1 then 4/0 1`. Nothing if it is something else, if the
/// shares of a collective do not rise to 1, or if slots go back.
std::optional<PlannedPieces> parsePieces(llvm::StringRef text);
std::string printPieces(const PlannedPieces &pieces);

/// The plan's stage of `op`; none if the plan says nothing.
inline std::optional<int64_t> getPlannedStage(mlir::Operation *op) {
  auto stage = op->getAttrOfType<mlir::IntegerAttr>(kStageAttrName);
  return stage ? std::optional(stage.getInt()) : std::nullopt;
}

inline void setPlannedStage(mlir::Operation *op, int64_t stage) {
  auto i64 = mlir::IntegerType::get(op->getContext(), 64);
  op->setAttr(kStageAttrName, mlir::IntegerAttr::get(i64, stage));
}

/// Seconds that the plan counts for `op`; 0 if it says nothing.
inline double getPlannedSeconds(mlir::Operation *op) {
  auto seconds = op->getAttrOfType<mlir::FloatAttr>(kSecondsAttrName);
  return seconds ? seconds.getValueAsDouble() : 0;
}

inline void setPlannedSeconds(mlir::Operation *op, double seconds) {
  auto f64 = mlir::Float64Type::get(op->getContext());
  op->setAttr(kSecondsAttrName, mlir::FloatAttr::get(f64, seconds));
}

} // namespace tandem

#endif // TANDEM_ANALYSIS_PLANNEDORDER_H
