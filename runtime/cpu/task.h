//===- task.h - resolved commands -------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_TASK_H
#define TANDEM_RT_CPU_TASK_H

#include "core/communicator.h"
#include "cpu/code_object.h"
#include "cpu/crew.h"
#include "cpu/events.h"
#include "cpu/memory.h"
#include "cpu/product_ways.h"
#include "cpu/right_of_way.h"

namespace tandem::rt::cpu {

/// One command of one rank: buffers are addresses, symbols are functions,
/// groups are communicators. Run by the thread of its queue.
class Task {
public:
  virtual ~Task() = default;
  /// Of the Repeat around the command; 0 outside.
  virtual Status run(int64_t iteration) = 0;
};

/// What tasks are made from; all of it outlives them.
struct TaskContext {
  const Program &program;
  int64_t rank;
  const RankMemory &memory;
  const std::vector<std::unique_ptr<LoadedCode>> &code;
  Fabric &fabric;
  EventBoard &events;
  RightOfWay &rightOfWay;
  int threads; ///< Cores that libraries may use.
  /// Null: all are plain.
  const ProductWays *ways = nullptr;
  /// Of the compute queue, with `threads` cores; null: one core.
  Crew *crew = nullptr;
  /// Whether values are there to be checked: not where commands take given
  /// times.
  bool computes = true;
  /// Whether commands are looked at that make numbers which are not finite.
  bool checksNumbers = false;
  /// Told of what commands wrote; null: nobody is.
  ValueRecorder *recorder = nullptr;
};

Expected<std::unique_ptr<Task>> makeTask(const TaskContext &context,
                                         const Command &command);

/// f32 and bf16 by oneDNN, f64 by CBLAS. oneDNN takes its scratchpad from the
/// workspace where it is large enough, else it has one of its own.
Expected<std::unique_ptr<Task>>
makeGemm(const TaskContext &context, const Gemm &gemm,
         const std::optional<BufferRef> &workspace);
Expected<std::unique_ptr<Task>>
makeDnnlGemm(const TaskContext &context, const Gemm &gemm,
             const std::optional<BufferRef> &workspace);
Expected<std::unique_ptr<Task>> makeBlasGemm(const TaskContext &context,
                                             const Gemm &gemm);

/// By blocks of queries and keys, whose products are oneDNN's (f32, bf16) or
/// CBLAS' (f64). Memory for blocks belongs to the thread that runs it.
Expected<std::unique_ptr<Task>> makeAttention(const TaskContext &context,
                                              const Attention &attention);

/// f32 and bf16 by oneDNN, f64 as products of CBLAS. Copies in the layouts of
/// oneDNN's and its scratchpad, or the rows of a product, lie in the workspace
/// as far as it has room, else in memory of their own, as those in f32 do of
/// bf16 that oneDNN does not multiply (cpu/bf16.h).
Expected<std::unique_ptr<Task>>
makeConvolution(const TaskContext &context, const Convolution &convolution,
                const std::optional<BufferRef> &workspace);
Expected<std::unique_ptr<Task>>
makeDnnlConvolution(const TaskContext &context, const Convolution &convolution,
                    const std::optional<BufferRef> &workspace);
Expected<std::unique_ptr<Task>>
makeBlasConvolution(const TaskContext &context, const Convolution &convolution,
                    const std::optional<BufferRef> &workspace);

/// A check; `communicator` is that of its group, null if it is not combined.
Expected<std::unique_ptr<Task>>
makeCheck(const TaskContext &context, const Check &check,
          std::unique_ptr<Communicator> communicator);

/// Cores that oneDNN may use when the calling thread calls it, as long as this
/// lives.
class LibraryThreads {
public:
  explicit LibraryThreads(int threads);
  ~LibraryThreads();

private:
  const int before;
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_TASK_H
