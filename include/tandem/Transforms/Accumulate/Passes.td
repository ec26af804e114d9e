//===- Passes.td - passes of Accumulate -------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_ACCUMULATE_PASSES_TD
#define TANDEM_TRANSFORMS_ACCUMULATE_PASSES_TD

include "mlir/Pass/PassBase.td"

def RowsFirstPass : Pass<"tandem-rows-first", "::mlir::func::FuncOp"> {
  let summary = "Sorts dimensions by row of the batch, where concatenations and reshapes did not";
  let description = [{
    Before and after: nn on plain tensors. A dimension that has the rows of a
    batch behind other dimensions that were merged with them, as `torch.cat` of
    two batches or a merged (sequence, batch), has them first afterwards, as far
    as operators that compute each row alone read it. What looks at positions
    reads the dimension as it was.
  }];
}

def FormLoopsPass : Pass<"tandem-form-loops", "::mlir::ModuleOp"> {
  let summary = "Takes a time axis off the forms: one iteration in place of all";
  let description = [{
    Before: forms on one time axis, and on no other. After: plain tensors, no mesh. What is
    not `full` is in a loop, with the shapes of one iteration, and so is all that
    it reads of arguments alone. Sums and concatenations leave the loop by
    `spmd.carry` and `spmd.collect`. Where a loop reads a sum over all
    iterations, a loop before it makes the sum. Fails where that would cost a
    product: the batch is joined. In a pipeline whose forward passes come first it costs none: the
    product is made in the earlier loop alone (`--tandem-outline-actions`).
  }];
  let options = [
    Option<"order", "order", "std::string", "\"\"", "The order of the pipeline whose microbatches the iterations are: gpipe, if its forward passes come first; none without one">,
  ];
}

def JoinReturnedPass : Pass<"tandem-join-returned", "::mlir::func::FuncOp"> {
  let summary = "Takes out of the loops what is returned of rows and of a sum over all of them";
  let description = [{
    Before and after: forms on one time axis, and on no other. What results alone
    read is `full` if it depends on a sum or rows of all iterations that need a
    product: a loop of its own would make the product again.
  }];
}

def VerifyAccumulatedPass : Pass<"tandem-verify-accumulated", "::mlir::func::FuncOp"> {
  let summary = "Checks the exit of the accumulate stage: what is read across loops";
  let description = [{
    The exit of the stage.
  }];
}

#endif // TANDEM_TRANSFORMS_ACCUMULATE_PASSES_TD
