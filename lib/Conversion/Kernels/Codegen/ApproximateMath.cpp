//===- ApproximateMath.cpp - functions as polynomials ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/LowerToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "tandem/Conversion/Kernels/Passes.h"
#include "llvm/ADT/StringSet.h"
#include <numbers>

namespace tandem {
#define GEN_PASS_DEF_APPROXIMATEMATHPASS
#include "tandem/Conversion/Kernels/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Own expansions
//===----------------------------------------------------------------------===//

namespace {
/// Writes arithmetic on f32 and on its bits.
class FloatWriter {
public:
  FloatWriter(OpBuilder &b, Location loc) : b(b), loc(loc) {}

  Value constant(float value) {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
  }
  Value integer(int32_t value) {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }
  Value absolute(Value x) { return math::AbsFOp::create(b, loc, x); }
  Value copySign(Value x, Value sign) {
    return math::CopySignOp::create(b, loc, x, sign);
  }
  /// Coefficients from the highest power of `x`.
  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value sum = constant(coefficients.front());
    for (float coefficient : coefficients.drop_front())
      sum = fma(sum, x, constant(coefficient));
    return sum;
  }
  /// x < y ? a : c. A NaN takes `c`.
  Value selectLess(Value x, Value y, Value a, Value c) {
    Value less = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y);
    return arith::SelectOp::create(b, loc, less, a, c);
  }
  Value toBits(Value x) {
    return arith::BitcastOp::create(b, loc, b.getI32Type(), x);
  }
  /// 2^n for -127 < n < 128.
  Value powerOfTwo(Value n) {
    Value biased = arith::AddIOp::create(b, loc, n, integer(127));
    Value bits = arith::ShLIOp::create(b, loc, biased, integer(23));
    return arith::BitcastOp::create(b, loc, b.getF32Type(), bits);
  }
  Value half(Value n) { return arith::ShRSIOp::create(b, loc, n, integer(1)); }
  Value minus(Value n, Value m) { return arith::SubIOp::create(b, loc, n, m); }

private:
  OpBuilder &b;
  Location loc;
};
} // namespace

/// e^r for |r| <= ln(2) / 2: the polynomial of expf in the Cephes library.
static Value expandReducedExp(FloatWriter &w, Value r) {
  Value p =
      w.polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                       4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f});
  return w.add(w.fma(p, w.mul(r, r), r), w.constant(1));
}

/// e^x = 2^k e^r. Upstream's expansion gives the smallest normal number for
/// everything below it, and has ln(2) in one constant.
static Value expandExp(FloatWriter &w, Value x) {
  // Beyond these e^x is 0 and infinity.
  Value low = w.constant(-104), high = w.constant(89);
  x = w.selectLess(x, low, low, x);
  x = w.selectLess(high, x, high, x);
  // Added to it, a number is rounded to an integer, which its low bits then
  // are; a NaN stays one.
  Value magic = w.constant(0x1.8p23f);
  Value sum = w.fma(x, w.constant(0x1.715476p0f), magic); // 1 / ln(2)
  Value k = w.sub(sum, magic);
  Value r = w.fma(k, w.constant(-0x1.62ep-1f), x); // ln(2), and its rest
  r = w.fma(k, w.constant(-0x1.0bfbe8p-15f), r);
  Value n = w.minus(w.toBits(sum), w.toBits(magic));
  // 2^k may be too small for a normal number, the product is rounded once.
  Value first = w.half(n), second = w.minus(n, first);
  Value scaled = w.mul(expandReducedExp(w, r), w.powerOfTwo(first));
  return w.mul(scaled, w.powerOfTwo(second));
}

