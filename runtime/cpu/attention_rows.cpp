//===- attention_rows.cpp - softmax of attention rows ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/attention_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

/// One function for each kind of vectors; what it calls is inlined into each.
#if defined(__x86_64__)
#define TANDEM_FOR_EACH_CPU                                                    \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TANDEM_FOR_EACH_CPU
#endif
#define TANDEM_ALWAYS __attribute__((always_inline))
#define TANDEM_INLINE TANDEM_ALWAYS inline

namespace tandem::rt::cpu {

namespace {
/// 16 numbers that the compiler computes with at once, in as many registers as
/// they take.
template <typename T> struct Vectors {
  typedef T Values __attribute__((vector_size(16 * sizeof(T))));
};
template <typename T> using Vector = typename Vectors<T>::Values;

template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

template <typename T> TANDEM_INLINE void load(Vector<T> &value, const T *from) {
  std::memcpy(&value, from, sizeof value);
}

template <typename T> TANDEM_INLINE void store(T *to, const Vector<T> &value) {
  std::memcpy(to, &value, sizeof value);
}

/// What e^x is computed by: e^x = 2^n e^r, r = x - n ln 2 in [-ln 2/2, ln 2/2],
/// by a polynomial in r. kLowest is the smallest x of a normal result; kRound
/// has the last place 1, so that n is rounded, and in the low bits of a sum.
template <typename T> struct Exponential;

template <> struct Exponential<float> {
  using Bits = Vector<int32_t>;
  static constexpr int kBias = 127, kDigits = 23;
  static constexpr float kRound = 0x1.8p23f, kLowest = -87.33654f;
  static constexpr float kHigh = 0x1.62e4p-1f, kLow = 0x1.7f7d1cp-20f;
  static constexpr std::array<float, 7> kTerms = {
      1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
};

template <> struct Exponential<double> {
  using Bits = Vector<int64_t>;
  static constexpr int kBias = 1023, kDigits = 52;
  static constexpr double kRound = 0x1.8p52, kLowest = -708.39;
  static constexpr double kHigh = 0x1.62e42feep-1, kLow = 0x1.a39ef35793c76p-33;
  static constexpr std::array<double, 14> kTerms = {1.0 / 6227020800,
                                                    1.0 / 479001600,
                                                    1.0 / 39916800,
                                                    1.0 / 3628800,
                                                    1.0 / 362880,
                                                    1.0 / 40320,
                                                    1.0 / 5040,
                                                    1.0 / 720,
                                                    1.0 / 120,
                                                    1.0 / 24,
                                                    1.0 / 6,
                                                    0.5,
                                                    1.0,
                                                    1.0};
};

/// e^x of numbers that are hardly positive; 0 below the smallest normal number.
template <typename T> TANDEM_INLINE void exponentiate(Vector<T> &x) {
  using E = Exponential<T>;
  constexpr T log2e = T(1.44269504088896340736);
  const Vector<T> zero = {};
  Vector<T> shifted = x * log2e + E::kRound;
  Vector<T> n = shifted - E::kRound;
  Vector<T> r = x - n * E::kHigh - n * E::kLow;
  Vector<T> sum = zero + E::kTerms[0];
  for (size_t i = 1; i < E::kTerms.size(); ++i)
    sum = sum * r + E::kTerms[i];
  typename E::Bits power;
  std::memcpy(&power, &shifted, sizeof power);
  power = (power + E::kBias) << E::kDigits;
  Vector<T> scale;
  std::memcpy(&scale, &power, sizeof scale);
  x = x < E::kLowest ? zero : sum * scale;
}

template <typename T>
TANDEM_INLINE T findMost(const T *scores, int64_t columns) {
  Vector<T> most = Vector<T>{} - kInfinity<T>, value;
  for (int64_t j = 0; j < columns; j += kLanes) {
    load(value, scores + j);
    most = value > most ? value : most;
  }
  T result = most[0];
  for (int lane = 1; lane < kLanes; ++lane)
    result = most[lane] > result ? most[lane] : result;
  return result;
}

/// Also gives the sum.
template <typename T>
TANDEM_INLINE T exponentiateRow(T *scores, int64_t columns, T most) {
  Vector<T> sum = {}, value;
  for (int64_t j = 0; j < columns; j += kLanes) {
    load(value, scores + j);
    value -= most;
    exponentiate<T>(value);
    sum += value;
    store(scores + j, value);
  }
  T result = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    result += sum[lane];
  return result;
}

template <typename T>
TANDEM_INLINE T runSoftmaxRow(T *scores, int64_t columns, T &most, T &sum) {
  T before = most, here = findMost(scores, columns);
  if (!(here > before))
    here = before;
  // Nothing is seen yet: all are e^-inf.
  T origin = here == -kInfinity<T> ? 0 : here;
  T rescale = before == here ? 1 : std::exp(before - origin);
  sum = sum * rescale + exponentiateRow(scores, columns, origin);
  most = here;
  return rescale;
}

template <typename T>
TANDEM_INLINE void runWeightRow(T *scores, int64_t columns, T logsumexp) {
  if (logsumexp == -kInfinity<T>)
    logsumexp = kInfinity<T>;
  exponentiateRow(scores, columns, logsumexp);
}

template <typename T>
TANDEM_INLINE void runGradientRow(const T *weights, T *gradients,
                                  int64_t columns, T delta, T scale) {
  Vector<T> weight, gradient;
  for (int64_t j = 0; j < columns; j += kLanes) {
    load(weight, weights + j);
    load(gradient, gradients + j);
    store(gradients + j, Vector<T>(weight * scale * (gradient - delta)));
  }
}

template <typename T>
TANDEM_INLINE void runMultiplyRow(T *to, const T *by, int64_t columns) {
  Vector<T> a, b;
  for (int64_t j = 0; j < columns; j += kLanes) {
    load(a, to + j);
    load(b, by + j);
    store(to + j, Vector<T>(a * b));
  }
}

/// 16 words of 32 bits, in 64: the products of Philox.
using Words = Vector<uint64_t>;
constexpr uint64_t kLow = 0xFFFFFFFF;

/// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Upper
/// halves are anything until the end: a product of lower halves, and seen to be
/// one, is an instruction.
TANDEM_INLINE void runPhilox(std::array<Words, 4> &words, uint64_t seed) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint64_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  uint64_t key0 = seed & kLow, key1 = seed >> 32;
  for (int round = 0; round < kRounds; ++round) {
    Words product0 = (words[0] & kLow) * kMultiplier0,
          product1 = (words[2] & kLow) * kMultiplier1;
    words[0] = (product1 >> 32) ^ words[1] ^ key0;
    words[1] = product1;
    words[2] = (product0 >> 32) ^ words[3] ^ key1;
    words[3] = product0;
    key0 = (key0 + kWeyl0) & kLow;
    key1 = (key1 + kWeyl1) & kLow;
  }
  for (Words &word : words)
    word &= kLow;
}

/// The elements of two vectors in turn: those of their first halves, and of
/// their second ones.
template <typename T>
TANDEM_INLINE void interleave(const Vector<T> &a, const Vector<T> &b,
                              Vector<T> &low, Vector<T> &high) {
  low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                6, 22, 7, 23);
  high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                 29, 14, 30, 15, 31);
}

