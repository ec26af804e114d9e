//===- Passes.td - passes of NNToLinalg -------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_NNTOLINALG_PASSES_TD
#define TANDEM_CONVERSION_NNTOLINALG_PASSES_TD

include "mlir/Pass/PassBase.td"

def DecomposeNNPass : Pass<"tandem-decompose-nn", "::mlir::func::FuncOp"> {
  let summary = "softmax, layer_norm and their gradients become reductions and elementwise operators";
  let description = [{
    softmax, layer_norm and their gradients become reductions and
    elementwise operators.
  }];
}

def NNToLinalgPass : Pass<"tandem-nn-to-linalg", "::mlir::ModuleOp"> {
  let summary = "each nn operator of a kernel becomes a linalg.generic";
  let description = [{
    each nn operator of a kernel becomes a linalg.generic.
  }];
}

#endif // TANDEM_CONVERSION_NNTOLINALG_PASSES_TD
