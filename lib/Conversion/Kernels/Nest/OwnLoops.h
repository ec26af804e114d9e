//===- OwnLoops.h - loops of single operators -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_OWNLOOPS_H
#define TANDEM_LIB_CONVERSION_KERNELS_OWNLOOPS_H

#include "Nest/KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/NN/Scalar.h"

namespace tandem {

/// A tensor as (outer, size, inner) around one dimension.
struct Around {
  Around(mlir::Value value, int64_t dim) {
    auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
    for (auto [at, extent] : llvm::enumerate(type.getShape())) {
      int64_t position = at;
      (position < dim ? outer : position == dim ? size : inner) *= extent;
    }
  }
  int64_t outer = 1, size = 1, inner = 1;
};

/// What the writers of loops have in common.
class OwnLoopEmitter {
public:
  explicit OwnLoopEmitter(KernelEmitter &kernel)
      : k(kernel), b(kernel.builder), loc(kernel.loc) {}

protected:
  using Value = mlir::Value;

  Value add(Value x, Value y) {
    return mlir::arith::AddIOp::create(b, loc, x, y);
  }
  Value mul(Value x, int64_t y) {
    return mlir::arith::MulIOp::create(b, loc, x, k.constant(y));
  }
  Value plus(Value x, Value y) {
    if (mlir::isa<mlir::FloatType>(x.getType()))
      return mlir::arith::AddFOp::create(b, loc, x, y);
    return add(x, y);
  }
  Value both(Value x, Value y) {
    return mlir::arith::AndIOp::create(b, loc, x, y);
  }
  Value either(Value x, Value y) {
    return mlir::arith::OrIOp::create(b, loc, x, y);
  }
  Value compare(mlir::arith::CmpIPredicate predicate, Value x, Value y) {
    return mlir::arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return mlir::arith::SelectOp::create(b, loc, condition, x, y);
  }
  static mlir::Type getElementType(Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  }
  /// In the type in which it is computed.
  Value load(Value tensor, Value at) {
    return widen(b, loc,
                 k.load(k.getMemory(tensor), at, getElementType(tensor)));
  }
  void storeTo(Value tensor, Value at, Value value) {
    k.store(k.getMemory(tensor), at,
            narrow(b, loc, value, getElementType(tensor)));
  }

  KernelEmitter &k;
  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_OWNLOOPS_H
