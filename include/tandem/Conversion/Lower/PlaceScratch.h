//===- PlaceScratch.h - scratch of kernels in the arena ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a kernel needs beside its buffers is known once it is compiled. It lies
// in bytes of the arena that no buffer has while the kernel runs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_LOWER_PLACESCRATCH_H
#define TANDEM_CONVERSION_LOWER_PLACESCRATCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Sched/Sched.h"

namespace tandem {

struct ScratchPlaces {
  /// Bytes of the arena, with buffers and scratch.
  int64_t arena = 0;
  /// Of launches that have a scratch: where it begins, in bytes.
  llvm::DenseMap<mlir::Operation *, int64_t> offsets;
};

/// Places the scratch of a lowered step's launches; `getBytes` says how much
/// each needs. Buffers stay where they are; the arena, which has `arena` bytes,
/// grows where nothing is free.
ScratchPlaces
placeScratch(mlir::func::FuncOp step, int64_t arena,
             llvm::function_ref<int64_t(sched::LaunchOp)> getBytes);

} // namespace tandem

#endif // TANDEM_CONVERSION_LOWER_PLACESCRATCH_H
