//===- KernelsToLLVM.cpp - loops and scalars to the llvm dialect
//------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/LowerToLLVM.h"
#include "Target.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/DialectConversion.h"
#include "tandem/Conversion/Kernels/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_KERNELSTOLLVMPASS
#include "tandem/Conversion/Kernels/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Upstream's conversion makes e^x - 1 and ln(1 + x) of them, which near 0 lose
/// all digits. In f32 they are polynomials by now.
static LogicalResult callExpm1AndLog1p(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  populateMathToLibmConversionPatterns(patterns);
  ConversionTarget target(*module.getContext());
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  target.addIllegalOp<math::ExpM1Op, math::Log1pOp>();
  return applyPartialConversion(module, target, std::move(patterns));
}

LogicalResult tandem::lowerToLLVM(ModuleOp module) {
  if (failed(callExpm1AndLog1p(module)))
    return failure();
  MLIRContext *context = module.getContext();
  LLVMTypeConverter converter(context);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  // What LLVM has no intrinsic for is called in the C library.
  populateMathToLLVMConversionPatterns(converter, patterns, true,
                                       /*benefit=*/2);
  populateMathToLibmConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  DialectRegistry ofTargets;
  registerTargetDialects(ofTargets);
  for (StringRef dialect : ofTargets.getDialectNames())
    target.addLegalDialect(dialect);
  return applyFullConversion(module, target, std::move(patterns));
}

namespace {
struct KernelsToLLVMPass
    : tandem::impl::KernelsToLLVMPassBase<KernelsToLLVMPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<cf::ControlFlowDialect, LLVM::LLVMDialect>();
  }
  void runOnOperation() override {
    if (failed(lowerToLLVM(getOperation())))
      signalPassFailure();
  }
};
} // namespace
