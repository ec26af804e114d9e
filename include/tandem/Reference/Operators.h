//===- Operators.h - semantics of nn operators ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of the nn operators, in the plainest code: double precision
// (64-bit integers) inside an operator, rounded to the element type at its end.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_OPERATORS_H
#define TANDEM_REFERENCE_OPERATORS_H

#include "mlir/IR/Operation.h"
#include "tandem/Reference/Tensor.h"

namespace tandem::reference {

/// The part of a tensor that one point holds: its shape, and where it begins in
/// the whole tensor of shape `whole`.
struct Part {
  llvm::SmallVector<int64_t, 4> shape, offsets, whole;

  /// All of a tensor of `shape`.
  static Part all(llvm::ArrayRef<int64_t> shape);
};

/// Runs the nn operator `op` on one point. The shapes are those of `operands`
/// and `results`, not those in the types of `op`, of which only the element
/// types are read. Operators that must know where they are (iota, embedding and
/// its gradient) find that in the parts. An error at run time (an index out of
/// range, an integer division by zero) is reported at `op`.
mlir::FailureOr<std::vector<Tensor>> evaluate(mlir::Operation *op,
                                              llvm::ArrayRef<TensorRef> values,
                                              llvm::ArrayRef<Part> operands,
                                              llvm::ArrayRef<Part> results);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_OPERATORS_H
