//===- FastMath.cpp - what may be done to floating-point arithmetic -------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LowerToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Conversion/Kernels/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_FASTMATHPASS
#include "tandem/Conversion/Kernels/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Not nnan and ninf: a masked softmax computes with -inf, and a NaN in the
/// loss must be seen. Not arcp: with reciprocals x / y overflows for small y,
/// and their estimates give NaN for 1 / sqrt(0).
constexpr arith::FastMathFlags kFlags =
    arith::FastMathFlags::contract | arith::FastMathFlags::nsz;

/// Lets the terms that a loop adds to what it carries, `sum`, be added in any
/// order. One iteration may add several, one after the other.
static void reassociate(Value sum) {
  auto flags = arith::FastMathFlagsAttr::get(
      sum.getContext(), kFlags | arith::FastMathFlags::reassoc);
  for (Operation *kind = nullptr; sum && sum.hasOneUse();) {
    Operation *step = *sum.user_begin();
    auto math = dyn_cast<arith::ArithFastMathInterface>(step);
    if (!math || (kind && step->getName() != kind->getName()))
      return;
    step->setAttr(math.getFastMathAttrName(), flags);
    kind = step;
    sum = step->getResult(0);
  }
}

void tandem::setFastMath(ModuleOp module) {
  auto flags = arith::FastMathFlagsAttr::get(module.getContext(), kFlags);
  module.walk([&](arith::ArithFastMathInterface op) {
    op->setAttr(op.getFastMathAttrName(), flags);
  });
  module.walk([](scf::ForOp loop) {
    llvm::for_each(loop.getRegionIterArgs(), reassociate);
  });
}

namespace {
struct FastMathPass : tandem::impl::FastMathPassBase<FastMathPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, scf::SCFDialect>();
  }
  void runOnOperation() override { setFastMath(getOperation()); }
};
} // namespace
