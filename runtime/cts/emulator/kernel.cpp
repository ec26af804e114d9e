//===- kernel.cpp - launches on the emulated GPU --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "emulator.h"

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <numeric>

namespace tandem::rt::cuda::emulated {

namespace {
/// Shared memory of a block, and who touched each four bytes of it since the
/// last barrier: two threads, one of them writing, are an error.
class Shared {
public:
  explicit Shared(size_t bytes)
      : bytes(bytes), words((bytes + kWord - 1) / kWord) {
    memory.resize(words.size() * kWord);
  }
  /// For the next block, with nothing in it.
  void clear() {
    std::memset(memory.data(), 0xff, memory.size());
    for (Word &word : words)
      word = {};
    epoch = 1;
  }
  void passBarrier() { ++epoch; }
  char *access(uint64_t address, int64_t size, bool writes, uint32_t thread,
               std::string &why);

private:
  static constexpr size_t kWord = 4;
  static constexpr uint32_t kSeveral = UINT32_MAX;
  struct Word {
    uint32_t writeEpoch = 0, writer = 0, readEpoch = 0, reader = 0;
  };
  bool touch(Word &word, bool writes, uint32_t thread);

  size_t bytes;
  std::vector<char> memory;
  std::vector<Word> words;
  uint32_t epoch = 1;
};

bool Shared::touch(Word &word, bool writes, uint32_t thread) {
  if (word.writeEpoch == epoch && word.writer != thread)
    return false;
  if (writes) {
    if (word.readEpoch == epoch && word.reader != thread)
      return false;
    word.writeEpoch = epoch;
    word.writer = thread;
  } else {
    bool isOther = word.readEpoch == epoch && word.reader != thread;
    word.readEpoch = epoch;
    word.reader = isOther ? kSeveral : thread;
  }
  return true;
}

char *Shared::access(uint64_t address, int64_t size, bool writes,
                     uint32_t thread, std::string &why) {
  uint64_t offset = address - TANDEM_RT_EMULATED_SHARED;
  if (offset > bytes || uint64_t(size) > bytes - offset) {
    why = std::to_string(size) + " bytes at " + std::to_string(offset) +
          " of " + std::to_string(bytes) + " bytes of shared memory";
    return nullptr;
  }
  for (uint64_t at = offset / kWord; at * kWord < offset + uint64_t(size); ++at)
    if (!touch(words[at], writes, thread)) {
      why = "shared memory at " + std::to_string(offset) +
            " that another thread has touched since the last barrier";
      return nullptr;
    }
  return memory.data() + offset;
}

/// One launch.
class Grid {
public:
  explicit Grid(const Launch &launch)
      : launch(launch), shared(launch.sharedBytes),
        numThreads(launch.block[0] * launch.block[1] * launch.block[2]) {
    for (const uint64_t &parameter : launch.parameters)
      parameters.push_back(const_cast<uint64_t *>(&parameter));
    parameters.push_back(nullptr); // for kernels that count them
  }
  CUresult run();

private:
  struct Thread : tandem_rt_emulated_thread {
    Grid *self;
    uint32_t index;
  };
  static void *accessHook(tandem_rt_emulated_thread *thread, uint64_t address,
                          int64_t bytes, int32_t kind);
  static void barrierHook(tandem_rt_emulated_thread *thread);
  static uint32_t shuffleHook(tandem_rt_emulated_thread *thread, uint32_t value,
                              uint32_t distance);
  static void mmaHook(tandem_rt_emulated_thread *thread, int32_t kind,
                      const uint32_t *a, const uint32_t *b, float *upper,
                      float *lower);
  static void loadMatricesHook(tandem_rt_emulated_thread *thread,
                               uint64_t address, int32_t isTransposed,
                               uint32_t *to);
  const Given *warpOf(const Thread &thread) const {
    return given.data() + thread.index / 32 * 32;
  }
  bool beginRound();
  void *access(const Thread &thread, uint64_t address, int64_t bytes,
               int32_t kind);
  [[noreturn]] void leaveLaunch();
  bool runBlock(uint64_t number);
  Thread makeThread(uint64_t block, uint32_t index);
  static std::array<uint32_t, 3> split(uint64_t index,
                                       const std::array<uint32_t, 3> &sizes) {
    return {uint32_t(index % sizes[0]), uint32_t(index / sizes[0] % sizes[1]),
            uint32_t(index / sizes[0] / sizes[1])};
  }

