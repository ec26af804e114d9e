//===- Scalars.cpp - what an elementwise operator does to one element -----===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scalars.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numbers>

using namespace mlir;
using namespace tandem;

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

Value tandem::convertScalar(OpBuilder &b, Location loc, Value value, Type to) {
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
  return arith::TruncFOp::create(b, loc, to, value);
}

//===----------------------------------------------------------------------===//
// Writing scalars
//===----------------------------------------------------------------------===//

namespace {

/// Writes arithmetic on scalars of one type, integer or floating-point.
class Scalar {
public:
  Scalar(OpBuilder &builder, Location loc, Type type)
      : b(builder), loc(loc), type(type) {}

  bool isFloat() const { return isa<FloatType>(type); }
  bool isBool() const { return type.isInteger(1); }

  Value constant(double value) { return constantScalar(b, loc, type, value); }
  template <typename OpTy> Value make(ValueRange args) {
    return OpTy::create(b, loc, TypeRange{type}, args,
                        ArrayRef<NamedAttribute>{});
  }
  template <typename FloatOp, typename IntegerOp>
  Value binary(Value lhs, Value rhs) {
    if (isFloat())
      return FloatOp::create(b, loc, lhs, rhs);
    return IntegerOp::create(b, loc, lhs, rhs);
  }
  Value add(Value x, Value y) {
    return binary<arith::AddFOp, arith::AddIOp>(x, y);
  }
  Value sub(Value x, Value y) {
    return binary<arith::SubFOp, arith::SubIOp>(x, y);
  }
  Value mul(Value x, Value y) {
    return binary<arith::MulFOp, arith::MulIOp>(x, y);
  }
  Value scale(Value x, double by) { return mul(x, constant(by)); }
  Value exp(Value x) { return math::ExpOp::create(b, loc, x); }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }
  Value compare(nn::Predicate predicate, Value x, Value y);
  Value div(Value x, Value y);
  Value remainder(Value x, Value y);
  Value floorDivide(Value x, Value y);
  Value power(Value x, Value y);
  Value maximum(Value x, Value y);
  Value minimum(Value x, Value y);
  Value sigmoid(Value x);
  Value gelu(Value x, bool tanh);
  Value geluBackward(Value dy, Value x, bool tanh);

private:
  Value divideIntegers(Value x, Value y, bool remainder);
  /// Whether a division by `y` that leaves `rest` rounded up in cutting off.
  Value isAboveFloor(Value rest, Value y);
  Value powerOfInteger(Value x, Value y);
  /// tanh(sqrt(2 / pi) * (x + 0.044715 x^3)).
  Value geluTanh(Value x);

  OpBuilder &b;
  Location loc;
  Type type;
};

} // namespace