/// x p(x^2) for |x| < 1, else 1 - q(|x|)^8 with the sign of x, which is 1 where
/// f32 has no number between. Both polynomials have the least largest error of
/// their degree (Lawson's iteration). Upstream's four quotients, all computed,
/// take three times as long.
static Value expandErf(FloatWriter &w, Value x) {
  Value small =
      w.mul(x, w.polynomial(w.mul(x, x),
                            {-0.0005631466046907008f, 0.004917563870549202f,
                             -0.026711324229836464f, 0.11280180513858795f,
                             -0.37612324953079224f, 1.1283791065216064f}));
  Value size = w.absolute(x), last = w.constant(4);
  Value root = w.polynomial(w.selectLess(last, size, last, size),
                            {1.578428600623738e-05f, -4.15292197430972e-05f,
                             -0.0014983216533437371f, 0.010248575359582901f,
                             -0.0070435646921396255f, -0.06553897261619568f,
                             -0.1429346799850464f, 1.0003728866577148f});
  for (int square = 0; square < 3; ++square)
    root = w.mul(root, root);
  Value large = w.copySign(w.sub(w.constant(1), root), x);
  return w.selectLess(size, w.constant(1), small, large);
}

namespace {
template <typename Op, Value (*expand)(FloatWriter &, Value)>
struct Expand : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    FloatWriter writer(rewriter, op.getLoc());
    rewriter.replaceOp(op, expand(writer, op.getOperand()));
    return success();
  }
};
} // namespace

/// Upstream's ln takes the smallest normal number for everything below it:
/// ln(x) = ln(2^23 x) - 23 ln(2).
static void scaleDenormals(math::LogOp op) {
  if (!op.getType().isF32())
    return;
  OpBuilder builder(op);
  FloatWriter w(builder, op.getLoc());
  Value x = op.getOperand(), normal = w.constant(0x1p-126f);
  op.getOperandMutable().assign(
      w.selectLess(x, normal, w.mul(x, w.constant(0x1p23f)), x));
  builder.setInsertionPointAfter(op);
  constexpr float kShift = -23 * std::numbers::ln2_v<float>;
  Value shift = w.selectLess(x, normal, w.constant(kShift), w.constant(0));
  Value sum = w.add(op.getResult(), shift);
  op.getResult().replaceAllUsesExcept(sum, sum.getDefiningOp());
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Upstream's. sin and cos stay with the C library: their polynomials lose all
/// digits for large angles.
static bool isApproximated(StringRef name) {
  static const llvm::StringSet<> names = {"math.expm1", "math.log",
                                          "math.log1p", "math.tanh"};
  return names.contains(name);
}

LogicalResult tandem::approximateMath(ModuleOp module) {
  bool found = false;
  module.walk([&](Operation *op) {
    found |= isa<math::ExpOp, math::ErfOp>(op) ||
             isApproximated(op->getName().getStringRef());
    if (isa<arith::ExtFOp, arith::TruncFOp>(op))
      found |= op->getOperand(0).getType().isBF16() ||
               op->getResult(0).getType().isBF16();
  });
  if (!found)
    return success();
  module.walk([](math::LogOp op) { scaleDenormals(op); });
  RewritePatternSet patterns(module.getContext());
  patterns.add<Expand<math::ExpOp, expandExp>, Expand<math::ErfOp, expandErf>>(
      module.getContext());
  populateMathPolynomialApproximationPatterns(patterns, isApproximated);
  arith::populateExpandBFloat16Patterns(patterns);
  GreedyRewriteConfig config;
  config.enableFolding(false).enableConstantCSE(false);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  if (failed(applyPatternsGreedily(module, std::move(patterns), config)))
    return failure();
  // Fused multiplications only make the polynomials more exact.
  auto contract = arith::FastMathFlagsAttr::get(module.getContext(),
                                                arith::FastMathFlags::contract);
  module.walk([&](arith::ArithFastMathInterface op) {
    auto flags = op.getFastMathFlagsAttr();
    if (!flags || flags.getValue() == arith::FastMathFlags::none)
      op->setAttr(op.getFastMathAttrName(), contract);
  });
  return success();
}

namespace {
struct ApproximateMathPass
    : tandem::impl::ApproximateMathPassBase<ApproximateMathPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect,
                    vector::VectorDialect>();
  }
  void runOnOperation() override {
    if (failed(approximateMath(getOperation())))
      signalPassFailure();
  }
};
} // namespace
