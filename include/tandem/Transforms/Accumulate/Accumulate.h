//===- Accumulate.h - the accumulate stage ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Accumulate makes a loop of a step on N times as many rows:
//
//  * before: a step on the whole batch, and the forms that its tensors have on
//    a time axis of N points (those of N microbatches on one device);
//  * after: nn and what enters and leaves loops (`spmd.enter`, `spmd.carry`,
//    `spmd.collect`), on plain tensors. Operators with `spmd.loop` run
//    `spmd.iterations` times, on a Nth of the batch. An input that is cut has
//    one dimension more, which counts iterations (`spmd.iterated`).
//
// Everything behind it sees a step whose batch is that of one iteration.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_ACCUMULATE_ACCUMULATE_H
#define TANDEM_TRANSFORMS_ACCUMULATE_ACCUMULATE_H

#include "mlir/Pass/Pass.h"
#include "tandem/Transforms/PassOptions.h"

namespace tandem {

/// In the error of a step that no order can run but one whose forward passes
/// come first.
inline constexpr llvm::StringLiteral kJoinsBatch = "joins the batch";

struct AccumulateOptions : mlir::PassPipelineOptions<AccumulateOptions> {
#define TANDEM_ACCUMULATE_OPTION TANDEM_PASS_OPTION
#include "tandem/Support/Options.def"
  Option<std::string> order{
      *this, "order", llvm::cl::desc("The order of a pipeline of iterations")};

  void take(const Options &options) {
#define TANDEM_ACCUMULATE_OPTION TANDEM_TAKE_OPTION
#include "tandem/Support/Options.def"
    order = options.order;
  }
};

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Accumulate/Passes.h.inc"

} // namespace tandem

#endif // TANDEM_TRANSFORMS_ACCUMULATE_ACCUMULATE_H
