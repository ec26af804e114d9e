//===- access.cpp - memory of the emulated GPU ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "emulator.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace tandem::rt::cuda::emulated {

namespace {
/// Makes an address one that no x86-64 or AArch64 host may touch.
constexpr uint64_t kTag = uint64_t(1) << 62;
constexpr size_t kPage = 4096;

struct Allocation {
  size_t bytes = 0, mapped = 0;
  CUdevice device = 0;
};

std::mutex mutex;
std::map<uint64_t, Allocation> allocations; ///< By the host's address.
/// Of the host, from which and to which the GPU copies.
std::map<uint64_t, size_t> pinned;
size_t used = 0, usedOfHost = 0;

size_t capacity() {
  return size_t(setting("TANDEM_EMULATED_MEMORY", int64_t(1) << 34));
}
} // namespace

int64_t setting(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

CUresult allocate(CUdeviceptr &address, size_t bytes) {
  std::lock_guard lock(mutex);
  if (bytes == 0)
    return kInvalidValue;
  if (used + bytes > capacity())
    return kOutOfMemory;
  size_t mapped = (bytes + kPage - 1) / kPage * kPage;
  void *start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED)
    return kOutOfMemory;
  std::memset(start, 0xff, bytes);
  allocations[uint64_t(start)] = {bytes, mapped, presentDevice()};
  used += bytes;
  address = uint64_t(start) | kTag;
  return kSuccess;
}

CUresult release(CUdeviceptr address) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(address & ~kTag);
  if (!(address & kTag) || found == allocations.end())
    return kInvalidValue;
  munmap(reinterpret_cast<void *>(found->first), found->second.mapped);
  used -= found->second.bytes;
  allocations.erase(found);
  return kSuccess;
}

void releaseAll(CUdevice device) {
  std::vector<CUdeviceptr> left;
  {
    std::lock_guard lock(mutex);
    for (const auto &[start, allocation] : allocations)
      if (allocation.device == device)
        left.push_back(start | kTag);
  }
  for (CUdeviceptr address : left)
    release(address);
}

void *pin(size_t bytes) {
  std::lock_guard lock(mutex);
  int64_t limit = setting("TANDEM_EMULATED_PINNED", int64_t(1) << 40);
  void *start =
      usedOfHost + bytes <= size_t(limit) ? std::malloc(bytes) : nullptr;
  if (start) {
    pinned[uint64_t(start)] = bytes;
    usedOfHost += bytes;
  }
  return start;
}

void unpin(void *start) {
  std::lock_guard lock(mutex);
  if (auto found = pinned.find(uint64_t(start)); found != pinned.end()) {
    usedOfHost -= found->second;
    pinned.erase(found);
  }
  std::free(start);
}

/// The same bytes, where they are of the host.
static char *pinnedOf(CUdeviceptr address, size_t bytes) {
  auto above = pinned.upper_bound(address);
  if (above == pinned.begin())
    return nullptr;
  auto [start, size] = *std::prev(above);
  uint64_t offset = address - start;
  return offset <= size && bytes <= size - offset
             ? reinterpret_cast<char *>(address)
             : nullptr;
}

void getMemory(size_t &free, size_t &total) {
  std::lock_guard lock(mutex);
  total = capacity();
  free = total - used;
}

char *hostOf(CUdeviceptr address, size_t bytes, std::string *why) {
  std::lock_guard lock(mutex);
  if (char *host = pinnedOf(address, bytes))
    return host;
  uint64_t place = address & ~kTag;
  auto above = allocations.upper_bound(place);
  bool isKnown = (address & kTag) && above != allocations.begin();
  if (isKnown) {
    auto [start, allocation] = *std::prev(above);
    uint64_t offset = place - start;
    if (offset <= allocation.bytes && bytes <= allocation.bytes - offset)
      return reinterpret_cast<char *>(place);
    isKnown = offset < allocation.mapped;
    if (why && isKnown)
      *why = std::to_string(bytes) + " bytes at " + std::to_string(offset) +
             " of an allocation of " + std::to_string(allocation.bytes);
  }
  if (why && !isKnown)
    *why = std::to_string(bytes) + " bytes at an address that is not " +
           "the device's";
  return nullptr;
}

Range allocationOf(CUdeviceptr address) {
  std::lock_guard lock(mutex);
  auto [start, allocation] =
      *std::prev(allocations.upper_bound(address & ~kTag));
  return {start | kTag, (start | kTag) + allocation.bytes,
          reinterpret_cast<char *>(start), allocation.device};
}

} // namespace tandem::rt::cuda::emulated
