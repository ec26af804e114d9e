//===- Pipelines.h - the stages in order ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The way of the data, import to lower. Each stage is a pipeline
// `--tandem-<stage>` of `tandem-opt`, with a verifier at its exit.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PIPELINES_PIPELINES_H
#define TANDEM_PIPELINES_PIPELINES_H

#include "mlir/IR/DialectRegistry.h"
#include "tandem/Transforms/Plan/Plan.h"

namespace tandem {

/// Every dialect that a stage reads or writes.
void registerDialects(mlir::DialectRegistry &registry);

/// Every pass, and the pipeline of every stage, for command lines.
void registerPipelines();

/// A stage: its name, and how it is put into a pass manager.
struct Stage {
  llvm::StringLiteral name;
  void (*build)(mlir::OpPassManager &manager, const PlanOptions &plan);
};

/// All stages up to `lower`, in order.
llvm::ArrayRef<Stage> getStages();

} // namespace tandem

#endif // TANDEM_PIPELINES_PIPELINES_H
