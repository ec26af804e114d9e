//===- executor.h - runs the ranks of a Program -----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_EXECUTOR_H
#define TANDEM_RT_CORE_EXECUTOR_H

#include "core/communicator.h"
#include "tandem_rt/trace.h"

#include <memory>

namespace tandem::rt {

struct ExecutorOptions {
  /// Cores of one rank's compute thread.
  int threads = 1;
};

/// How a step ended.
enum class StepOutcome {
  Done,
  /// A CheckFinite said no: nothing that outlives the step was written.
  Refused,
  /// Arguments may be half updated.
  Failed,
};

struct StepReport {
  StepOutcome outcome = StepOutcome::Done;
  Status status;
};

/// The ranks of one Program that live in this process, on one kind of device.
/// Not thread-safe.
class Executor {
public:
  virtual ~Executor() = default;

  /// Runs all commands of all ranks once. Blocks. `number` is for messages.
  virtual StepReport step(int64_t number) = 0;

  /// Where a rank's range lies in memory of the host; valid between steps, for
  /// the life of the executor. Devices with memory of their own copy instead
  /// (a later interface).
  virtual void *hostPointer(int64_t rank, const BufferRef &ref) = 0;

  /// Events are appended to `trace` while it is set; null stops.
  virtual void setTrace(Trace *trace) = 0;
};

/// Each rank has a thread that computes and one that communicates. `program`
/// must be verified, and outlive the executor.
Expected<std::unique_ptr<Executor>>
createCpuExecutor(const Program &program, const ExecutorOptions &options,
                  std::shared_ptr<Fabric> fabric);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_EXECUTOR_H
