//===- hash.cpp - the content hash of a Program ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/hash.h"
#include "tandem_rt/program.h"

#include <cstdio>
#include <cstring>

namespace tandem::rt {

namespace {
/// The finalizer of SplitMix64: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

void absorb(Hash128 &state, uint64_t word) {
  state.low = mix(state.low ^ word);
  state.high = (state.high ^ word) * 0x9e3779b97f4a7c15ull;
  state.high ^= state.high >> 32;
}
} // namespace

Hash128 contentHash(std::span<const uint8_t> bytes) {
  Hash128 state{0x243f6a8885a308d3ull, 0x13198a2e03707344ull};
  for (size_t at = 0; at < bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at,
                bytes.size() - at < 8 ? bytes.size() - at : 8);
    absorb(state, word);
  }
  absorb(state, bytes.size());
  return {mix(state.low ^ state.high), mix(state.high)};
}

std::string hashText(const Hash128 &hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx",
                (unsigned long long)hash.high, (unsigned long long)hash.low);
  return text;
}

std::string programHash(std::span<const uint8_t> bytes) {
  return hashText(contentHash(bytes));
}

} // namespace tandem::rt