  const Launch &launch;
  Shared shared;
  uint32_t numThreads;
  std::vector<void *> parameters;
  jmp_buf end;
  CUresult error = kSuccess;
  /// What each thread gives to others of its warp, and how many of this round
  /// are at a barrier: all or none.
  std::vector<Given> given;
  uint32_t numAtBarrier = 0;
  alignas(16) std::array<uint64_t, 2> lost =
      {}; ///< Takes what Mistake::NoWrite writes.
  /// Allocations that were asked for last: none is freed while a kernel runs.
  std::array<Range, 8> known = {};
  size_t next = 0;
};

Grid::Thread Grid::makeThread(uint64_t block, uint32_t index) {
  Thread thread = {};
  thread.self = this;
  thread.index = index;
  auto set = [](uint32_t *to, const std::array<uint32_t, 3> &from) {
    std::copy(from.begin(), from.end(), to);
  };
  set(thread.thread, split(index, launch.block));
  set(thread.block, split(block, launch.grid));
  set(thread.block_size, launch.block);
  set(thread.grid_size, launch.grid);
  thread.access = accessHook;
  thread.barrier = barrierHook;
  thread.shuffle = shuffleHook;
  thread.mma = mmaHook;
  thread.load_matrices = loadMatricesHook;
  return thread;
}

void *Grid::accessHook(tandem_rt_emulated_thread *thread, uint64_t address,
                       int64_t bytes, int32_t kind) {
  auto &self = static_cast<Thread &>(*thread);
  const void *from = __builtin_return_address(0);
  bool writes = kind & TANDEM_RT_EMULATED_WRITE;
  Mistake mistake =
      writes ? mistakeAt(from, {Mistake::WriteBehind, Mistake::NoWrite})
             : mistakeAt(from, {Mistake::ReadBehind});
  if (areMistakesWatched && areCallsEndless()) {
    self.self->error = fail(kLaunchFailed, "a kernel does not end");
    self.self->leaveLaunch();
  }
  if (mistake == Mistake::NoWrite)
    return self.self->lost.data();
  if (mistake != Mistake::None)
    address += uint64_t(bytes);
  if (void *place = self.self->access(self, address, bytes, kind))
    return place;
  self.self->leaveLaunch();
}

void Grid::barrierHook(tandem_rt_emulated_thread *thread) {
  if (mistakeAt(__builtin_return_address(0), {Mistake::NoBarrier}) !=
      Mistake::None)
    return;
  ++static_cast<Thread &>(*thread).self->numAtBarrier;
  yield();
}

/// All have given before the first one takes, and taken before the next one is
/// given.
uint32_t Grid::shuffleHook(tandem_rt_emulated_thread *thread, uint32_t value,
                           uint32_t distance) {
  if (mistakeAt(__builtin_return_address(0), {Mistake::NoShuffle}) !=
      Mistake::None)
    return value;
  auto &self = static_cast<Thread &>(*thread);
  std::vector<Given> &given = self.self->given;
  given[self.index].a[0] = value;
  yield();
  uint32_t other = self.index ^ distance;
  uint32_t taken = other < self.self->numThreads ? given[other].a[0] : value;
  yield();
  return taken;
}

void Grid::mmaHook(tandem_rt_emulated_thread *thread, int32_t kind,
                   const uint32_t *a, const uint32_t *b, float *upper,
                   float *lower) {
  auto &self = static_cast<Thread &>(*thread);
  Given &own = self.self->given[self.index];
  std::copy_n(a, own.a.size(), own.a.begin());
  std::copy_n(b, own.b.size(), own.b.begin());
  yield();
  multiplyFragments(kind, self.self->warpOf(self), self.index % 32, upper,
                    lower);
  yield();
}

/// Of each matrix two neighbours of a row, or of a column.
void Grid::loadMatricesHook(tandem_rt_emulated_thread *thread, uint64_t address,
                            int32_t isTransposed, uint32_t *to) {
  auto &self = static_cast<Thread &>(*thread);
  constexpr uint64_t kRowBytes = 16;
  Given &own = self.self->given[self.index];
  own.a = {uint32_t(address), uint32_t(address >> 32)};
  if (address % kRowBytes) // reports it
    accessHook(thread, address, kRowBytes, TANDEM_RT_EMULATED_OF_SHARED);
  yield();
  const Given *warp = self.self->warpOf(self);
  uint32_t lane = self.index % 32, row = lane / 4, pair = lane % 4 * 2;
  for (uint32_t matrix = 0; matrix < 4; ++matrix)
    for (uint32_t half = 0; half < 2; ++half) {
      uint32_t from = isTransposed ? pair + half : row;
      uint32_t column = isTransposed ? row : pair + half;
      const Given &given = warp[matrix * 8 + from];
      uint64_t place = uint64_t(given.a[1]) << 32 | given.a[0];
      uint16_t value;
      std::memcpy(&value,
                  accessHook(thread, place + column * 2, 2,
                             TANDEM_RT_EMULATED_OF_SHARED),
                  sizeof value);
      to[matrix] = half ? to[matrix] | uint32_t(value) << 16 : value;
    }
  yield();
}

/// A shuffle orders no accesses.
bool Grid::beginRound() {
  bool isBarrier = numAtBarrier == numThreads, isNone = numAtBarrier == 0;
  numAtBarrier = 0;
  if (isBarrier)
    shared.passBarrier();
  return isBarrier || isNone;
}

void Grid::leaveLaunch() {
  if (launch.kernel->waits)
    leave();
  longjmp(end, 1);
}

void *Grid::access(const Thread &thread, uint64_t address, int64_t bytes,
                   int32_t kind) {
  bool writes = kind & TANDEM_RT_EMULATED_WRITE;
  bool isShared = kind & TANDEM_RT_EMULATED_OF_SHARED;
  bool isAligned = address % uint64_t(bytes) == 0;
  if (!isShared)
    touch(address, size_t(bytes), writes);
  if (!isShared && isAligned)
    for (const Range &range : known)
      if (address >= range.begin && address + uint64_t(bytes) <= range.end)
        return range.host + (address - range.begin);
  std::string why;
  char *place = isShared
                    ? shared.access(address, bytes, writes, thread.index, why)
                    : hostOf(address, size_t(bytes), &why);
  if (place && isAligned) {
    if (!isShared)
      known[next++ % known.size()] = allocationOf(address);
    return place;
  }
  if (place)
    why = std::to_string(bytes) + " bytes at an address that is no multiple";
  error = fail(place ? kMisalignedAddress : kIllegalAddress,
               "kernel '" + launch.kernel->name + "', block " +
                   std::to_string(thread.block[0]) + ", thread " +
                   std::to_string(thread.index) +
                   (writes ? " writes " : " reads ") + why);
  return nullptr;
}

bool Grid::runBlock(uint64_t number) {
  shared.clear();
  if (launch.kernel->waits) {
    auto body = [&](unsigned index) {
      Thread thread = makeThread(number, index);
      launch.kernel->function(&thread, parameters.data());
    };
    given.assign((numThreads + 31) / 32 * 32, {});
    numAtBarrier = 0;
    bool together = true;
    bool done =
        runFibers(numThreads, body, [&] { return together = beginRound(); });
    done &= together;
    if (!done && error == kSuccess)
      error = fail(kLaunchFailed, "kernel '" + launch.kernel->name +
                                      "': threads of a block do not come to "
                                      "the same barriers");
    return done;
  }
  for (uint32_t index = 0; index < numThreads; ++index) {
    Thread thread = makeThread(number, index);
    launch.kernel->function(&thread, parameters.data());
  }
  return true;
}

CUresult Grid::run() {
  std::vector<uint64_t> order(size_t(launch.grid[0]) * launch.grid[1] *
                              launch.grid[2]);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random());
  if (setjmp(end))
    return error;
  for (uint64_t number : order)
    if (!runBlock(number))
      return error;
  return error;
}
} // namespace

CUresult run(const Launch &launch) { return Grid(launch).run(); }

} // namespace tandem::rt::cuda::emulated
