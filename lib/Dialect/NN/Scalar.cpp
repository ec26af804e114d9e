//===- Scalar.cpp - arithmetic on one element -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/Scalar.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/NN/Rounding.h"
#include <numbers>

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

Type tandem::getComputeType(Type type) {
  if (isa<BFloat16Type, Float16Type>(type))
    return Float32Type::get(type.getContext());
  return type;
}

Value tandem::widen(OpBuilder &builder, Location loc, Value value) {
  Type type = getComputeType(value.getType());
  if (type == value.getType())
    return value;
  return arith::ExtFOp::create(builder, loc, type, value);
}

Value tandem::narrow(OpBuilder &builder, Location loc, Value value,
                     Type stored) {
  if (value.getType() == stored)
    return value;
  return arith::TruncFOp::create(builder, loc, stored, value);
}

Value tandem::constantScalar(OpBuilder &builder, Location loc, Type type,
                             double value) {
  TypedAttr attr;
  if (isa<FloatType>(type))
    attr = builder.getFloatAttr(type, value);
  else
    attr = builder.getIntegerAttr(type, static_cast<int64_t>(value));
  return arith::ConstantOp::create(builder, loc, attr);
}

static Value convertToInteger(OpBuilder &b, Location loc, Value value,
                              IntegerType to) {
  Type from = value.getType();
  if (to.getWidth() == 1) {
    Value zero = constantScalar(b, loc, from, 0);
    if (isa<FloatType>(from))
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, value,
                                   zero);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
  }
  if (isa<FloatType>(from))
    return arith::FPToSIOp::create(b, loc, to, value);
  if (from.getIntOrFloatBitWidth() > to.getWidth())
    return arith::TruncIOp::create(b, loc, to, value);
  if (from.isInteger(1))
    return arith::ExtUIOp::create(b, loc, to, value);
  return arith::ExtSIOp::create(b, loc, to, value);
}

/// Rounded also where a kernel widens it again.
static Value roundTo(OpBuilder &b, Location loc, Value value, Type to) {
  auto rounded = arith::TruncFOp::create(b, loc, to, value);
  rounded->setDiscardableAttr(kRoundsAttr, b.getUnitAttr());
  return rounded;
}

/// The value in the compute type of `to`, not yet rounded to that.
static Value convertToCompute(OpBuilder &b, Location loc, Value value,
                              Type to) {
  Type from = value.getType();
  if (from == to)
    return value;
  if (auto integer = dyn_cast<IntegerType>(to))
    return convertToInteger(b, loc, value, integer);
  if (from.isInteger(1))
    return arith::UIToFPOp::create(b, loc, to, value);
  if (isa<IntegerType>(from))
    return arith::SIToFPOp::create(b, loc, to, value);
  if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(b, loc, to, value);
  return roundTo(b, loc, value, to);
}

Value Scalar::convert(Value value, Type stored) {
  Type to = getComputeType(stored);
  Value converted = convertToCompute(b, loc, value, to);
  if (to == stored)
    return converted;
  return arith::ExtFOp::create(b, loc, to, roundTo(b, loc, converted, stored));
}

//===----------------------------------------------------------------------===//
// Integers and floating point
//===----------------------------------------------------------------------===//

template <typename FloatOp, typename IntegerOp>
Value Scalar::binary(Value lhs, Value rhs) {
  if (isFloat())
    return FloatOp::create(b, loc, lhs, rhs);
  return IntegerOp::create(b, loc, lhs, rhs);
}

Value Scalar::add(Value x, Value y) {
  return binary<arith::AddFOp, arith::AddIOp>(x, y);
}

Value Scalar::sub(Value x, Value y) {
  return binary<arith::SubFOp, arith::SubIOp>(x, y);
}

Value Scalar::mul(Value x, Value y) {
  return binary<arith::MulFOp, arith::MulIOp>(x, y);
}

Value Scalar::neg(Value x) {
  if (isFloat())
    return arith::NegFOp::create(b, loc, x);
  return sub(constant(0), x);
}

Value Scalar::abs(Value x) {
  if (isFloat())
    return math::AbsFOp::create(b, loc, x);
  return math::AbsIOp::create(b, loc, x);
}

Value Scalar::getOrdinal(int64_t ordinal) {
  return arith::ConstantIntOp::create(b, loc, b.getI64Type(), ordinal);
}

