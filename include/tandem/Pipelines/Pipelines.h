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

namespace tandem {

/// Every dialect that a stage reads or writes.
void registerDialects(mlir::DialectRegistry &registry);

/// Every pass, and the pipeline of every stage, for command lines.
void registerPipelines();

} // namespace tandem

#endif // TANDEM_PIPELINES_PIPELINES_H
