//===- NNToLinalg.h - nn operators as linalg --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two passes on the functions of kernels, which work on any tensors without
// forms:
//
//  --tandem-decompose-nn   softmax, layer_norm and their gradients become
//                          reductions and elementwise operators
//  --tandem-nn-to-linalg   each operator becomes a `linalg.generic`
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_NNTOLINALG_NNTOLINALG_H
#define TANDEM_CONVERSION_NNTOLINALG_NNTOLINALG_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace tandem {

/// Replaces operators that need a whole row by primitive ones. In bf16 and f16
/// these compute in f32, and the results are rounded once.
void decomposeNN(mlir::func::FuncOp function);

/// Replaces every nn and spmd operator of a decomposed function by a
/// `linalg.generic` on tensors, but for
///  - `nn.reshape`, and `nn.constant` that is no splat,
///  - operators with a loop of their own: `cumsum`, `topk`, `scatter_add`,
///    `embedding_backward`, and additions that these do (`RowSum`),
///  - `spmd.coordinate`.
/// Narrow floating-point types are computed in f32 and rounded where a value is
/// stored. An index that is out of range calls `@tandem_report_index` with the
/// operator's number among those that read indices, the index and its bound,
/// and element 0 is read instead. Operators that remain carry their number as
/// attribute `site`.
/// A random operator asks `@tandem_launch_ordinal` for the ordinal with a
/// number (see `numberOrdinals`), which the launch of the kernel gives. Fails,
/// with an error at the operator, where there is no kernel for it.
mlir::LogicalResult convertNNToLinalg(mlir::func::FuncOp function);

/// Puts their numbers, from 0 on as they first come, in the place of the
/// ordinals of the function's random operators, and returns the ordinals.
std::vector<int64_t> numberOrdinals(mlir::func::FuncOp function);

/// Name of the function that a body calls where an index is out of range.
constexpr llvm::StringLiteral kReportIndexName = "tandem_report_index";
/// Name of the function by which a body gets an ordinal of its launch.
constexpr llvm::StringLiteral kLaunchOrdinalName = "tandem_launch_ordinal";
/// The number of an operator that reads indices.
int64_t getSite(mlir::Operation *op);

#define GEN_PASS_DECL
#include "tandem/Conversion/NNToLinalg/Passes.h.inc"

/// Registers both with `tandem-opt`.
void registerNNToLinalg();

} // namespace tandem

#endif // TANDEM_CONVERSION_NNTOLINALG_NNTOLINALG_H
