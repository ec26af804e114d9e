//===- board.cpp - messages of a step to the host -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/executor/board.h"

#include <cstring>

namespace tandem::rt::cuda {

Expected<StatusBoard> StatusBoard::create(std::shared_ptr<Gpu> gpu,
                                          size_t ranks, size_t checks) {
  StatusBoard board;
  board.gpu = gpu;
  board.wordsPerRank = sizeof(tandem_rt_launch_report) / 8 + checks;
  board.bytes = ranks * board.wordsPerRank * sizeof(int64_t);
  Expected<Memory> device = Memory::allocate(gpu, int64_t(board.bytes));
  if (!device.ok())
    return device.status();
  board.device = std::move(*device);
  Expected<PinnedMemory> host = PinnedMemory::allocate(gpu, board.bytes);
  if (!host.ok())
    return host.status();
  board.host = std::move(*host);
  std::memset(board.host.as<void>(), 0, board.bytes);
  return board;
}

Status StatusBoard::clear(CUstream stream) const {
  return gpu->check(
      gpu->driver.memsetD8Async(device.address(), 0, bytes, stream),
      "clear the step's status");
}

Status StatusBoard::fetch(CUstream stream) const {
  return gpu->check(gpu->driver.memcpyDtoHAsync(
                        host.as<void>(), device.address(), bytes, stream),
                    "read the step's status");
}

} // namespace tandem::rt::cuda