/// Ordered, but for `ne`, which holds where one is NaN.
static arith::CmpFPredicate getFloatPredicate(nn::Predicate predicate) {
  using F = arith::CmpFPredicate;
  constexpr F predicates[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  return predicates[static_cast<unsigned>(predicate)];
}

static arith::CmpIPredicate getIntegerPredicate(nn::Predicate predicate,
                                                bool isSigned) {
  using I = arith::CmpIPredicate;
  constexpr I ofSigned[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  constexpr I ofUnsigned[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  return (isSigned ? ofSigned : ofUnsigned)[static_cast<unsigned>(predicate)];
}

Value Scalar::compare(nn::Predicate predicate, Value x, Value y) {
  if (isFloat())
    return arith::CmpFOp::create(b, loc, getFloatPredicate(predicate), x, y);
  return arith::CmpIOp::create(
      b, loc, getIntegerPredicate(predicate, /*isSigned=*/!isBool()), x, y);
}

/// A processor traps on x / 0 and on INT_MIN / -1, a kernel must not: the one
/// gives 0 (remainder x), the other wraps.
Value Scalar::divideIntegers(Value x, Value y, bool remainder) {
  Value zero = constant(0), one = constant(1);
  Value isZero = compare(nn::Predicate::Eq, y, zero);
  Value isMinusOne = compare(nn::Predicate::Eq, y, constant(-1));
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
      arith::XOrIOp::create(b, loc, compare(nn::Predicate::Lt, rest, zero),
                            compare(nn::Predicate::Lt, y, zero));
  return arith::AndIOp::create(b, loc, differs,
                               compare(nn::Predicate::Ne, rest, zero));
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
  return select(compare(nn::Predicate::Eq, y, constant(0)), div(x, y), floor);
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
        compare(nn::Predicate::Ne,
                arith::AndIOp::create(b, loc, rest, constant(1)), constant(0));
    scf::YieldOp::create(
        b, loc,
        ValueRange{select(odd, mul(product, base), product), mul(base, base),
                   arith::ShRUIOp::create(b, loc, rest, constant(1))});
  }
  // 1 / x is 0 but for x = 1 and x = -1, where it is x to the power of -y.
  Value parity =
      compare(nn::Predicate::Ne, arith::AndIOp::create(b, loc, y, constant(1)),
              constant(0));
  Value isOne = compare(nn::Predicate::Eq, x, constant(1));
  Value isMinusOne = compare(nn::Predicate::Eq, x, constant(-1));
  Value inverse = select(isMinusOne, select(parity, constant(-1), constant(1)),
                         select(isOne, constant(1), constant(0)));
  return select(compare(nn::Predicate::Lt, y, constant(0)), inverse,
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
  Value negated = arith::NegFOp::create(b, loc, x);
  return div(constant(1), add(constant(1), exp(negated)));
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

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

static Value emitSign(Scalar &s, OpBuilder &b, Location loc, Value x) {
  Value zero = s.constant(0), one = s.constant(1);
  Value positive = s.select(s.compare(nn::Predicate::Gt, x, zero), one, zero);
  return s.select(s.compare(nn::Predicate::Lt, x, zero), s.constant(-1),
                  positive);
}

/// Operators on floating-point numbers only.
static Value emitFloat(Scalar &s, OpBuilder &b, Operation *op,
                       ValueRange args) {
  Location loc = op->getLoc();
  Value x = args[0];
  Value one = s.constant(1);
  auto unary = [&]<typename OpTy>(OpTy *) -> Value {
    return OpTy::create(b, loc, x);
  };
#define TANDEM_UNARY(NN, MATH)                                                 \
  Case([&](nn::NN) { return unary(static_cast<math::MATH *>(nullptr)); })
  return llvm::TypeSwitch<Operation *, Value>(op)
      .TANDEM_UNARY(ExpOp, ExpOp)
      .TANDEM_UNARY(LogOp, LogOp)
      .TANDEM_UNARY(Exp2Op, Exp2Op)
      .TANDEM_UNARY(Log2Op, Log2Op)
      .TANDEM_UNARY(Log10Op, Log10Op)
      .TANDEM_UNARY(Log1pOp, Log1pOp)
      .TANDEM_UNARY(Expm1Op, ExpM1Op)
      .TANDEM_UNARY(SqrtOp, SqrtOp)
      .TANDEM_UNARY(SinOp, SinOp)
      .TANDEM_UNARY(CosOp, CosOp)
      .TANDEM_UNARY(TanhOp, TanhOp)
      .TANDEM_UNARY(ErfOp, ErfOp)
      .TANDEM_UNARY(ErfcOp, ErfcOp)
      .TANDEM_UNARY(FloorOp, FloorOp)
      .TANDEM_UNARY(CeilOp, CeilOp)
      .TANDEM_UNARY(RoundOp, RoundEvenOp)
      .Case([&](nn::RsqrtOp) {
        return s.div(one, math::SqrtOp::create(b, loc, x));
      })
      .Case([&](nn::ReciprocalOp) { return s.div(one, x); })
      .Case([&](nn::SigmoidOp) { return s.sigmoid(x); })
      .Case([&](nn::SiluOp) {
        Value negated = arith::NegFOp::create(b, loc, x);
        return s.div(x, s.add(one, s.exp(negated)));
      })
      .Case([&](nn::GeluOp gelu) {
        return s.gelu(x, gelu.getApproximate() == nn::Approximate::Tanh);
      })
      .Case([&](nn::GeluBackwardOp gelu) {
        return s.geluBackward(x, args[1],
                              gelu.getApproximate() == nn::Approximate::Tanh);
      })
      .Case([&](nn::SiluBackwardOp) {
        Value sigmoid = s.sigmoid(args[1]);
        Value slope = s.add(one, s.mul(args[1], s.sub(one, sigmoid)));
        return s.mul(x, s.mul(sigmoid, slope));
      })
      .Case([&](nn::Atan2Op) {
        return math::Atan2Op::create(b, loc, x, args[1]);
      })
      .Default([](Operation *) { return Value(); });
#undef TANDEM_UNARY
}

/// Operators on integers and booleans only.
static Value emitInteger(Scalar &s, OpBuilder &b, Operation *op,
                         ValueRange args) {
  Location loc = op->getLoc();
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](nn::LogicalNotOp) -> Value {
        if (s.isBool())
          return arith::XOrIOp::create(b, loc, args[0], s.constant(1));
        return Value();
      })
      .Case([&](nn::LogicalAndOp) {
        return arith::AndIOp::create(b, loc, args[0], args[1]);
      })
      .Case([&](nn::LogicalOrOp) {
        return arith::OrIOp::create(b, loc, args[0], args[1]);
      })
      .Case([&](nn::LogicalXorOp) {
        return arith::XOrIOp::create(b, loc, args[0], args[1]);
      })
      .Case<nn::FloorOp, nn::CeilOp, nn::RoundOp>([&](auto) { return args[0]; })
      .Default([](Operation *) { return Value(); });
}

Value tandem::emitScalar(OpBuilder &b, Operation *op, ValueRange args) {
  Location loc = op->getLoc();
  Scalar s(b, loc, args.back().getType());
  Value x = args[0];
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  Value result =
      llvm::TypeSwitch<Operation *, Value>(op)
          .Case([&](nn::AddOp) { return s.add(x, args[1]); })
          .Case([&](nn::SubOp) { return s.sub(x, args[1]); })
          .Case([&](nn::MulOp) { return s.mul(x, args[1]); })
          .Case([&](nn::DivOp) { return s.div(x, args[1]); })
          .Case([&](nn::PowOp) { return s.power(x, args[1]); })
          .Case([&](nn::MaximumOp) { return s.maximum(x, args[1]); })
          .Case([&](nn::MinimumOp) { return s.minimum(x, args[1]); })
          .Case([&](nn::RemainderOp) { return s.remainder(x, args[1]); })
          .Case([&](nn::FloorDivideOp) { return s.floorDivide(x, args[1]); })
          .Case([&](nn::ReluOp) { return s.maximum(x, s.constant(0)); })
          .Case([&](nn::SignOp) { return emitSign(s, b, loc, x); })
          .Case([&](nn::NegOp) -> Value {
            if (s.isFloat())
              return arith::NegFOp::create(b, loc, x);
            return s.sub(s.constant(0), x);
          })
          .Case([&](nn::AbsOp) -> Value {
            if (s.isFloat())
              return math::AbsFOp::create(b, loc, x);
            return math::AbsIOp::create(b, loc, x);
          })
          .Case([&](nn::CompareOp compare) {
            return s.compare(compare.getPredicate(), x, args[1]);
          })
          .Case([&](nn::SelectOp) { return s.select(x, args[1], args[2]); })
          .Case([&](nn::ConvertOp) {
            return convertScalar(b, loc, x,
                                 getComputeType(type.getElementType()));
          })
          .Case([&](nn::PhiloxOp philox) {
            return emitPhilox(b, loc, x, args[1], args[2], philox.getOrdinal());
          })
          .Default([](Operation *) { return Value(); });
  if (result)
    return result;
  return s.isFloat() ? emitFloat(s, b, op, args) : emitInteger(s, b, op, args);
}
