//===- read_guard.cpp - mapped files that may shrink ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/read_guard.h"

#include <csignal>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace tandem::rt {

namespace {
/// Of all threads. Who finds no place reads without a guard, as others do.
constexpr size_t kMaxGuards = 256;
ReadGuard::Slot slots[kMaxGuards];
/// What a signal that is of no guard goes to.
struct sigaction before;
/// It went there, and came back.
std::atomic<bool> handedBack;
const uintptr_t pageBytes = uintptr_t(sysconf(_SC_PAGESIZE));

uintptr_t pageOf(uintptr_t address) { return address & ~(pageBytes - 1); }

/// Zeros in place of all that the range has from this page on: where a file has
/// ended, the rest of it has. Nothing here but a system call.
bool fill(ReadGuard::Slot &slot, uintptr_t page) {
  uintptr_t end = slot.end;
  void *made =
      mmap(reinterpret_cast<void *>(page), end - page, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return made != MAP_FAILED;
}

/// Every guard of the page hears of it.
bool tear(uintptr_t address) {
  uintptr_t page = pageOf(address);
  bool filled = false;
  for (ReadGuard::Slot &slot : slots) {
    uintptr_t begin = slot.begin;
    if (begin == 0 || address < pageOf(begin) || address >= slot.end)
      continue;
    if (!fill(slot, page))
      return false;
    filled = true;
    uintptr_t none = 0;
    if (!slot.torn.compare_exchange_strong(none, page))
      while (page < none && !slot.torn.compare_exchange_weak(none, page))
        ;
  }
  return filled;
}

/// The access is repeated, and its signal goes to the handler before; one that
/// was sent is sent again. Where that handler calls this one again, the process
/// ends.
void handBack(const siginfo_t *info) {
  if (handedBack.exchange(true))
    signal(SIGBUS, SIG_DFL);
  else
    sigaction(SIGBUS, &before, nullptr);
  if (info->si_code <= 0)
    raise(SIGBUS);
}

void handle(int, siginfo_t *info, void *) {
  bool isMissing = info->si_code == BUS_ADRERR;
  if (!isMissing || !tear(reinterpret_cast<uintptr_t>(info->si_addr)))
    handBack(info);
}

/// Another library may have installed its own behind it: PyTorch's workers,
/// Python's faulthandler and LLVM have one.
void install() {
  static std::mutex installing;
  std::lock_guard lock(installing);
  struct sigaction now{};
  sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle)
    return;
  before = now;
  handedBack = false;
  struct sigaction ours{};
  ours.sa_sigaction = handle;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &ours, nullptr);
}

/// As they were: a file without bytes is mapped there.
void letGo(uintptr_t page, uintptr_t end) {
  int empty = memfd_create("tandem-missing", MFD_CLOEXEC);
  if (empty < 0)
    return;
  mmap(reinterpret_cast<void *>(page), end - page, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_FIXED, empty, 0);
  close(empty);
}
} // namespace

ReadGuard::ReadGuard(const void *memory, size_t bytes) {
  uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
  if (bytes == 0)
    return;
  install();
  for (Slot &free : slots) {
    uintptr_t none = 0;
    // A place is taken by its end, and looked at once it has a begin.
    if (free.begin != 0 || free.end != 0 ||
        !free.end.compare_exchange_strong(none, begin + bytes))
      continue;
    free.torn = 0;
    free.begin = begin;
    slot = &free;
    return;
  }
}

void ReadGuard::end() {
  if (!slot)
    return;
  uintptr_t torn = slot->torn, end = slot->end;
  slot->begin = 0;
  if (torn)
    letGo(torn, end);
  slot->end = 0;
  slot = nullptr;
}

Status ReadGuard::check() const {
  if (!slot || slot->torn == 0)
    return Status::success();
  return Status::error("lies in a file that has become shorter, or cannot be "
                       "read, since it was mapped");
}

} // namespace tandem::rt
