//===- executor.h - ranks as streams ----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_EXECUTOR_EXECUTOR_H
#define TANDEM_RT_CUDA_EXECUTOR_EXECUTOR_H

#include "core/executor.h"
#include "cuda/driver/gpu.h"

namespace tandem::rt::cuda {

/// Runs all ranks of the context on one GPU: a queue is a stream, an event an
/// event. The thread that calls step() enqueues the commands of all ranks in
/// the order of their listings, and waits at checks and at the end. A
/// collective or a transfer is enqueued when all who take part have come to it.
Expected<std::unique_ptr<Executor>>
createExecutor(const ExecutorContext &context, std::shared_ptr<Gpu> gpu);

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_EXECUTOR_EXECUTOR_H
