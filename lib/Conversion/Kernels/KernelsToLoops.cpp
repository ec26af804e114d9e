//===- KernelsToLoops.cpp - functions of linalg as loops on pointers ------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Conversion/Kernels/Passes.h"
#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"

using namespace mlir;
using namespace tandem;

namespace {
struct KernelsToLoopsPass
    : PassWrapper<KernelsToLoopsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KernelsToLoopsPass)
  StringRef getArgument() const final { return "tandem-kernels-to-loops"; }
  StringRef getDescription() const final {
    return "functions of linalg become nests of loops on pointers";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect, math::MathDialect,
                    scf::SCFDialect>();
  }
  void runOnOperation() override {
    SmallVector<func::FuncOp> kernels(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp kernel : kernels) {
      if (!kernel.isExternal()) {
        std::string symbol = (kernel.getName() + "_kernel").str();
        KernelEmitter(kernel, getOperation(), symbol).emit();
      }
    }
    for (func::FuncOp kernel : kernels)
      kernel.erase();
  }
};
} // namespace

std::unique_ptr<Pass> tandem::createKernelsToLoopsPass() {
  return std::make_unique<KernelsToLoopsPass>();
}

void tandem::registerKernelPasses() {
  registerNNToLinalg();
  registerPass(createKernelsToLoopsPass);
  registerPass(createFastMathPass);
  registerPass(createApproximateMathPass);
  registerPass(createKernelsToLLVMPass);
}
