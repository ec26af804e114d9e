//===- FastMath.cpp - fast-math flags -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/LowerToLLVM.h"
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
/// and their estimates give NaN for 1 / sqrt(0). Not contract: what several
/// kernels compute has to be the same to the bit, as one may take its floor and
/// another what is left.
constexpr arith::FastMathFlags kFlags = arith::FastMathFlags::nsz;
constexpr arith::FastMathFlags kFusedFlags =
    kFlags | arith::FastMathFlags::contract;

static void setFlags(Operation *op, arith::FastMathFlags flags) {
  auto math = cast<arith::ArithFastMathInterface>(op);
  op->setAttr(math.getFastMathAttrName(),
              arith::FastMathFlagsAttr::get(op->getContext(), flags));
}

/// Lets the terms that a loop adds to what it carries, `sum`, be added in any
/// order, with the products that they are. One iteration may add several, one
/// after the other.
static void reassociate(Value sum) {
  for (Operation *kind = nullptr; sum && sum.hasOneUse();) {
    Operation *step = *sum.user_begin();
    auto math = dyn_cast<arith::ArithFastMathInterface>(step);
    if (!math || (kind && step->getName() != kind->getName()))
      return;
    setFlags(step, kFusedFlags | arith::FastMathFlags::reassoc);
    for (Value term : step->getOperands())
      if (auto product = term.getDefiningOp<arith::MulFOp>();
          product && product->hasOneUse())
        setFlags(product, kFusedFlags);
    kind = step;
    sum = step->getResult(0);
  }
}

void tandem::setFastMath(ModuleOp module) {
  module.walk([](arith::ArithFastMathInterface op) { setFlags(op, kFlags); });
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
