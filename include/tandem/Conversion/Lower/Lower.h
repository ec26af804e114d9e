//===- Lower.h - the stage lower --------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Steps on tensors become commands on buffers: kernels, library products,
// collectives and copies, in an arena whose bytes are shared by buffers that
// are never needed at the same time. After it emit is mechanical.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_LOWER_LOWER_H
#define TANDEM_CONVERSION_LOWER_LOWER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tandem {

struct LowerOptions : mlir::PassPipelineOptions<LowerOptions> {
  Option<std::string> device{
      *this, "device",
      llvm::cl::desc("Device to compile for; default: the one of the module, "
                     "else a CPU")};
};

/// From scheduled IR (`sched.step`s on plain tensors) to lowered IR: one
/// function of commands on buffers with offsets, and one function per kernel.
void buildLowerPipeline(mlir::OpPassManager &manager,
                        const LowerOptions &options);

void registerLowerPasses();

namespace lower {

#define GEN_PASS_DECL
#include "tandem/Conversion/Lower/Passes.h.inc"

} // namespace lower
} // namespace tandem

#endif // TANDEM_CONVERSION_LOWER_LOWER_H
