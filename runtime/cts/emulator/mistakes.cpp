//===- mistakes.cpp - mistakes in kernels that run ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels ask for barriers, shuffles and memory by calls, so a mistake in one
// of them costs no compilation: the call from one place in their code is
// answered wrongly, in all threads and blocks.
//
//===----------------------------------------------------------------------===//

#include "emulator.h"

#include <algorithm>

namespace tandem::rt::cuda::emulated {

namespace {
struct Known {
  const void *place;
  Mistake mistake;
};
std::vector<Known> known;
bool isListing = false;
Known planted = {};
/// Calls while what can be wrong was listed, and with the present mistake.
int64_t numListed = 0, numCalls = 0;
} // namespace

bool areMistakesWatched = false;

Mistake findMistake(const void *place,
                    std::initializer_list<Mistake> possible) {
  ++(isListing ? numListed : numCalls);
  if (isListing)
    for (Mistake mistake : possible) {
      auto isSame = [&](const Known &other) {
        return other.place == place && other.mistake == mistake;
      };
      if (std::ranges::none_of(known, isSame))
        known.push_back({place, mistake});
    }
  return planted.place == place ? planted.mistake : Mistake::None;
}

bool areCallsEndless() {
  constexpr int64_t kFactor = 20;
  return !isListing && numCalls > kFactor * numListed;
}

} // namespace tandem::rt::cuda::emulated

using namespace tandem::rt::cuda::emulated;

/// For tests, which find them by name. The first lists what can be wrong in
/// kernels that run from now on; the second plants the mistake of that number,
/// or none below 0, and forgets the failure of the last one: nothing may be
/// under way.
extern "C" {
TANDEM_EXPORT void tandemListMistakes() {
  known.clear();
  numListed = 0;
  isListing = areMistakesWatched = true;
}
TANDEM_EXPORT int64_t tandemCountMistakes() { return int64_t(known.size()); }
TANDEM_EXPORT void tandemPlantMistake(int64_t number) {
  isListing = false;
  numCalls = 0;
  areMistakesWatched = number >= 0;
  planted = number < 0 ? Known{} : known[size_t(number)];
  forgetFailure();
}
TANDEM_EXPORT const char *tandemNameMistake(int64_t number) {
  switch (known[size_t(number)].mistake) {
  case Mistake::None:
    break;
  case Mistake::NoBarrier:
    return "a barrier that nobody waits at";
  case Mistake::NoShuffle:
    return "a shuffle that gives each its own";
  case Mistake::ReadBehind:
    return "a read of the element behind";
  case Mistake::WriteBehind:
    return "a write to the element behind";
  case Mistake::NoWrite:
    return "a write that is lost";
  }
  return "nothing";
}
}
