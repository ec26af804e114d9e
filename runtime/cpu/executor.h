//===- executor.h - ranks as threads ----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_EXECUTOR_H
#define TANDEM_RT_CPU_EXECUTOR_H

#include "core/executor.h"

namespace tandem::rt::cpu {

/// Each rank has a thread that computes and one that communicates.
Expected<std::unique_ptr<Executor>>
createExecutor(const ExecutorContext &context);

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_EXECUTOR_H
