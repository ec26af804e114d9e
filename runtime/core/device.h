//===- device.h - device interface ------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_DEVICE_H
#define TANDEM_RT_CORE_DEVICE_H

#include "core/executor.h"
#include "core/slices.h"

namespace tandem::rt {

/// Memory of the device itself that is the caller's, and one of the caller's
/// streams: of a GPU a CUdeviceptr and a CUstream.
struct DevicePlace {
  uint64_t address = 0;
  uint64_t stream = 0;
};

/// A piece of a device's memory, freed with this.
class Buffer {
public:
  virtual ~Buffer() = default;

  /// Copy a range from and to memory of the host. Block. Not while a step uses
  /// the buffer.
  virtual Status copyIn(int64_t offset, const void *source, size_t bytes) = 0;
  virtual Status copyOut(int64_t offset, void *destination,
                         size_t bytes) const = 0;

  /// Copy a slice, which is all of the buffer, from and to a whole, of elements
  /// of so many bytes, in memory of the device. Return at once: they come
  /// behind what is in the caller's stream, and what uses the buffer comes
  /// behind them. A device whose memory is the host's has no such memory.
  virtual Status copyFrom(const Block &, int64_t, const DevicePlace &) {
    return noMemoryOfItsOwn();
  }
  virtual Status copyTo(const Block &, int64_t, const DevicePlace &) const {
    return noMemoryOfItsOwn();
  }

private:
  static Status noMemoryOfItsOwn() {
    return Status::error("the device has no memory of its own, expected a "
                         "tensor in the host's");
  }
};

/// One kind of device, with all that this process has of it.
class Device {
public:
  virtual ~Device() = default;

  /// Zeroed, for a rank of this process, at kMaxAlignment, in a memory space of
  /// a Program; a kind of memory that the device lacks is an error.
  virtual Expected<std::shared_ptr<Buffer>>
  allocate(int64_t rank, const MemorySpace &space, int64_t bytes) = 0;

  /// Prepares the ranks of this process. Buffers are of this device.
  virtual Expected<std::unique_ptr<Executor>>
  createExecutor(const ExecutorContext &context) = 0;

  /// Whether code for this target runs here, as far as that is known before
  /// there is a Program.
  virtual Status check(const Target &) const { return Status::success(); }

  /// Whether so many bytes can be allocated beside what has been; else an error
  /// that says what is free. Who cannot tell has room.
  virtual Status checkRoom(int64_t) const { return Status::success(); }
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_DEVICE_H
