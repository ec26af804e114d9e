//===- KernelsToLoops.cpp - functions of linalg as loops on pointers ------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nest/KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Conversion/Kernels/Passes.h"
#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"
#include "tandem/Dialect/Sched/Sched.h"

namespace tandem {
#define GEN_PASS_DEF_KERNELSTOLOOPSPASS
#include "tandem/Conversion/Kernels/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

static bool isKernelOperator(Operation *op) {
  return isa<linalg::GenericOp, nn::ReshapeOp, nn::ConstantOp,
             spmd::CoordinateOp, tensor::EmptyOp, arith::ConstantOp,
             func::ReturnOp>(op) ||
         hasOwnLoop(op) || getRowSum(op);
}

static LogicalResult verifyTypes(Operation *op, TypeRange types) {
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return op->emitError("has a value of type ")
             << type << ", expected a tensor of static shape";
  }
  return success();
}

static LogicalResult verifyKernel(func::FuncOp kernel) {
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitError("function @")
           << kernel.getName() << " has several blocks, expected one";
  if (failed(verifyTypes(kernel, kernel.getArgumentTypes())))
    return failure();
  for (Operation &op : kernel.front()) {
    if (!isKernelOperator(&op))
      return op.emitError("operator '")
             << op.getName()
             << "' is not of a kernel as linalg (see --tandem-nn-to-linalg)";
    if (failed(verifyTypes(&op, op.getResultTypes())))
      return failure();
  }
  return success();
}

namespace {
struct KernelsToLoopsPass
    : tandem::impl::KernelsToLoopsPassBase<KernelsToLoopsPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect, math::MathDialect,
                    scf::SCFDialect>();
    registerTargetDialects(registry);
  }
  void runOnOperation() override {
    SmallVector<func::FuncOp> kernels(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp kernel : kernels)
      if (!kernel.isExternal() && failed(verifyKernel(kernel)))
        return signalPassFailure();
    for (func::FuncOp kernel : kernels) {
      if (!kernel.isExternal()) {
        std::string symbol = (kernel.getName() + "_kernel").str();
        getKernelTarget(sched::getDevice(kernel))
            .createEmitter(kernel, getOperation(), symbol)
            ->emit();
      }
    }
    for (func::FuncOp kernel : kernels)
      kernel.erase();
  }
};
} // namespace

void tandem::registerKernelPasses() {
  registerNNToLinalg();
  registerPass(createKernelsToLoopsPass);
  registerPass(createFastMathPass);
  registerPass(createApproximateMathPass);
  registerPass(createKernelsToLLVMPass);
}
