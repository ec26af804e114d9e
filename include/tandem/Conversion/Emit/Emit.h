//===- Emit.h - lowered IR to a Program -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last step of the compiler: writes down what `lower` decided. Kernels are
// compiled, commands are listed one by one, arguments and results come with
// their roles, names and forms. One rank program is shared by all ranks.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_EMIT_EMIT_H
#define TANDEM_CONVERSION_EMIT_EMIT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem_rt/program.h"
#include <string>

namespace tandem {

struct EmitOptions {
  KernelOptions kernels;
  /// Of a pipeline: bytes that each rank may hold, or empty. A point that would
  /// hold more waits for what it sends, and holds it no longer.
  std::vector<int64_t> limits;
  /// Kernels have names, and no code: for a Program that is simulated alone.
  bool namesKernels = false;
};

struct EmittedProgram {
  rt::Program program;
  /// Of a .tdm file.
  std::string bytes;
  /// By the rank that holds most (rt::heldBytes).
  int64_t heldBytes = 0;
};

/// The Program of a module that `--tandem-lower` made, which stays as it is.
/// What the runtime's own verifier refuses is an error of the module.
mlir::FailureOr<EmittedProgram> emitProgram(mlir::ModuleOp module,
                                            const EmitOptions &options);

/// The options of `--tandem-emit`.
struct EmitPipelineOptions : mlir::PassPipelineOptions<EmitPipelineOptions> {
  Option<std::string> output{*this, "output",
                             llvm::cl::desc("The file of the Program"),
                             llvm::cl::init("")};
};

#define GEN_PASS_DECL
#include "tandem/Conversion/Emit/Passes.h.inc"

} // namespace tandem

#endif // TANDEM_CONVERSION_EMIT_EMIT_H
