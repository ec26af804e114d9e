//===- GpuMath.cpp - functions that a GPU has no library for --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// pow, exp2, log2, log10, sin and cos of f32, which are the C library's on a
// CPU: in f64, whose error is far below the last place of f32, so that results
// are rounded once. Series are those of Taylor, cut where the next term is
// below 2^-33 of the sum.
//
//===----------------------------------------------------------------------===//

#include "LowerToLLVM.h"
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

/// log2 of a number from 0 on, in f64 of an f32: e + log2(m) with m about 1,
/// and ln(m) = 2 artanh((m - 1) / (m + 1)).
static Value writeLog2(WideWriter &w, Value x) {
  constexpr int64_t one = int64_t(1023) << 52;
  Value bits = w.toBits(x), exponentBits = w.integer(52);
  Value e = w.minus(w.right(bits, exponentBits), w.integer(1023));
  Value mantissa = w.both(bits, w.integer((int64_t(1) << 52) - 1));
  Value m = w.fromBits(w.either(mantissa, w.integer(one)));
  Value isLarge = w.test(FloatTest::OGT, m, w.number(std::numbers::sqrt2));
  m = w.select(isLarge, w.mul(m, w.number(0.5)), m);
  e = w.select(isLarge, w.plus(e, w.integer(1)), e);
  Value s = w.div(w.sub(m, w.number(1)), w.add(m, w.number(1)));
  SmallVector<double> coefficients;
  for (int n = 0; n < 8; ++n)
    coefficients.push_back(2 / std::numbers::ln2 / (2 * n + 1));
  Value sum = w.polynomial(w.mul(s, s), coefficients);
  Value result = w.add(w.toFloat(e), w.mul(s, sum));
  Value infinity = w.number(INFINITY);
  result = w.select(w.test(FloatTest::OEQ, x, infinity), infinity, result);
  result = w.select(w.test(FloatTest::OEQ, x, w.number(0)), w.number(-INFINITY),
                    result);
  return w.select(w.test(FloatTest::OGE, x, w.number(0)), result,
                  w.number(NAN));
}

/// 2^z, which beyond f32 is any number that f32 has as 0 or infinity.
static Value writeExp2(WideWriter &w, Value z) {
  Value low = w.number(-200), high = w.number(200);
  z = w.select(w.test(FloatTest::OLT, z, low), low, z);
  z = w.select(w.test(FloatTest::OGT, z, high), high, z);
  // Added to it, a number is rounded to an integer, which its low bits then
  // are; a NaN stays one.
  Value magic = w.number(0x1.8p52);
  Value sum = w.add(z, magic), rest = w.sub(z, w.sub(sum, magic));
  Value n = w.minus(w.toBits(sum), w.toBits(magic));
  SmallVector<double> coefficients = {1};
  for (int k = 1; k < 10; ++k)
    coefficients.push_back(coefficients.back() * std::numbers::ln2 / k);
  Value power = w.fromBits(w.left(w.plus(n, w.integer(1023)), w.integer(52)));
  return w.mul(w.polynomial(rest, coefficients), power);
}

/// As the C library's: x^0 and 1^y are 1 for every x and y.
static Value writePower(WideWriter &w, Value narrowX, Value narrowY) {
  Value x = w.widen(narrowX), y = w.widen(narrowY);
  Value size = w.abs(x), zero = w.number(0);
  Value isOne = w.test(FloatTest::OEQ, size, w.number(1));
  Value result =
      writeExp2(w, w.select(isOne, zero, w.mul(y, writeLog2(w, size))));
  Value isInteger = w.test(FloatTest::OEQ, y, w.floor(y));
  Value half = w.mul(y, w.number(0.5));
  Value isOdd = w.both(isInteger, w.test(FloatTest::UNE, half, w.floor(half)));
  Value isMinus = w.test(IntTest::slt, w.toBits(x), w.integer(0));
  result = w.select(w.both(isMinus, isOdd), w.neg(result), result);
  Value isBelow = w.both(w.test(FloatTest::OLT, x, zero),
                         w.test(FloatTest::OGT, x, w.number(-INFINITY)));
  Value isNothing = w.both(isBelow, w.test(FloatTest::UNE, y, w.floor(y)));
  result = w.select(isNothing, w.number(NAN), result);
  result = w.select(w.test(FloatTest::OEQ, y, zero), w.number(1), result);
  return w.narrow(result);
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
  return w.narrow(w.select(isFinite, result, w.number(NAN)));
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// Null where the operator stays.
static Value writeOut(WideWriter &w, Operation *op) {
  if (auto power = dyn_cast<math::PowFOp>(op))
    return writePower(w, power.getLhs(), power.getRhs());
  if (isa<math::Exp2Op>(op))
    return w.narrow(writeExp2(w, w.widen(op->getOperand(0))));
  if (isa<math::Log2Op, math::Log10Op>(op)) {
    Value result = writeLog2(w, w.widen(op->getOperand(0)));
    if (isa<math::Log10Op>(op))
      result = w.mul(result, w.number(std::numbers::ln2 / std::numbers::ln10));
    return w.narrow(result);
  }
  if (isa<math::SinOp, math::CosOp>(op))
    return writeSinOrCos(w, op->getOperand(0), isa<math::SinOp>(op));
  return nullptr;
}

void tandem::writeOutGpuMath(ModuleOp module) {
  SmallVector<Operation *> functions;
  module.walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) &&
        op->getResult(0).getType().isF32())
      functions.push_back(op);
  });
  for (Operation *op : functions) {
    WideWriter writer(op);
    if (Value result = writeOut(writer, op)) {
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
  }
}
