//===- Passes.td - passes of Duplex -------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_DUPLEX_PASSES_TD
#define TANDEM_TRANSFORMS_DUPLEX_PASSES_TD

include "mlir/Pass/PassBase.td"

def MarkJoinsPass : Pass<"tandem-mark-joins", "::mlir::func::FuncOp"> {
  let summary = "Leaves nn.join only on operators that some strand's work needs";
  let description = [{
    Leaves `nn.join` only where a strand needs what is joined; remarks on
    it if `report` is set.
  }];
  let options = [
    Option<"report", "report", "bool", "false",
           "Remark on every join">,
  ];
}

def SplitStrandsPass : Pass<"tandem-split-strands", "::mlir::func::FuncOp"> {
  let summary = "Takes time axes off the forms: one copy of an operator per strand";
  let description = [{
    One copy of an operator per strand.
  }];
}

def VerifyDuplexedPass : Pass<"tandem-verify-duplexed", "::mlir::func::FuncOp"> {
  let summary = "Checks the exit of the duplex stage: plain tensors, strands of the mesh, updates once";
  let description = [{
    The exit of the stage.
  }];
}

#endif // TANDEM_TRANSFORMS_DUPLEX_PASSES_TD
