//===- graph.cpp - CUDA graph of a step -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/executor/graph.h"

#include <utility>

namespace tandem::rt::cuda {

Graph::Graph(Graph &&other) noexcept
    : gpu(std::move(other.gpu)), exec(std::exchange(other.exec, nullptr)) {}
Graph &Graph::operator=(Graph &&other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(exec, other.exec);
  return *this;
}
Graph::~Graph() {
  if (!exec)
    return;
  if (Present present(*gpu); present.ok())
    gpu->driver.graphExecDestroy(exec);
}

/// A capture is ended whatever has become of it, or its streams are of no use.
Expected<Graph> Graph::capture(std::shared_ptr<Gpu> gpu, CUstream origin,
                               const std::function<Status()> &enqueue) {
  const Driver &driver = gpu->driver;
  Status status =
      gpu->check(driver.streamBeginCapture(origin, kCaptureThreadLocal),
                 "begin the graph of the step");
  if (!status.ok())
    return status;
  status = enqueue();
  CUgraph graph = nullptr;
  CUresult ended = driver.streamEndCapture(origin, &graph);
  if (status.ok())
    status = gpu->check(ended, "end the graph of the step");
  Graph made;
  if (status.ok())
    status =
        gpu->check(driver.graphInstantiate(&made.exec, graph, kUseNodePriority),
                   "make the graph of the step");
  if (graph)
    driver.graphDestroy(graph);
  made.gpu = std::move(gpu);
  if (!status.ok())
    return status;
  return made;
}

Status Graph::launch(CUstream stream) const {
  return gpu->check(gpu->driver.graphLaunch(exec, stream),
                    "launch the graph of the step");
}

} // namespace tandem::rt::cuda
