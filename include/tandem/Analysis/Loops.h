//===- Loops.h - nn operators as loops --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_LOOPS_H
#define TANDEM_ANALYSIS_LOOPS_H

#include "tandem/Analysis/Nest.h"
#include <optional>

namespace tandem {

/// The loops of an nn or spmd operator that may share a nest with others. None
/// for matmul, for operators with a loop of their own (cumsum, topk,
/// scatter_add, embedding_backward), for reshape (`Nest::tryAddReshape`) and
/// for constants, iota and coordinate, which need no loop.
std::optional<LoopOp> getLoops(mlir::Operation *op);

} // namespace tandem

#endif // TANDEM_ANALYSIS_LOOPS_H
