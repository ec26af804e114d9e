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
#include "tandem_rt/command_times.h"

#include <functional>
#include <set>

namespace tandem::rt {

class Buffer;
class ValueRecorder;

/// The slices of one tensor: a buffer per rank of this process.
using RankBuffers = std::vector<std::shared_ptr<Buffer>>;

struct ExecutorOptions {
  /// Cores of one rank's compute thread.
  int threads = 1;
  /// Of SessionOptions; null: commands are done.
  std::shared_ptr<const CommandTimes> times = {};
  bool oneQueue = false;
  bool graph = true;
  std::function<bool()> isCancelled = {}; ///< Of SessionOptions; may be empty.
  bool checksNumbers = false;
  std::shared_ptr<ValueRecorder> recorder = {}; ///< Of SessionOptions.
};

/// What an executor is made from. `program` is verified, and outlives it.
struct ExecutorContext {
  const Program &program;
  /// Those of this process, ascending.
  std::vector<int64_t> ranks;
  /// By argument, and by result; a result that lies in an argument has none.
  std::vector<RankBuffers> arguments, results;
  std::shared_ptr<Fabric> fabric;
  ExecutorOptions options;
};

/// The ranks of one Program that live in this process, on one kind of device.
/// Not thread-safe.
class Executor {
public:
  virtual ~Executor() = default;

  /// Runs all commands of all ranks once. Blocks. `number` is for messages.
  /// After a step that was refused or has failed the next one starts as new.
  virtual Status step(int64_t number) = 0;

  /// The arguments that the last step may have written on a rank of this
  /// process, when it failed.
  virtual std::set<uint32_t> writtenArguments() const = 0;

  /// A line for people on what this machine lacks, and what stands for it, at
  /// the cost of time alone; empty: nothing.
  virtual std::string notice() const { return {}; }

  /// Bytes of memory that the device has in all, which ranks here share.
  virtual int64_t memoryBytes() const = 0;

  /// Events are appended to `trace` while it is set; null stops.
  virtual void setTrace(Trace *trace) = 0;
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_EXECUTOR_H