/// `factor` where a word is below the threshold.
template <typename T>
TANDEM_INLINE void keepWords(Vector<T> &kept, const Words &words,
                             uint64_t threshold, T factor) {
  using Mask = Vector<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;
  const Vector<T> zero = {};
  Mask isKept = __builtin_convertvector(words < threshold, Mask);
  kept = isKept ? zero + factor : zero;
}

/// The bits of the 4 indices of each of the blocks `first`, `first` + 1, ...
template <typename T>
TANDEM_INLINE void keepBlocks(T *kept, uint64_t first, const KeptBits &bits,
                              T factor) {
  const Words zero = {};
  const Words lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  Words block = lanes + first;
  std::array<Words, 4> words = {block & kLow, block >> 32,
                                zero + (bits.ordinal & kLow),
                                zero + (bits.step & kLow)};
  runPhilox(words, bits.seed);
  Vector<T> ofWord[4], even[2], odd[2], whole[4];
  for (size_t word = 0; word < 4; ++word)
    keepWords<T>(ofWord[word], words[word], bits.threshold, factor);
  interleave<T>(ofWord[0], ofWord[2], even[0], even[1]);
  interleave<T>(ofWord[1], ofWord[3], odd[0], odd[1]);
  interleave<T>(even[0], odd[0], whole[0], whole[1]);
  interleave<T>(even[1], odd[1], whole[2], whole[3]);
  for (size_t part = 0; part < 4; ++part)
    store<T>(kept + part * kLanes, whole[part]);
}

template <typename T>
TANDEM_INLINE void runKeepRow(T *kept, int64_t columns, uint64_t index,
                              const KeptBits &bits, T factor) {
  std::array<T, 4 * kLanes> drawn;
  while (columns > 0) {
    uint64_t skipped = index & 3;
    bool isWhole = skipped == 0 && columns >= 4 * kLanes;
    keepBlocks(isWhole ? kept : drawn.data(), index >> 2, bits, factor);
    int64_t count = std::min(columns, 4 * kLanes - int64_t(skipped));
    if (!isWhole)
      std::memcpy(kept, drawn.data() + skipped, size_t(count) * sizeof(T));
    kept += count, index += uint64_t(count), columns -= count;
  }
}

/// bf16 as the upper halves of f32.
using Halves = Vector<uint16_t>;
using Whole = Vector<uint32_t>;

