//===- graph.h - CUDA graph of a step ---------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_EXECUTOR_GRAPH_H
#define TANDEM_RT_CUDA_EXECUTOR_GRAPH_H

#include "cuda/driver/gpu.h"

#include <functional>

namespace tandem::rt::cuda {

/// What was put into streams once, as a CUDA graph: launching it takes the host
/// one call, and keeps nothing but the order that streams and events gave.
class Graph {
public:
  Graph() = default;
  Graph(Graph &&other) noexcept;
  Graph &operator=(Graph &&other) noexcept;
  ~Graph();

  /// Calls `enqueue`, which does nothing but to put work behind `origin`, and
  /// has all of it come before the end of `origin`. Nothing of it is done.
  static Expected<Graph> capture(std::shared_ptr<Gpu> gpu, CUstream origin,
                                 const std::function<Status()> &enqueue);

  bool isEmpty() const { return !exec; }
  Status launch(CUstream stream) const;

private:
  std::shared_ptr<Gpu> gpu;
  CUgraphExec exec = nullptr;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_EXECUTOR_GRAPH_H
