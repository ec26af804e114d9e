//===- ApproximateMath.cpp - functions as polynomials ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LowerToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "tandem/Conversion/Kernels/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tandem;

/// sin and cos stay with the C library: the upstream polynomials lose all
/// digits for large angles.
static bool isApproximated(StringRef name) {
  static const llvm::StringSet<> names = {"math.exp",  "math.expm1",
                                          "math.log",  "math.log1p",
                                          "math.tanh", "math.erf"};
  return names.contains(name);
}

LogicalResult tandem::approximateMath(ModuleOp module) {
  bool found = false;
  module.walk([&](Operation *op) {
    found |= isApproximated(op->getName().getStringRef());
    if (isa<arith::ExtFOp, arith::TruncFOp>(op))
      found |= op->getOperand(0).getType().isBF16() ||
               op->getResult(0).getType().isBF16();
  });
  if (!found)
    return success();
  RewritePatternSet patterns(module.getContext());
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
    : PassWrapper<ApproximateMathPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ApproximateMathPass)
  StringRef getArgument() const final { return "tandem-approximate-math"; }
  StringRef getDescription() const final {
    return "exp, log, tanh and erf on f32 become polynomials";
  }
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

std::unique_ptr<Pass> tandem::createApproximateMathPass() {
  return std::make_unique<ApproximateMathPass>();
}
