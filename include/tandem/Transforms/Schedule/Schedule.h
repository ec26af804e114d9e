//===- Schedule.h - the schedule stage --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Schedule says when everything happens (HiDup, sections 3 and 4.1):
//
//  * before: one block of nn operators and collectives on plain tensors;
//  * after: the function holds `sched.step`s and the return. Collectives are in
//    steps of a comm queue, all else in steps of a compute queue.
//
// A *slot* is a pair (stage, strand); slots are ordered by stage, then strand.
// A slot has a comm step, then a compute step. While the comm step of a slot
// runs, the compute step of the slot before it does: strand 1 communicates
// beside the computation of strand 0, and so on (lock step). What is gathered
// for a stage reads nothing that was computed, and could come at any time; it
// has the time of the stage before, of all its strands: such a comm step waits
// for the stage before that one, so that what is gathered does not pile up.
//
// Queues are first in, first out: an awaited event says that the step
// before it on the same queue are done as well.
//
// *Waiting* collectives, which only the updates need (gradients, the loss),
// come in comm steps of their own, behind the collectives of the last strand of
// the second stage after the one that made their operand: those of the first,
// which computation needs sooner, go before. Small ones of a step are one.
// Updates come last, in the order in which their gradients arrive, and never
// before the loss is known.
//
// A search says more (Dialect/SPMD/Planned.h): the stage of each operator, the
// stages whose strands run apart, and the slots in which pieces of waiting
// collectives are sent. Then slots are the plan's (Cost/Cost.h, *Slots*), and
// the time line of the steps, with the durations of the plan, is no longer than
// the plan's cost.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SCHEDULE_SCHEDULE_H
#define TANDEM_TRANSFORMS_SCHEDULE_SCHEDULE_H

#include "mlir/Pass/Pass.h"
#include "tandem/Transforms/PassOptions.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tandem {

struct ScheduleOptions : mlir::PassPipelineOptions<ScheduleOptions> {
  Option<unsigned> pieces{
      *this, "pieces",
      llvm::cl::desc(
          "Into how many HiDup stages a pass is cut, at most, for the sake "
          "of gathering parameters and of summing gradients beside "
          "computation"),
      llvm::cl::init(16)};
#define TANDEM_SCHEDULE_OPTION TANDEM_PASS_OPTION
#include "tandem/Support/Options.def"

  void take(const Options &options) {
#define TANDEM_SCHEDULE_OPTION TANDEM_TAKE_OPTION
#include "tandem/Support/Options.def"
  }
};

/// The bytes of the arguments of a step that lie on the host.
int64_t countStored(mlir::func::FuncOp step);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Schedule/Passes.h.inc"

void buildSchedulePipeline(mlir::OpPassManager &manager,
                           const ScheduleOptions &options);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_SCHEDULE_SCHEDULE_H
