//===- Strands.h - runs beside each other -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs of a group are listed in slices, a slice of each strand in turn. A slice
// ends where the computation of its run waits for what the slice has begun to
// communicate: the next slices of the other strands compute meanwhile. So all
// groups list the same commands of an action, whatever lies beside it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_EMIT_STRANDS_H
#define TANDEM_LIB_CONVERSION_EMIT_STRANDS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Sched/Points.h"
#include "tandem_rt/program.h"
#include "llvm/ADT/StringMap.h"
#include <vector>

namespace tandem {

/// The Programs of actions, by name.
using ActionPrograms = llvm::StringMap<const rt::Program *>;

/// The queue of computation.
constexpr uint32_t kCompute = 0;

/// Commands [begin, end) of the action of a run. The last slice of a run that
/// communicates is empty: behind it, computation waits for the other queues.
struct Slice {
  sched::RunOp run;
  size_t begin = 0, end = 0;
  bool isFirst = false, isLast = false;
};

/// By the first run of each group: the slices of all its runs. A run without a
/// strand is a group and a slice.
using Listing = llvm::DenseMap<mlir::Operation *, std::vector<Slice>>;

/// The order in which a point lists its runs. What strands add to one sum stays
/// in the order of the runs.
Listing listRuns(mlir::func::FuncOp function, const ActionPrograms &actions);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_EMIT_STRANDS_H
