//===- GpuMath.cpp - math functions without GPU library -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// pow of f32 and f64, which scalars of optimizers have, and exp2, log2, log10,
// sin and cos of f32, which are the C library's on a CPU. What is of f32 is
// computed in f64, whose error is far below its last place, so that results are
// rounded once. Series are those of Taylor, cut where the next term is below
// the last place of the sum.
//
//===----------------------------------------------------------------------===//

#include "Gpu/GpuCode.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace tandem;

namespace {
using FloatTest = arith::CmpFPredicate;
using IntTest = arith::CmpIPredicate;

/// Writes arithmetic on f64 and i64.
class WideWriter {
public:
  explicit WideWriter(Operation *op) : b(op), loc(op->getLoc()) {}

  Value number(double value) {
    return arith::ConstantOp::create(b, loc, b.getF64FloatAttr(value));
  }
  Value integer(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  Value widen(Value x) {
    return arith::ExtFOp::create(b, loc, b.getF64Type(), x);
  }
  Value narrow(Value x) {
    return arith::TruncFOp::create(b, loc, b.getF32Type(), x);
  }
  template <typename Op> Value make(Value x, Value y) {
    return Op::create(b, loc, x, y);
  }
  Value add(Value x, Value y) { return make<arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return make<arith::SubFOp>(x, y); }
  Value mul(Value x, Value y) { return make<arith::MulFOp>(x, y); }
  Value div(Value x, Value y) { return make<arith::DivFOp>(x, y); }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }
  Value neg(Value x) { return arith::NegFOp::create(b, loc, x); }
  Value abs(Value x) { return math::AbsFOp::create(b, loc, x); }
  Value floor(Value x) { return math::FloorOp::create(b, loc, x); }
  Value test(FloatTest predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value test(IntTest predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value both(Value x, Value y) { return make<arith::AndIOp>(x, y); }
  Value either(Value x, Value y) { return make<arith::OrIOp>(x, y); }
  Value differ(Value x, Value y) { return make<arith::XOrIOp>(x, y); }
  Value plus(Value x, Value y) { return make<arith::AddIOp>(x, y); }
  Value minus(Value x, Value y) { return make<arith::SubIOp>(x, y); }
  Value times(Value x, Value y) { return make<arith::MulIOp>(x, y); }
  Value left(Value x, Value y) { return make<arith::ShLIOp>(x, y); }
  Value right(Value x, Value y) { return make<arith::ShRUIOp>(x, y); }
  Value toBits(Value x) {
    return arith::BitcastOp::create(b, loc, b.getI64Type(), x);
  }
  Value fromBits(Value x) {
    return arith::BitcastOp::create(b, loc, b.getF64Type(), x);
  }
  /// The bits of an f32.
  Value toNarrowBits(Value x) {
    Value bits = arith::BitcastOp::create(b, loc, b.getI32Type(), x);
    return arith::ExtUIOp::create(b, loc, b.getI64Type(), bits);
  }
  Value toFloat(Value x) {
    return arith::SIToFPOp::create(b, loc, b.getF64Type(), x);
  }
  /// The sum of coefficients times powers of x, the lowest first.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = number(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back()))
      sum = add(mul(sum, x), number(coefficient));
    return sum;
  }

private:
  OpBuilder b;
  Location loc;
};
} // namespace

//===----------------------------------------------------------------------===//
// Powers and logarithms
//===----------------------------------------------------------------------===//

namespace {
/// A sum of two numbers, the second of which is what the first was rounded by.
struct Pair {
  Value high, low;
};
} // namespace

/// x y, with x a pair.
static Pair multiply(WideWriter &w, Pair x, Value y) {
  Value high = w.mul(x.high, y);
  Value low = w.fma(x.high, y, w.neg(high));
  return {high, w.fma(x.low, y, low)};
}

/// The mantissa of a number from 0 on, about 1, and its exponent (f64).
static std::pair<Value, Value> splitExponent(WideWriter &w, Value x) {
  constexpr int64_t one = int64_t(1023) << 52;
  constexpr int kShift = 54;
  Value isTiny = w.test(FloatTest::OLT, x, w.number(0x1p-1022));
  x = w.select(isTiny, w.mul(x, w.number(std::ldexp(1, kShift))), x);
  Value bits = w.toBits(x), bias = w.integer(1023);
  bias = w.select(isTiny, w.integer(1023 + kShift), bias);
  Value e = w.minus(w.right(bits, w.integer(52)), bias);
  Value mantissa = w.both(bits, w.integer((int64_t(1) << 52) - 1));
  Value m = w.fromBits(w.either(mantissa, w.integer(one)));
  Value isLarge = w.test(FloatTest::OGT, m, w.number(std::numbers::sqrt2));
  m = w.select(isLarge, w.mul(m, w.number(0.5)), m);
  e = w.select(isLarge, w.plus(e, w.integer(1)), e);
  return {m, w.toFloat(e)};
}

/// (m - 1) / (m + 1).
static Pair divideDifference(WideWriter &w, Value m) {
  Value one = w.number(1), above = w.sub(m, one), below = w.add(m, one);
  Value lost = w.sub(m, w.sub(below, one));
  Value high = w.div(above, below);
  Value rest = w.fma(w.neg(high), below, above);
  rest = w.fma(w.neg(high), lost, rest);
  return {high, w.div(rest, below)};
}

/// log2 of a number from 0 on: e + log2(m) with m about 1, and
/// ln(m) = 2 artanh((m - 1) / (m + 1)), whose first term is a pair's.
static Pair writeLog2(WideWriter &w, Value x) {
  constexpr double factor = 2 / std::numbers::ln2;
  constexpr double rest = 0x1.777d0ffda0d24p-56 * 2; // of 1 / ln(2)
  auto [m, e] = splitExponent(w, x);
  Pair s = divideDifference(w, m);
  Pair first = multiply(w, s, w.number(factor));
  first.low = w.fma(s.high, w.number(rest), first.low);
  SmallVector<double> coefficients;
  for (int n = 1; n < 12; ++n)
    coefficients.push_back(factor / (2 * n + 1));
  Value square = w.mul(s.high, s.high);
  Value others =
      w.mul(w.mul(s.high, square), w.polynomial(square, coefficients));
  // e is 0, or larger than what is added.
  Value sum = w.add(e, first.high);
  Value low = w.add(w.add(w.sub(first.high, w.sub(sum, e)), first.low), others);
  Value high = w.add(sum, low);
  low = w.sub(low, w.sub(high, sum));
  auto unless = [&](FloatTest test, double bound, double result) {
    Value isSo = w.test(test, x, w.number(bound));
    high = w.select(isSo, w.number(result), high);
    low = w.select(isSo, w.number(0), low);
  };
  unless(FloatTest::OEQ, INFINITY, INFINITY);
  unless(FloatTest::OEQ, 0, -INFINITY);
  unless(FloatTest::ULT, 0, NAN);
  return {high, low};
}

/// 2^z; beyond f64 it is 0 or infinity.
static Value writeExp2(WideWriter &w, Pair z) {
  constexpr double kMost = 1100;
  Value isWithin = w.test(FloatTest::OLT, w.abs(z.high), w.number(kMost));
  auto clamp = [&](FloatTest test, double bound) {
    Value end = w.number(bound);
    z.high = w.select(w.test(test, z.high, end), end, z.high);
  };
  clamp(FloatTest::OLT, -kMost);
  clamp(FloatTest::OGT, kMost);
  // Added to it, a number is rounded to an integer, which its low bits then
  // are; a NaN stays one.
  Value magic = w.number(0x1.8p52), sum = w.add(z.high, magic);
  Value rest = w.sub(z.high, w.sub(sum, magic));
  rest = w.add(rest, w.select(isWithin, z.low, w.number(0)));
  Value n = w.minus(w.toBits(sum), w.toBits(magic));
  SmallVector<double> coefficients = {1};
  for (int k = 1; k < 15; ++k)
    coefficients.push_back(coefficients.back() * std::numbers::ln2 / k);
  auto power = [&](Value n) {
    return w.fromBits(w.left(w.plus(n, w.integer(1023)), w.integer(52)));
  };
  // 2^n may be no normal number, the product is rounded once.
  Value half = w.make<arith::ShRSIOp>(n, w.integer(1));
  Value result = w.mul(w.polynomial(rest, coefficients), power(half));
  return w.mul(result, power(w.minus(n, half)));
}

/// As the C library's: x^0 and 1^y are 1 for every x and y.
static Value writePower(WideWriter &w, Value x, Value y) {
  Value size = w.abs(x), zero = w.number(0);
  Value isOne = w.test(FloatTest::OEQ, size, w.number(1));
  Pair z = multiply(w, writeLog2(w, size), y);
  Value result = writeExp2(
      w, {w.select(isOne, zero, z.high), w.select(isOne, zero, z.low)});
  Value isInteger = w.test(FloatTest::OEQ, y, w.floor(y));
  Value half = w.mul(y, w.number(0.5));
  Value isOdd = w.both(isInteger, w.test(FloatTest::UNE, half, w.floor(half)));
  Value isMinus = w.test(IntTest::slt, w.toBits(x), w.integer(0));
  result = w.select(w.both(isMinus, isOdd), w.neg(result), result);
  Value isBelow = w.both(w.test(FloatTest::OLT, x, zero),
                         w.test(FloatTest::OGT, x, w.number(-INFINITY)));
  Value isNothing = w.both(isBelow, w.test(FloatTest::UNE, y, w.floor(y)));
  result = w.select(isNothing, w.number(NAN), result);
  return w.select(w.test(FloatTest::OEQ, y, zero), w.number(1), result);
}

//===----------------------------------------------------------------------===//
// Angles
//===----------------------------------------------------------------------===//

namespace {
/// An angle: the quarter of the circle that it is nearest to, modulo 4, and the
/// rest, at most pi / 4.
struct Angle {
  Value quarter, rest;
};
} // namespace

/// Bits of 2 / pi behind 64 zeros.
constexpr int64_t kTwoByPi[] = {0,          0,          0xa2f9836e,
                                0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                0xdb629599, 0x3c439041, 0xfe5163ab};

/// 32 bits of the table from word `word` + i on, which is 0 to 5.
static Value selectWord(WideWriter &w, Value word, int i) {
  Value chosen = w.integer(kTwoByPi[i]);
  for (int64_t n = 1; n < 6; ++n)
    chosen = w.select(w.test(IntTest::eq, word, w.integer(n)),
                      w.integer(kTwoByPi[n + i]), chosen);
  return chosen;
}

/// |x| 2 / pi modulo 4 as 62 bits behind the point (Payne and Hanek, "Radian
/// reduction for trigonometric functions", 1983): with x = m 2^(e - 150), bits
/// of 2 / pi before the (e - 151)-th give multiples of 4, and are left out.
static Value multiplyByTwoByPi(WideWriter &w, Value bits, Value e) {
  Value m = w.either(w.both(bits, w.integer(0x7fffff)), w.integer(0x800000));
  Value first = w.minus(e, w.integer(88)), thirtyTwo = w.integer(32);
  Value word = w.right(first, w.integer(5));
  Value shift = w.both(first, w.integer(31));
  Value words[4], carry = w.integer(0), product = carry;
  for (int i = 0; i < 4; ++i)
    words[i] = selectWord(w, word, i);
  // From the last 32 bits of 96 to the first.
  for (int i = 2; i >= 0; --i) {
    Value pair = w.either(w.left(words[i], thirtyTwo), words[i + 1]);
    Value factor = w.right(w.left(pair, shift), thirtyTwo);
    Value sum = w.plus(w.times(m, factor), carry);
    carry = w.right(sum, thirtyTwo);
    if (i == 1)
      product = w.both(sum, w.integer(0xffffffff));
    if (i == 0)
      product = w.either(w.left(sum, thirtyTwo), product);
  }
  return product;
}

static Angle reduce(WideWriter &w, Value narrow) {
  // Below it an angle is its own rest; the product has too few of its digits.
  constexpr int64_t kSmall = 127 - 12;
  Value size = w.abs(w.widen(narrow));
  Value bits = w.both(w.toNarrowBits(narrow), w.integer(0x7fffffff));
  Value e = w.right(bits, w.integer(23));
  Value isSmall = w.test(IntTest::slt, e, w.integer(kSmall));
  Value product =
      multiplyByTwoByPi(w, bits, w.select(isSmall, w.integer(kSmall), e));
  Value quarter =
      w.right(w.plus(product, w.integer(int64_t(1) << 61)), w.integer(62));
  Value two = w.integer(2);
  Value signedRest = w.make<arith::ShRSIOp>(w.left(product, two), two);
  Value rest = w.mul(w.toFloat(signedRest),
                     w.number(std::ldexp(std::numbers::pi / 2, -62)));
  return {w.select(isSmall, w.integer(0), quarter),
          w.select(isSmall, size, rest)};
}

/// The sine of the angle and of so many quarters more.
static Value writeSine(WideWriter &w, Angle angle, int64_t quarters) {
  SmallVector<double> ofSine, ofCosine;
  double factorial = 1;
  for (int n = 0; n < 7; ++n) {
    double sign = n % 2 ? -1 : 1;
    ofCosine.push_back(sign / factorial);
    ofSine.push_back(sign / (factorial *= 2 * n + 1));
    factorial *= 2 * n + 2;
  }
  Value square = w.mul(angle.rest, angle.rest);
  Value sine = w.mul(angle.rest, w.polynomial(square, ofSine));
  Value cosine = w.polynomial(square, ofCosine);
  Value quarter = w.plus(angle.quarter, w.integer(quarters));
  auto has = [&](int64_t bit) {
    return w.test(IntTest::ne, w.both(quarter, w.integer(bit)), w.integer(0));
  };
  Value result = w.select(has(1), cosine, sine);
  return w.select(has(2), w.neg(result), result);
}

static Value writeSinOrCos(WideWriter &w, Value x, bool isSin) {
  Value result = writeSine(w, reduce(w, x), isSin ? 0 : 1);
  Value wide = w.widen(x);
  if (isSin) {
    Value isMinus = w.test(IntTest::slt, w.toBits(wide), w.integer(0));
    result = w.select(isMinus, w.neg(result), result);
  }
  Value isFinite = w.test(FloatTest::OLT, w.abs(wide), w.number(INFINITY));
  return w.select(isFinite, result, w.number(NAN));
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// Of operands in f64; null where the operator stays.
static Value writeOut(WideWriter &w, Operation *op, ArrayRef<Value> operands) {
  Value x = operands.front();
  if (isa<math::PowFOp>(op))
    return writePower(w, x, operands.back());
  if (!op->getResult(0).getType().isF32())
    return nullptr;
  if (isa<math::Exp2Op>(op))
    return writeExp2(w, {x, w.number(0)});
  if (isa<math::Log2Op>(op))
    return writeLog2(w, x).high;
  if (isa<math::Log10Op>(op))
    return w.mul(writeLog2(w, x).high,
                 w.number(std::numbers::ln2 / std::numbers::ln10));
  if (isa<math::SinOp, math::CosOp>(op))
    return writeSinOrCos(w, op->getOperand(0), isa<math::SinOp>(op));
  return nullptr;
}

void tandem::writeOutGpuMath(ModuleOp module) {
  SmallVector<Operation *> functions;
  module.walk([&](Operation *op) {
    if (isa<math::PowFOp, math::Exp2Op, math::Log2Op, math::Log10Op,
            math::SinOp, math::CosOp>(op))
      functions.push_back(op);
  });
  for (Operation *op : functions) {
    Type type = op->getResult(0).getType();
    if (!type.isF32() && !type.isF64())
      continue;
    WideWriter writer(op);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(type.isF32() ? writer.widen(operand) : operand);
    Value result = writeOut(writer, op, operands);
    if (!result)
      continue;
    op->getResult(0).replaceAllUsesWith(type.isF32() ? writer.narrow(result)
                                                     : result);
    op->erase();
  }
}