Value Scalar::sqrt(Value x) { return math::SqrtOp::create(b, loc, x); }
Value Scalar::exp(Value x) { return math::ExpOp::create(b, loc, x); }

Value Scalar::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, loc, condition, x, y);
}

Value Scalar::floor(Value x) {
  return isFloat() ? Value(math::FloorOp::create(b, loc, x)) : x;
}

Value Scalar::ceil(Value x) {
  return isFloat() ? Value(math::CeilOp::create(b, loc, x)) : x;
}

Value Scalar::round(Value x) {
  return isFloat() ? Value(math::RoundEvenOp::create(b, loc, x)) : x;
}

Value Scalar::bitAnd(Value x, Value y) {
  return arith::AndIOp::create(b, loc, x, y);
}

Value Scalar::bitOr(Value x, Value y) {
  return arith::OrIOp::create(b, loc, x, y);
}

Value Scalar::bitXor(Value x, Value y) {
  return arith::XOrIOp::create(b, loc, x, y);
}

/// Ordered, but for `ne`, which holds where one is NaN.
static arith::CmpFPredicate getFloatPredicate(Predicate predicate) {
  using F = arith::CmpFPredicate;
  constexpr F predicates[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  return predicates[static_cast<unsigned>(predicate)];
}

static arith::CmpIPredicate getIntegerPredicate(Predicate predicate,
                                                bool isSigned) {
  using I = arith::CmpIPredicate;
  constexpr I ofSigned[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  constexpr I ofUnsigned[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  return (isSigned ? ofSigned : ofUnsigned)[static_cast<unsigned>(predicate)];
}

Value Scalar::compare(Predicate predicate, Value x, Value y) {
  if (isFloat())
    return arith::CmpFOp::create(b, loc, getFloatPredicate(predicate), x, y);
  return arith::CmpIOp::create(
      b, loc, getIntegerPredicate(predicate, /*isSigned=*/!isBool()), x, y);
}

/// A processor traps on x / 0 and on INT_MIN / -1, a kernel must not: the one
/// gives 0 (remainder x), the other wraps.
Value Scalar::divideIntegers(Value x, Value y, bool remainder) {
  Value zero = constant(0), one = constant(1);
  Value isZero = compare(Predicate::Eq, y, zero);
  Value isMinusOne = compare(Predicate::Eq, y, constant(-1));
  Value safe = select(isZero, one, select(isMinusOne, one, y));
  if (remainder) {
    Value rest = arith::RemSIOp::create(b, loc, x, safe);
    return select(isZero, x, rest);
  }
  Value quotient = arith::DivSIOp::create(b, loc, x, safe);
  return select(isZero, zero, select(isMinusOne, sub(zero, x), quotient));
}

Value Scalar::div(Value x, Value y) {
  if (isFloat())
    return arith::DivFOp::create(b, loc, x, y);
  return divideIntegers(x, y, /*remainder=*/false);
}

Value Scalar::isAboveFloor(Value rest, Value y) {
  Value zero = constant(0);
  Value differs =
      arith::XOrIOp::create(b, loc, compare(Predicate::Lt, rest, zero),
                            compare(Predicate::Lt, y, zero));
  return arith::AndIOp::create(b, loc, differs,
                               compare(Predicate::Ne, rest, zero));
}

Value Scalar::remainder(Value x, Value y) {
  Value rest = isFloat() ? Value(arith::RemFOp::create(b, loc, x, y))
                         : divideIntegers(x, y, /*remainder=*/true);
  return select(isAboveFloor(rest, y), add(rest, y), rest);
}

Value Scalar::floorDivide(Value x, Value y) {
  Value rest, quotient;
  if (isFloat()) {
    // The floor of a rounded quotient can be one too large (-1.5 / 0.3); what
    // the remainder, which is exact, leaves is a multiple of y.
    rest = arith::RemFOp::create(b, loc, x, y);
    quotient = math::RoundEvenOp::create(b, loc, div(sub(x, rest), y));
  } else {
    rest = divideIntegers(x, y, /*remainder=*/true);
    quotient = div(x, y);
  }
  Value floor =
      select(isAboveFloor(rest, y), sub(quotient, constant(1)), quotient);
  if (!isFloat())
    return floor;
  return select(compare(Predicate::Eq, y, constant(0)), div(x, y), floor);
}

/// By squaring, over the bits of the exponent. A negative exponent gives 1 / x,
/// truncated.
Value Scalar::powerOfInteger(Value x, Value y) {
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  Value bits =
      arith::ConstantIndexOp::create(b, loc, type.getIntOrFloatBitWidth());
  Value step = arith::ConstantIndexOp::create(b, loc, 1);
  auto loop = scf::ForOp::create(b, loc, zero, bits, step,
                                 ValueRange{constant(1), x, y});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value product = loop.getRegionIterArg(0), base = loop.getRegionIterArg(1);
    Value rest = loop.getRegionIterArg(2);
    Value odd =
        compare(Predicate::Ne, arith::AndIOp::create(b, loc, rest, constant(1)),
                constant(0));
    scf::YieldOp::create(
        b, loc,
        ValueRange{select(odd, mul(product, base), product), mul(base, base),
                   arith::ShRUIOp::create(b, loc, rest, constant(1))});
  }
  // 1 / x is 0 but for x = 1 and x = -1, where it is x to the power of -y.
  Value parity =
      compare(Predicate::Ne, arith::AndIOp::create(b, loc, y, constant(1)),
              constant(0));
  Value isOne = compare(Predicate::Eq, x, constant(1));
  Value isMinusOne = compare(Predicate::Eq, x, constant(-1));
  Value inverse = select(isMinusOne, select(parity, constant(-1), constant(1)),
                         select(isOne, constant(1), constant(0)));
  return select(compare(Predicate::Lt, y, constant(0)), inverse,
                loop.getResult(0));
}

Value Scalar::power(Value x, Value y) {
  if (isFloat())
    return math::PowFOp::create(b, loc, x, y);
  return powerOfInteger(x, y);
}

Value Scalar::maximum(Value x, Value y) {
  if (isBool())
    return arith::OrIOp::create(b, loc, x, y);
  return binary<arith::MaximumFOp, arith::MaxSIOp>(x, y);
}

Value Scalar::minimum(Value x, Value y) {
  if (isBool())
    return arith::AndIOp::create(b, loc, x, y);
  return binary<arith::MinimumFOp, arith::MinSIOp>(x, y);
}

Value Scalar::sigmoid(Value x) {
  return div(constant(1), add(constant(1), exp(neg(x))));
}

Value Scalar::geluTanh(Value x) {
  Value cube = mul(mul(x, x), x);
  Value inner = add(x, scale(cube, 0.044715));
  double root = std::sqrt(2.0 / std::numbers::pi);
  return math::TanhOp::create(b, loc, scale(inner, root));
}

Value Scalar::gelu(Value x, bool tanh) {
  Value inner = tanh ? geluTanh(x)
                     : Value(math::ErfOp::create(
                           b, loc, scale(x, 1.0 / std::numbers::sqrt2)));
  return mul(scale(x, 0.5), add(constant(1), inner));
}

Value Scalar::geluBackward(Value dy, Value x, bool tanh) {
  if (!tanh) {
    Value erf =
        math::ErfOp::create(b, loc, scale(x, 1.0 / std::numbers::sqrt2));
    Value cdf = scale(add(constant(1), erf), 0.5);
    double norm = 1.0 / std::sqrt(2.0 * std::numbers::pi);
    Value pdf = scale(exp(scale(mul(x, x), -0.5)), norm);
    return mul(dy, add(cdf, mul(x, pdf)));
  }
  Value t = geluTanh(x);
  double root = std::sqrt(2.0 / std::numbers::pi);
  Value inner = scale(add(constant(1), scale(mul(x, x), 3 * 0.044715)), root);
  Value left = scale(add(constant(1), t), 0.5);
  Value right = mul(scale(x, 0.5), mul(sub(constant(1), mul(t, t)), inner));
  return mul(dy, add(left, right));
}

Value Scalar::silu(Value x) { return div(x, add(constant(1), exp(neg(x)))); }

Value Scalar::siluBackward(Value dy, Value x) {
  Value part = sigmoid(x);
  Value slope = add(constant(1), mul(x, sub(constant(1), part)));
  return mul(dy, mul(part, slope));
}

Value Scalar::sign(Value x) {
  Value zero = constant(0), one = constant(1);
  Value positive = select(compare(Predicate::Gt, x, zero), one, zero);
  return select(compare(Predicate::Lt, x, zero), constant(-1), positive);
}
