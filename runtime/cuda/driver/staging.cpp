//===- staging.cpp - copies by way of pinned memory -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/driver/staging.h"

#include <algorithm>
#include <cstring>

namespace tandem::rt::cuda {

Staging::~Staging() {
  for (Half &half : halves) {
    if (half.stream)
      gpu.driver.streamDestroy(half.stream);
    if (half.memory)
      gpu.driver.memFreeHost(half.memory);
  }
}

Status Staging::prepare() {
  for (Half &half : halves) {
    if (half.stream)
      continue;
    void *memory = nullptr;
    Status status = gpu.check(gpu.driver.memHostAlloc(&memory, kPiece, 0),
                              "pin memory of the host");
    if (!status.ok())
      return status;
    half.memory = static_cast<char *>(memory);
    status = gpu.check(gpu.driver.streamCreate(&half.stream, kNonBlocking),
                       "make a stream");
    if (!status.ok())
      return status;
  }
  return Status::success();
}

Status Staging::settle(Half &half) {
  Status status =
      gpu.check(gpu.driver.streamSynchronize(half.stream), "copy by pieces");
  if (status.ok() && half.destination)
    std::memcpy(half.destination, half.memory, half.bytes);
  half.destination = nullptr;
  return status;
}

Status Staging::copyIn(CUdeviceptr to, const char *from, size_t bytes) {
  std::lock_guard lock(mutex);
  Status status = prepare();
  for (size_t at = 0, turn = 0; at < bytes && status.ok();
       at += kPiece, ++turn) {
    Half &half = halves[turn % halves.size()];
    size_t piece = std::min(kPiece, bytes - at);
    if (status = settle(half); !status.ok())
      return status;
    std::memcpy(half.memory, from + at, piece);
    status = gpu.check(
        gpu.driver.memcpyHtoDAsync(to + at, half.memory, piece, half.stream),
        "copy to the GPU");
  }
  for (Half &half : halves)
    if (status.ok())
      status = settle(half);
  return status;
}

Status Staging::copyOut(char *to, CUdeviceptr from, size_t bytes) {
  std::lock_guard lock(mutex);
  Status status = prepare();
  for (size_t at = 0, turn = 0; at < bytes && status.ok();
       at += kPiece, ++turn) {
    Half &half = halves[turn % halves.size()];
    if (status = settle(half); !status.ok())
      return status;
    half.destination = to + at;
    half.bytes = std::min(kPiece, bytes - at);
    status = gpu.check(gpu.driver.memcpyDtoHAsync(half.memory, from + at,
                                                  half.bytes, half.stream),
                       "copy from the GPU");
  }
  // The older piece first: the other one is on its way meanwhile.
  for (Half &half : halves)
    if (status.ok())
      status = settle(half);
  return status;
}

} // namespace tandem::rt::cuda
