//===- work.h - resolved commands -------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_DRIVER_WORK_H
#define TANDEM_RT_CUDA_DRIVER_WORK_H

#include "cuda/driver/memory.h"
#include "tandem_rt/kernel.h"

#include <functional>

namespace tandem::rt::cuda {

/// One command of one rank, which is put into its queue's stream.
class Work {
public:
  virtual ~Work() = default;
  /// Returns at once; `iteration` is that of the Repeat around the command.
  virtual Status enqueue(CUstream stream, int64_t iteration) = 0;
};

/// Work, and what it uses as long as it is there.
template <typename Held> class Holding final : public Work {
public:
  Holding(Held held, std::unique_ptr<Work> work)
      : held(std::move(held)), work(std::move(work)) {}
  Status enqueue(CUstream stream, int64_t iteration) override {
    return work->enqueue(stream, iteration);
  }

private:
  Held held;
  std::unique_ptr<Work> work;
};

template <typename Held>
Expected<std::unique_ptr<Work>> hold(Held held,
                                     Expected<std::unique_ptr<Work>> work) {
  if (!work.ok())
    return work;
  return std::unique_ptr<Work>(
      std::make_unique<Holding<Held>>(std::move(held), std::move(*work)));
}

/// What plain kernels do, a thread per element or row, as neither a library nor
/// a quicker kernel does it.
struct PlainCounts {
  int64_t products = 0, functions = 0, attentions = 0, convolutions = 0;
};

/// What work is made from; all of it outlives the work.
struct WorkContext {
  const Program &program;
  int64_t rank;
  std::shared_ptr<Gpu> gpu;
  const RankMemory &memory;
  const std::vector<std::unique_ptr<Code>> &code;
  /// Where kernels of this rank report an index and read whether the step is
  /// refused: a tandem_rt_launch_report.
  CUdeviceptr report;
  /// Whether a check may refuse the step, so that what outlives it is written
  /// only where none has.
  bool isChecked;
  PlainCounts &plain;
  const class Algorithms &algorithms;
  /// Of the stream that the command is put into.
  Workspace &workspace;
};

/// The command has number `launch` in reports, from 1 on, or from -1 down where
/// it does nothing in a refused step, and is in a Repeat of `count` iterations.
/// Of launches, products, attention, convolutions, copies and fills.
Expected<std::unique_ptr<Work>> makeWork(const WorkContext &context,
                                         const Command &command, int64_t launch,
                                         int64_t count);

/// Numbers for a kernel of the runtime's own (kernels/words.h).
using Words = std::vector<int64_t>;

/// Calls a kernel of the runtime's own by blocks of a shape. `words` gives the
/// numbers of an iteration.
Expected<std::unique_ptr<Work>>
makeOwnWork(const std::shared_ptr<Gpu> &gpu, const std::string &symbol,
            const Geometry &geometry, int64_t count,
            const std::function<Words(int64_t)> &words);

/// Calls one that has a thread for each of `threads` elements.
Expected<std::unique_ptr<Work>>
makePlainWork(const std::shared_ptr<Gpu> &gpu, const std::string &symbol,
              int64_t threads, int64_t count,
              const std::function<Words(int64_t)> &words);

/// Copies bytes, unless the word at `refused` is set.
Expected<std::unique_ptr<Work>> makeCommit(const std::shared_ptr<Gpu> &gpu,
                                           Address source, Address destination,
                                           int64_t bytes, CUdeviceptr refused,
                                           int64_t count);

/// Copies bytes, always.
std::unique_ptr<Work> makeCopy(std::shared_ptr<Gpu> gpu, Address source,
                               Address destination, size_t bytes);

/// Does one after the other.
std::unique_ptr<Work> makeSequence(std::vector<std::unique_ptr<Work>> works);

Expected<std::unique_ptr<Work>> makeGemm(const WorkContext &context,
                                         const Gemm &gemm, int64_t count);
Expected<std::unique_ptr<Work>>
makeAttention(const WorkContext &context, const Attention &op, int64_t count);
Expected<std::unique_ptr<Work>> makeConvolution(const WorkContext &context,
                                                const Convolution &op,
                                                int64_t count);

/// One member's share of a collective among ranks of one GPU: its destination,
/// but for an all-reduce its part of everyone's. Posts are by place in the
/// group; `count` iterations.
struct Post {
  const Collective *op = nullptr;
  Address source, destination;
};
Expected<std::unique_ptr<Work>> makeShare(const std::shared_ptr<Gpu> &gpu,
                                          const std::vector<Post> &posts,
                                          size_t member, int64_t count);

inline int64_t wordOf(double value) {
  int64_t word;
  static_assert(sizeof word == sizeof value);
  __builtin_memcpy(&word, &value, sizeof word);
  return word;
}

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_DRIVER_WORK_H
