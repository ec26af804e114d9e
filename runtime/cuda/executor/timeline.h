//===- timeline.h - times of commands ---------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_EXECUTOR_TIMELINE_H
#define TANDEM_RT_CUDA_EXECUTOR_TIMELINE_H

#include "cuda/driver/rank.h"
#include "tandem_rt/trace.h"

#include <functional>

namespace tandem::rt::cuda {

/// Times of one step's commands, by events around each.
class StreamTimes {
public:
  explicit StreamTimes(std::shared_ptr<Gpu> gpu) : gpu(std::move(gpu)) {}

  /// The GPU's clock meets the host's here; blocks.
  Status begin(CUstream stream);
  /// Around what `body` enqueues.
  Status around(const Rank &rank, const Entry &entry,
                const std::function<Status()> &body);
  /// Once all is done.
  Status collect(int64_t step, Trace &trace) const;

private:
  struct Timed {
    const Rank *rank;
    uint32_t command, iteration;
    Event begin, end;
  };
  Status record(const Event &event, CUstream stream) const {
    return gpu->check(gpu->driver.eventRecord(event.get(), stream),
                      "record an event");
  }

  std::shared_ptr<Gpu> gpu;
  Event epoch;
  int64_t epochNanos = 0;
  std::vector<Timed> timed;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_EXECUTOR_TIMELINE_H
