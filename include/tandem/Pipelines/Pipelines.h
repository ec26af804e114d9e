//===- Pipelines.h - the stages in order ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The way of the data, import to lower. Each stage is a pipeline
// `--tandem-<stage>` of `tandem-opt`, with a verifier at its exit. IR can be
// printed between any two stages, edited by hand, and given to the next one:
// the verifier of the stage that it has left looks at it first.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PIPELINES_PIPELINES_H
#define TANDEM_PIPELINES_PIPELINES_H

#include "mlir/IR/DialectRegistry.h"
#include "tandem/Transforms/Plan/Plan.h"

namespace tandem {

/// Every dialect that a stage reads or writes.
void registerDialects(mlir::DialectRegistry &registry);

/// Every pass, the pipeline of every stage and `--tandem-emit`, for command
/// lines.
void registerPipelines();

/// A stage of the compiler.
struct Stage {
  /// Its flag is `--tandem-<name>`.
  llvm::StringLiteral name;
  llvm::StringLiteral summary;
  /// Adds what it does.
  void (*build)(mlir::OpPassManager &manager, const Options &options,
                const PlanExchange &exchange);
  /// Adds the verifier of its exit: all that the stages behind it rely on. It
  /// refuses IR that has not been through the stage, and IR of a later one.
  void (*verify)(mlir::OpPassManager &manager);
  /// Registers the flag; `enter` adds the verifier of what it is given.
  void (*registerFlag)(const Stage &stage,
                       void (*enter)(mlir::OpPassManager &));
};

/// Adds the passes of a stage, and the verifier of its exit.
void addStage(mlir::OpPassManager &manager, const Stage &stage,
              const Options &options = {}, const PlanExchange &exchange = {});

/// All stages up to `lower`, in order.
llvm::ArrayRef<Stage> getStages();

/// The stage of this name; null if there is none.
const Stage *findStage(llvm::StringRef name);

} // namespace tandem

#endif // TANDEM_PIPELINES_PIPELINES_H
