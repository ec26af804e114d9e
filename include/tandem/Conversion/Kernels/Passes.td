//===- Passes.td - passes of Kernels -------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_KERNELS_PASSES_TD
#define TANDEM_CONVERSION_KERNELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ApproximateMathPass : Pass<"tandem-approximate-math", "::mlir::ModuleOp"> {
  let summary = "exp, log, tanh and erf on f32 become polynomials";
  let description = [{
    exp, log, tanh and erf on f32 become polynomials.
  }];
}

def FastMathPass : Pass<"tandem-fast-math", "::mlir::ModuleOp"> {
  let summary = "lets sums of loops be reordered and fused with their products";
  let description = [{
    lets sums that a loop carries be added in any order, and fused with products that are their terms.
  }];
}

def KernelsToLLVMPass : Pass<"tandem-kernels-to-llvm", "::mlir::ModuleOp"> {
  let summary = "loops on pointers become the llvm dialect";
  let description = [{
    loops on pointers become the llvm dialect.
  }];
}

def KernelsToLoopsPass : Pass<"tandem-kernels-to-loops", "::mlir::ModuleOp"> {
  let summary = "functions of linalg become nests of loops on pointers";
  let description = [{
    functions of linalg become nests of loops on pointers.
  }];
}

#endif // TANDEM_CONVERSION_KERNELS_PASSES_TD