TANDEM_INLINE void loadWide(Vector<float> &value, const Bf16 *from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  Whole bits = __builtin_convertvector(halves, Whole) << 16;
  std::memcpy(&value, &bits, sizeof value);
}

TANDEM_INLINE void loadWide(Vector<float> &value, const float *from) {
  load<float>(value, from);
}

TANDEM_INLINE void loadWide(Vector<double> &value, const double *from) {
  load<double>(value, from);
}

/// floatToBf16.
TANDEM_INLINE void storeNarrow(Bf16 *to, const Vector<float> &value) {
  Whole bits;
  std::memcpy(&bits, &value, sizeof bits);
  Whole rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  Whole quiet = (bits >> 16) | 0x40;
  Whole chosen = (bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded;
  Halves halves = __builtin_convertvector(chosen, Halves);
  std::memcpy(to, &halves, sizeof halves);
}

TANDEM_INLINE void storeNarrow(float *to, const Vector<float> &value) {
  store<float>(to, value);
}

TANDEM_INLINE void storeNarrow(double *to, const Vector<double> &value) {
  store<double>(to, value);
}

/// Calls `run` for vectors of up to kLanes elements from a place on.
template <typename Run>
TANDEM_INLINE void forVectors(int64_t columns, const Run &run) {
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes)
    run(j, kLanes);
  if (j < columns)
    run(j, columns - j);
}

template <typename W, typename T>
TANDEM_INLINE void runScaleRow(T *to, const W *from, int64_t columns,
                               W factor) {
  forVectors(columns, [&](int64_t j, int64_t count) TANDEM_ALWAYS {
    Vector<W> value = {};
    if (count == kLanes) {
      load(value, from + j);
      storeNarrow(to + j, Vector<W>(value * factor));
      return;
    }
    T last[kLanes];
    std::memcpy(&value, from + j, size_t(count) * sizeof(W));
    storeNarrow(last, Vector<W>(value * factor));
    std::memcpy(to + j, last, size_t(count) * sizeof(T));
  });
}

template <typename W, typename T>
TANDEM_INLINE W runDotRow(const T *a, const T *b, int64_t columns) {
  Vector<W> sum = {};
  forVectors(columns, [&](int64_t j, int64_t count) TANDEM_ALWAYS {
    Vector<W> left, right;
    if (count == kLanes) {
      loadWide(left, a + j), loadWide(right, b + j);
    } else {
      T lastLeft[kLanes] = {}, lastRight[kLanes] = {};
      std::memcpy(lastLeft, a + j, size_t(count) * sizeof(T));
      std::memcpy(lastRight, b + j, size_t(count) * sizeof(T));
      loadWide(left, lastLeft), loadWide(right, lastRight);
    }
    sum += left * right;
  });
  W result = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    result += sum[lane];
  return result;
}
} // namespace

#define TANDEM_ROWS(T)                                                         \
  TANDEM_FOR_EACH_CPU T softmaxRow(T *scores, int64_t columns, T &most,        \
                                   T &sum) {                                   \
    return runSoftmaxRow(scores, columns, most, sum);                          \
  }                                                                            \
  TANDEM_FOR_EACH_CPU void weightRow(T *scores, int64_t columns,               \
                                     T logsumexp) {                            \
    runWeightRow(scores, columns, logsumexp);                                  \
  }                                                                            \
  TANDEM_FOR_EACH_CPU void gradientRow(const T *weights, T *gradients,         \
                                       int64_t columns, T delta, T scale) {    \
    runGradientRow(weights, gradients, columns, delta, scale);                 \
  }                                                                            \
  TANDEM_FOR_EACH_CPU void keepRow(T *kept, int64_t columns, uint64_t index,   \
                                   const KeptBits &bits, T factor) {           \
    runKeepRow(kept, columns, index, bits, factor);                            \
  }                                                                            \
  TANDEM_FOR_EACH_CPU void multiplyRow(T *to, const T *by, int64_t columns) {  \
    runMultiplyRow(to, by, columns);                                           \
  }

TANDEM_ROWS(float)
TANDEM_ROWS(double)

#define TANDEM_ROWS_IN_MEMORY(T, W)                                            \
  TANDEM_FOR_EACH_CPU void scaleRow(T *to, const W *from, int64_t columns,     \
                                    W factor) {                                \
    runScaleRow<W>(to, from, columns, factor);                                 \
  }                                                                            \
  TANDEM_FOR_EACH_CPU W dotRow(const T *a, const T *b, int64_t columns) {      \
    return runDotRow<W>(a, b, columns);                                        \
  }

TANDEM_ROWS_IN_MEMORY(float, float)
TANDEM_ROWS_IN_MEMORY(double, double)
TANDEM_ROWS_IN_MEMORY(Bf16, float)

} // namespace tandem::rt::cpu
