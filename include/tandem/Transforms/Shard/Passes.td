//===- Passes.td - passes of Shard -------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SHARD_PASSES_TD
#define TANDEM_TRANSFORMS_SHARD_PASSES_TD

include "mlir/Pass/PassBase.td"

def ApplySignaturesPass : Pass<"tandem-apply-signatures", "::mlir::func::FuncOp"> {
  let summary = "Puts the forms of the plan's signatures into types, with reforms where producer and consumer differ";
  let description = [{
    Forms into types; `spmd.reform`s that may change several axes at once.
  }];
}

def PlaceSourcesPass : Pass<"tandem-place-sources", "::mlir::func::FuncOp"> {
  let summary = "Makes what a plan has 'as_wanted' once in each form that a reader wants";
  let description = [{
    Gives operators that are `as_wanted` signatures, once for each form in
    which a reader wants them: there are clones where several do.
  }];
}

def SplitReformsPass : Pass<"tandem-split-reforms", "::mlir::func::FuncOp"> {
  let summary = "Takes reforms apart into cheapest sequences of legal reforms of one axis";
  let description = [{
    Takes reforms apart into cheapest sequences of legal reforms of one
    axis.
  }];
}

def TakeSourcesPass : Pass<"tandem-take-sources", "::mlir::func::FuncOp"> {
  let summary = "Gives each reader the source that the plan chose, and removes the others";
  let description = [{
    Replaces each `nn.either` by its operand number `nn.source` (0 without one),
    and erases what nobody reads then: clones (`nn.again`), and forward
    operators whose only readers take a clone.
  }];
}

def WidenSumsPass : Pass<"tandem-widen-sums", "::mlir::func::FuncOp"> {
  let summary = "Widens terms of gradients before they are added, whatever is cheaper";
  let description = [{
    A reform that adds terms of bf16 gradients and a conversion to f32 behind it
    change places, unless the conversion `sums_first`.
  }];
}

def VerifyShardedPass : Pass<"tandem-verify-sharded", "::mlir::func::FuncOp"> {
  let summary = "Checks the exit of the shard stage: one mesh, legal reforms of one axis, states that are full over time";
  let description = [{
    The exit of the stage.
  }];
}

#endif // TANDEM_TRANSFORMS_SHARD_PASSES_TD
