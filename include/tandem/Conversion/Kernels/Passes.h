//===- Passes.h - pipeline of a kernel --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `compileKernels` does to a kernel, in this order, as passes of
// `tandem-opt`:
//
//  --tandem-decompose-nn, --tandem-nn-to-linalg  (NNToLinalg.h)
//  --tandem-kernels-to-loops   functions of linalg become loops on pointers
//  --tandem-fast-math          what may be done to floating-point arithmetic
//  --tandem-approximate-math   exp, log, tanh, erf on f32 as polynomials
//  --tandem-kernels-to-llvm    the llvm dialect
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_KERNELS_PASSES_H
#define TANDEM_CONVERSION_KERNELS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace tandem {

#define GEN_PASS_DECL
#include "tandem/Conversion/Kernels/Passes.h.inc"

/// The dialects that these passes read and write, beside nn, spmd and func.
void registerKernelDialects(mlir::DialectRegistry &registry);

/// Registers the passes, and those of NNToLinalg.h, with `tandem-opt`.
void registerKernelPasses();

} // namespace tandem

#endif // TANDEM_CONVERSION_KERNELS_PASSES_H
