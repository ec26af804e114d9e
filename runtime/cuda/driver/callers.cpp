//===- callers.cpp - tensors and streams of the caller --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/driver/callers.h"
#include "core/device.h"
#include "core/text.h"

#include <limits>

namespace tandem::rt::cuda {

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Callers::~Callers() {
  for (auto &[stream, entry] : noted)
    gpu.driver.eventDestroy(entry.event);
}

Status Callers::note(CUstream caller) {
  std::lock_guard lock(mutex);
  Noted &entry = noted[caller];
  Status status;
  if (!entry.event)
    status = gpu.check(gpu.driver.eventCreate(&entry.event, kDisableTiming),
                       "make an event");
  if (status.ok())
    status = gpu.check(gpu.driver.eventRecord(entry.event, caller),
                       "record an event in the caller's stream");
  entry.isPending |= status.ok();
  return status;
}

Status Callers::comeBefore(CUstream stream) {
  std::lock_guard lock(mutex);
  for (auto &[caller, entry] : noted) {
    if (!entry.isPending)
      continue;
    if (Status status =
            gpu.check(gpu.driver.streamWaitEvent(stream, entry.event, 0),
                      "wait for the caller's stream");
        !status.ok())
      return status;
    entry.isPending = false;
  }
  return Status::success();
}

Status Callers::finish() {
  std::lock_guard lock(mutex);
  for (auto &[caller, entry] : noted) {
    if (!entry.isPending)
      continue;
    if (Status status = gpu.check(gpu.driver.eventSynchronize(entry.event),
                                  "wait for the caller's stream");
        !status.ok())
      return status;
    entry.isPending = false;
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

namespace {
/// Strides in bytes.
struct Loop {
  int64_t count, whole, slice;
};

/// As few loops as there can be, the outermost first; the last one is of bytes.
std::vector<Loop> loopsOf(const Block &block, int64_t width) {
  std::vector<Loop> loops = {{width, 1, 1}};
  for (size_t dim = block.extents.size(); dim-- > 0;) {
    Loop next{block.extents[dim], block.wholeStrides[dim] * width,
              block.sliceStrides[dim] * width};
    Loop &inner = loops.front();
    if (next.count == 1)
      continue;
    if (next.whole == inner.count * inner.whole &&
        next.slice == inner.count * inner.slice)
      inner.count *= next.count;
    else
      loops.insert(loops.begin(), next);
  }
  return loops;
}

/// Copies of rows that lie apart.
class BlockCopy {
public:
  BlockCopy(const Gpu &gpu, CUstream stream, std::vector<Loop> loops,
            bool isFromWhole)
      : gpu(gpu), stream(stream), loops(std::move(loops)),
        isFromWhole(isFromWhole) {}

  Status run(size_t depth, CUdeviceptr whole, CUdeviceptr slice) const {
    size_t left = loops.size() - depth;
    const Loop &loop = loops[depth];
    // What the driver takes for a pitch.
    constexpr int64_t kMostPitch = std::numeric_limits<int32_t>::max();
    if (left == 1)
      return copy({1, loop.count, loop.count}, whole, slice);
    if (left == 2 && std::max(loop.whole, loop.slice) <= kMostPitch)
      return copy(loop, whole, slice);
    for (int64_t i = 0; i < loop.count; ++i)
      if (Status status = run(depth + 1, whole + uint64_t(i * loop.whole),
                              slice + uint64_t(i * loop.slice));
          !status.ok())
        return status;
    return Status::success();
  }

private:
  Status copy(const Loop &rows, CUdeviceptr whole, CUdeviceptr slice) const {
    CudaCopy2D op;
    CudaCopy2D::Side &ofWhole = isFromWhole ? op.source : op.destination;
    CudaCopy2D::Side &ofSlice = isFromWhole ? op.destination : op.source;
    ofWhole.device = whole, ofWhole.pitch = size_t(rows.whole);
    ofSlice.device = slice, ofSlice.pitch = size_t(rows.slice);
    op.width = size_t(loops.back().count), op.height = size_t(rows.count);
    if (rows.count > 1)
      return gpu.check(gpu.driver.memcpy2DAsync(&op, stream), "copy a tensor");
    return gpu.check(gpu.driver.memcpyDtoDAsync(op.destination.device,
                                                op.source.device, op.width,
                                                stream),
                     "copy a tensor");
  }

  const Gpu &gpu;
  CUstream stream;
  const std::vector<Loop> loops;
  bool isFromWhole;
};

Status checkAddress(const Gpu &gpu, CUdeviceptr address) {
  unsigned type = 0;
  int device = 0;
  CUresult result =
      gpu.driver.pointerGetAttribute(&type, kMemoryTypeOf, address);
  if (result == kSuccess)
    result = gpu.driver.pointerGetAttribute(&device, kDeviceOf, address);
  if (result != kSuccess || type != kDeviceMemory)
    return errorOf("the tensor is in no memory of a GPU");
  if (device != gpu.getNumber())
    return errorOf("the tensor is in memory of GPU ", device,
                   ", expected that of GPU ", gpu.getNumber(),
                   ", which this process has");
  return Status::success();
}
} // namespace

Status copyBlock(const Gpu &gpu, const Block &block, int64_t width,
                 CUdeviceptr slice, const DevicePlace &whole,
                 bool isFromWhole) {
  if (numElements(block.extents) == 0)
    return Status::success();
  if (Status status = checkAddress(gpu, whole.address); !status.ok())
    return status;
  auto stream = reinterpret_cast<CUstream>(whole.stream);
  BlockCopy copy(gpu, stream, loopsOf(block, width), isFromWhole);
  return copy.run(0, whole.address + uint64_t(block.wholeOffset * width),
                  slice);
}

} // namespace tandem::rt::cuda
