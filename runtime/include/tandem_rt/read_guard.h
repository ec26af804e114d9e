//===- read_guard.h - mapped files that may shrink --------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory that maps a file raises SIGBUS where the file has become shorter, or
// the disk fails. While it is guarded, what is missing reads as zeros, and the
// guard says so: who has read refuses what came of it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_READ_GUARD_H
#define TANDEM_RT_READ_GUARD_H

#include "tandem_rt/status.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tandem::rt {

/// Guards memory while it lives, whichever thread reads it; guards may overlap.
/// Pages that were missing raise SIGBUS again once it has ended, which has to
/// be before the memory is unmapped. Installs a handler of the process, again
/// if another took its place, which hands all other signals to the one before.
class ReadGuard {
public:
  ReadGuard(const void *memory, size_t bytes);
  ~ReadGuard() { end(); }
  ReadGuard(const ReadGuard &) = delete;
  ReadGuard &operator=(const ReadGuard &) = delete;

  /// An error, once something was missing and until it has ended.
  Status check() const;
  void end();

  /// A range that the handler knows.
  struct Slot {
    /// 0: nobody's.
    std::atomic<uintptr_t> begin = 0, end = 0;
    /// The first page that was missing, or 0.
    std::atomic<uintptr_t> torn = 0;
  };

private:
  Slot *slot = nullptr;
};

} // namespace tandem::rt

#endif // TANDEM_RT_READ_GUARD_H
