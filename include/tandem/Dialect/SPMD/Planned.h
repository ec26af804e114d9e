//===- Planned.h - plans in IR ----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `spmd.plan` on operators, arguments, results, functions and the module: what
// a plan decided about it. It is read and written as one struct.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_PLANNED_H
#define TANDEM_DIALECT_SPMD_PLANNED_H

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace tandem::spmd {

struct Planned {
  //--- What is split how: from `plan` to `shard`.
  /// Of an operator.
  SignaturesAttr signatures;
  /// Of an operator: in place of signatures, it is made in each form in which a
  /// reader wants it. What depends on no tensor of the step is so.
  bool asWanted = false;
  /// Of an argument or result; null if it is `full`.
  FormAttr form;
  /// Of the results of an operator, or an argument: copies that are taken from
  /// elsewhere than the value itself, made by several changes, or kept.
  llvm::SmallVector<CopyAttr, 1> copies;
  llvm::SmallVector<WaitAttr, 1> waits;

  //--- When it happens: from `plan`, on what `shard` makes too, to `schedule`,
  //--- which makes stages of its own of a step without.
  std::optional<int64_t> stage;
  /// A change over time that brings the strands together.
  bool joins = false;
  /// Of a collective that waits: the slots of its pieces.
  PiecesAttr pieces;
  /// On the function: stages whose first strand's collectives begin only when
  /// everything before them is computed, since memory has no room for what they
  /// make any sooner. On a step of the comm queue, until its events are placed:
  /// its stage, if it is one of these.
  llvm::SmallVector<int64_t, 1> inTurn;

  //--- For predictions, where the plan was priced with `seconds`.
  /// What the plan counts, once per strand; what an operator was taken apart
  /// into has it in each part, with one `nn.id`.
  double seconds = 0;
  /// The latency in that, in which nothing is sent.
  double latency = 0;
  /// On the module.
  PricesAttr prices;

  /// Null if nothing is decided.
  PlanAttr getAttr(mlir::MLIRContext *context) const;
  /// Null, with an error, if the parts contradict each other.
  PlanAttr getChecked(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                      mlir::MLIRContext *context) const;
};

/// Empty where nothing was decided.
Planned getPlanned(PlanAttr attribute);
Planned getPlanned(mlir::Operation *op);
Planned getPlannedArg(mlir::FunctionOpInterface step, unsigned index);
Planned getPlannedResult(mlir::FunctionOpInterface step, unsigned index);

/// Sets the attribute, or removes it.
void setPlanned(mlir::Operation *op, const Planned &planned);
void setPlanned(mlir::NamedAttrList &attributes, const Planned &planned,
                mlir::MLIRContext *context);

/// Changes a part of what was decided.
void editPlanned(mlir::Operation *op,
                 llvm::function_ref<void(Planned &planned)> edit);

/// The stage of an operator, where nothing else is asked.
std::optional<int64_t> getPlannedStage(mlir::Operation *op);
void setPlannedStage(mlir::Operation *op, int64_t stage);

/// Whether it is one of a plan's collectives that wait.
bool isWaiting(mlir::Operation *op);

/// Latency (s) and time (s/B) of one kind of change along an axis.
struct ChangePrice {
  double latency = 0, secondsPerByte = 0;
};
enum class ChangeKind { AllGather, ReduceScatter, AllReduce, AllToAll };
constexpr unsigned kNumChangeKinds = 4;

/// By the prices on the module around `op`; none if there are none.
std::optional<ChangePrice> getPrice(mlir::Operation *op, llvm::StringRef axis,
                                    ChangeKind kind);

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_PLANNED_H
