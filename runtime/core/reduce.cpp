//===- reduce.cpp - sums in a fixed order ---------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/reduce.h"

#include <algorithm>
#include <cstring>

namespace tandem::rt {

namespace {
/// Elements of a tile: the sums of all sources stay in the first-level cache.
constexpr int64_t kTile = 1024;

template <typename T> struct Sum {
  using Accumulator = T;
  static Accumulator widen(T value) { return value; }
  static T narrow(Accumulator value) { return value; }
};

struct Bf16 {
  uint16_t bits;
};
template <> struct Sum<Bf16> {
  using Accumulator = float;
  static float widen(Bf16 value) { return bf16ToFloat(value.bits); }
  static Bf16 narrow(float value) { return {floatToBf16(value)}; }
};

template <typename T>
void sumTile(int64_t begin, int64_t count, std::span<const char *const> sources,
             std::span<char *const> destinations) {
  typename Sum<T>::Accumulator sums[kTile];
  T values[kTile];
  size_t bytes = size_t(count) * sizeof(T);
  std::memcpy(values, sources[0] + size_t(begin) * sizeof(T), bytes);
  for (int64_t i = 0; i < count; ++i)
    sums[i] = Sum<T>::widen(values[i]);
  for (const char *source : sources.subspan(1)) {
    std::memcpy(values, source + size_t(begin) * sizeof(T), bytes);
    for (int64_t i = 0; i < count; ++i)
      sums[i] += Sum<T>::widen(values[i]);
  }
  for (int64_t i = 0; i < count; ++i)
    values[i] = Sum<T>::narrow(sums[i]);
  for (char *destination : destinations)
    std::memcpy(destination + size_t(begin) * sizeof(T), values, bytes);
}

template <typename T>
void sumAll(int64_t count, std::span<const char *const> sources,
            std::span<char *const> destinations) {
  for (int64_t begin = 0; begin < count; begin += kTile)
    sumTile<T>(begin, std::min(kTile, count - begin), sources, destinations);
}
} // namespace

void sumInOrder(ElementType type, int64_t count,
                std::span<const char *const> sources,
                std::span<char *const> destinations) {
  switch (type) {
  case ElementType::F64:
    return sumAll<double>(count, sources, destinations);
  case ElementType::F32:
    return sumAll<float>(count, sources, destinations);
  case ElementType::BF16:
    return sumAll<Bf16>(count, sources, destinations);
  case ElementType::I64:
    return sumAll<uint64_t>(count, sources, destinations);
  case ElementType::I32:
    return sumAll<uint32_t>(count, sources, destinations);
  case ElementType::I8:
    return sumAll<uint8_t>(count, sources, destinations);
  case ElementType::F16:
  case ElementType::I1:
    return; // refused by verifyProgram()
  }
}

} // namespace tandem::rt
