//===- Scalar.h - arithmetic on one element ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In what an elementwise operator says it computes (`let scalar` of its
// definition, `ScalarOpInterface`), and a piece where it reads (`let source`).
// Kernels follow from these.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_SCALAR_H
#define TANDEM_DIALECT_NN_SCALAR_H

#include "mlir/IR/Builders.h"
#include "tandem/Dialect/NN/NN.h"

namespace tandem {

/// The type in which values stored as `type` are computed: f32 for bf16 and
/// f16, else `type` itself.
mlir::Type getComputeType(mlir::Type type);

/// `value` widened from its storage type, or rounded to it.
mlir::Value widen(mlir::OpBuilder &builder, mlir::Location loc,
                  mlir::Value value);
mlir::Value narrow(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value value, mlir::Type stored);

mlir::Value constantScalar(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Type type, double value);

namespace nn {

/// The domains of elementwise operators.
inline bool isAny(mlir::Type) { return true; }
inline bool isFloat(mlir::Type type) {
  return mlir::isa<mlir::FloatType>(type);
}
inline bool isBool(mlir::Type type) { return type.isInteger(1); }
inline bool isInteger(mlir::Type type) { return !isFloat(type); }

/// Writes arithmetic on scalars of one type: integer, index or floating-point.
class Scalar {
public:
  using Value = mlir::Value;

  Scalar(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type)
      : b(builder), loc(loc), type(type) {}
  virtual ~Scalar() = default;

  bool isFloat() const { return nn::isFloat(type); }
  bool isBool() const { return nn::isBool(type); }
  bool isInteger() const { return nn::isInteger(type); }

  Value constant(double value) { return constantScalar(b, loc, type, value); }
  /// An operator of `arith` or `math`, whose result has the type of `args`.
  template <typename OpTy, typename... Args> Value make(Args... args) {
    return OpTy::create(b, loc, args...);
  }
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value scale(Value x, double by) { return mul(x, constant(by)); }
  Value neg(Value x);
  Value abs(Value x);
  Value sqrt(Value x);
  Value exp(Value x);
  Value select(Value condition, Value x, Value y);
  Value compare(Predicate predicate, Value x, Value y);
  Value div(Value x, Value y);
  Value remainder(Value x, Value y);
  Value floorDivide(Value x, Value y);
  Value power(Value x, Value y);
  Value maximum(Value x, Value y);
  Value minimum(Value x, Value y);
  Value sign(Value x);
  /// The nearest integer in a direction; an integer is its own.
  Value floor(Value x);
  Value ceil(Value x);
  Value round(Value x);
  /// Bits, or truth.
  Value bitAnd(Value x, Value y);
  Value bitOr(Value x, Value y);
  Value bitXor(Value x, Value y);
  Value sigmoid(Value x);
  Value silu(Value x);
  Value siluBackward(Value dy, Value x);
  Value gelu(Value x, bool tanh);
  Value geluBackward(Value dy, Value x, bool tanh);
  /// As `nn.convert` says, in the type in which `to` is computed.
  Value convert(Value x, mlir::Type to);
  /// The random bits of element `index`, as `nn.philox` says. All are i64.
  Value philox(Value index, Value seed, Value step, Value ordinal);
  /// The ordinal of a random operator, of which a kernel may be told by others.
  virtual Value getOrdinal(int64_t ordinal);

protected:
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type;

private:
  template <typename FloatOp, typename IntegerOp>
  Value binary(Value lhs, Value rhs);
  Value divideIntegers(Value x, Value y, bool remainder);
  /// Whether a division by `y` that leaves `rest` rounded up in cutting off.
  Value isAboveFloor(Value rest, Value y);
  Value powerOfInteger(Value x, Value y);
  /// tanh(sqrt(2 / pi) * (x + 0.044715 x^3)).
  Value geluTanh(Value x);
};

} // namespace nn
} // namespace tandem

#endif // TANDEM_DIALECT_NN_SCALAR_H
