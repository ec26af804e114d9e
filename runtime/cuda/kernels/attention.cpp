//===- attention.cpp - attention, a thread per row ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row of the output, or of a gradient, is a thread's: weights are computed
// again from the log-sum-exp where they are needed, and nothing has the size of
// positions times positions. Right for every type and width; what is
// usual is done by tiles (attend.h).
//
//===----------------------------------------------------------------------===//

#include "philox.h"
#include "words.h"

namespace tandem::rt::cuda {
namespace {
namespace at = attention;

/// Elements of a row that a thread adds up at once.
constexpr int kChunk = 32;

template <typename T> struct Attend {
  using Sum = typename Wide<T>::Type;
  static constexpr Sum kLowest =
      sizeof(Sum) == 8 ? Sum(-__DBL_MAX__) : Sum(-__FLT_MAX__);

  explicit Attend(Words w)
      : w(w), heads(w[at::Heads]), keyHeads(w[at::KeyHeads]),
        queries(w[at::Queries]), keys(w[at::Keys]), width(w[at::Width]),
        valueWidth(w[at::ValueWidth]), unit(Sum(w.real(at::Unit))),
        scale(Sum(w.real(at::Scale)) * unit), before(w[at::Before]),
        after(w[at::After]), mask(w[at::Mask]), maskIsTruth(w[at::MaskIsTruth]),
        dropoutThreshold(w[at::DropoutThreshold]) {}

  /// A row of a tensor, whose elements lie side by side.
  Array<T> row(int tensor, int64_t b, int64_t h, int64_t i) const {
    int64_t offset = b * w[tensor + 1] + h * w[tensor + 2] + i * w[tensor + 3];
    return {w.gpu, uint64_t(w[tensor]) + uint64_t(offset) * sizeof(T)};
  }
  static Sum get(Array<T> row, int64_t index) {
    return Wide<T>::widen(row[index]);
  }

  bool isSeen(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (mask && maskIsTruth &&
        !w.array<uint8_t>(at::Mask)[maskPlace(b, h, i, j)])
      return false;
    if (before < 0 && after < 0)
      return true;
    int64_t position = w.array<int64_t>(at::Positions)[i];
    return (before < 0 || j >= position - before) &&
           (after < 0 || j <= position + after);
  }
  int64_t maskPlace(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return b * w[at::MaskStrides] + h * w[at::MaskStrides + 1] +
           i * w[at::MaskStrides + 2] + j * w[at::MaskStrides + 3];
  }

  /// Of a key that is seen; -inf by an added mask alone.
  Sum score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    auto query = row(at::Query, b, h, i);
    auto key = row(at::Key, b, h / (heads / keyHeads), j);
    Sum sum = 0;
    for (int64_t d = 0; d < width; ++d)
      sum += get(query, d) * get(key, d);
    sum *= scale;
    if (mask && !maskIsTruth)
      sum +=
          inUnits(Wide<T>::widen(w.array<T>(at::Mask)[maskPlace(b, h, i, j)]));
    return sum;
  }
  /// Finite masks stay finite.
  Sum inUnits(Sum added) const {
    Sum made = added * unit;
    return isNothing(made) && !isNothing(added) ? kLowest : made;
  }

  /// The log-sum-exp of a row, as the sum of two numbers (`Totals`).
  struct Total {
    Sum most, log;
  };
  Total totalOf(int64_t n) const {
    if (!w[at::Totals])
      return {0, w.array<Sum>(at::LogSumExp)[n]};
    auto totals = w.array<Sum>(at::Totals);
    return {totals[2 * n], totals[2 * n + 1]};
  }

  /// Of a row whose log-sum-exp is not -inf.
  Sum weight(int64_t b, int64_t h, int64_t i, int64_t j, Total total) const {
    if (!isSeen(b, h, i, j))
      return 0;
    return expOf<Sum>((score(b, h, i, j) - total.most) - total.log);
  }

  /// What dropout makes of a weight: 0, or 1 / (1 - probability).
  Sum kept(int64_t n, int64_t j) const {
    if (dropoutThreshold < 0)
      return 1;
    uint64_t place = uint64_t(w.array<int64_t>(at::DropoutRows)[n] * keys + j);
    Bits4 bits =
        drawBlock(place / 4, uint64_t(w.array<int64_t>(at::DropoutSeed)[0]),
                  uint64_t(w.array<int64_t>(at::DropoutStep)[0]),
                  uint64_t(w[at::DropoutOrdinal]));
    return uint64_t(chosen(bits, place % 4)) < uint64_t(dropoutThreshold)
               ? Sum(w.real(at::DropoutFactor))
               : Sum(0);
  }

  static bool isNothing(Sum total) { return total == -(Sum(1) / Sum(0)); }
  static bool isNothing(Total total) { return isNothing(total.log); }

  Total sumRow(int64_t b, int64_t h, int64_t i) const;
  void findTotal(int64_t n) const;
  void forward(int64_t n) const;
  Sum ofScore(int64_t b, int64_t h, int64_t i, int64_t j, int64_t n,
              Sum weight) const;
  void queryGradient(int64_t n) const;
  void keyGradients(int64_t n) const;

  Words w;
  int64_t heads, keyHeads, queries, keys, width, valueWidth;
  Sum unit, scale;
  int64_t before, after, mask, maskIsTruth, dropoutThreshold;
};

/// The maximum of the scores, and the logarithm of the sum beside it: 0 and
/// -inf where there are none.
template <typename T>
typename Attend<T>::Total Attend<T>::sumRow(int64_t b, int64_t h,
                                            int64_t i) const {
  Sum nothing = -(Sum(1) / Sum(0)), most = nothing, sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    if (!isSeen(b, h, i, j))
      continue;
    Sum next = score(b, h, i, j);
    if (next == nothing)
      continue;
    if (next > most || next != next) {
      sum = sum == 0 ? Sum(0) : sum * expOf<Sum>((most - next) / unit);
      most = next;
    }
    sum += expOf<Sum>((next - most) / unit);
  }
  return most == nothing ? Total{0, nothing}
                         : Total{most, logOf<Sum>(sum) * unit};
}

/// Before gradients, where masks are added.
template <typename T> void Attend<T>::findTotal(int64_t n) const {
  Sum whole = w.array<Sum>(at::LogSumExp)[n],
      limit = Sum(w.real(at::LargeLogSumExp));
  bool isLost = (whole > limit || whole < -limit) && whole - whole == 0;
  int64_t i = n % queries, h = n / queries % heads, b = n / queries / heads;
  Total total = isLost ? sumRow(b, h, i) : Total{0, whole * unit};
  w.array<Sum>(at::Totals).set(2 * n, total.most);
  w.array<Sum>(at::Totals).set(2 * n + 1, total.log);
}

template <typename T> void Attend<T>::forward(int64_t n) const {
  int64_t i = n % queries, h = n / queries % heads, b = n / queries / heads;
  Total total = sumRow(b, h, i);
  w.array<Sum>(at::LogSumExp).set(n, total.most + total.log);
  for (int64_t begin = 0; begin < valueWidth; begin += kChunk) {
    int64_t size = valueWidth - begin < kChunk ? valueWidth - begin : kChunk;
    Sum sums[kChunk] = {};
    for (int64_t j = 0; j < keys && !isNothing(total); ++j) {
      Sum by = weight(b, h, i, j, total) * kept(n, j);
      auto value = row(at::Value, b, h / (heads / keyHeads), j);
      for (int64_t e = 0; e < size; ++e)
        sums[e] += by * get(value, begin + e);
    }
    auto output = row(at::Output, b, h, i);
    for (int64_t e = 0; e < size; ++e)
      output.set(begin + e, Wide<T>::narrow(sums[e]));
  }
}

/// The gradient of the scaled product of query and key.
template <typename T>
typename Attend<T>::Sum Attend<T>::ofScore(int64_t b, int64_t h, int64_t i,
                                           int64_t j, int64_t n,
                                           Sum weight) const {
  auto gradient = row(at::OutputGradient, b, h, i);
  auto output = row(at::Output, b, h, i);
  auto value = row(at::Value, b, h / (heads / keyHeads), j);
  Sum ofWeight = 0, delta = 0, keeps = kept(n, j);
  for (int64_t e = 0; e < valueWidth; ++e) {
    ofWeight += keeps * get(gradient, e) * get(value, e);
    delta += get(gradient, e) * get(output, e);
  }
  return weight * (ofWeight - delta) * scale;
}

template <typename T> void Attend<T>::queryGradient(int64_t n) const {
  int64_t i = n % queries, h = n / queries % heads, b = n / queries / heads;
  Total total = totalOf(n);
  for (int64_t begin = 0; begin < width; begin += kChunk) {
    int64_t size = width - begin < kChunk ? width - begin : kChunk;
    Sum sums[kChunk] = {};
    for (int64_t j = 0; j < keys && !isNothing(total); ++j) {
      Sum by = ofScore(b, h, i, j, n, weight(b, h, i, j, total));
      auto key = row(at::Key, b, h / (heads / keyHeads), j);
      for (int64_t d = 0; d < size; ++d)
        sums[d] += by * get(key, begin + d);
    }
    auto gradient = row(at::QueryGradient, b, h, i);
    for (int64_t d = 0; d < size; ++d)
      gradient.set(begin + d, Wide<T>::narrow(sums[d]));
  }
}

/// Over the heads that share the key, in their order, and their queries.
template <typename T> void Attend<T>::keyGradients(int64_t n) const {
  int64_t j = n % keys, g = n / keys % keyHeads, b = n / keys / keyHeads;
  int64_t shared = heads / keyHeads;
  int64_t widest = width > valueWidth ? width : valueWidth;
  for (int64_t begin = 0; begin < widest; begin += kChunk) {
    Sum ofKey[kChunk] = {}, ofValue[kChunk] = {};
    for (int64_t h = g * shared; h < (g + 1) * shared; ++h)
      for (int64_t i = 0; i < queries; ++i) {
        int64_t number = (b * heads + h) * queries + i;
        Total total = totalOf(number);
        if (isNothing(total))
          continue;
        Sum by = weight(b, h, i, j, total);
        Sum score = ofScore(b, h, i, j, number, by), keeps = kept(number, j);
        auto query = row(at::Query, b, h, i);
        auto gradient = row(at::OutputGradient, b, h, i);
        for (int64_t d = begin; d < width && d < begin + kChunk; ++d)
          ofKey[d - begin] += score * get(query, d);
        for (int64_t e = begin; e < valueWidth && e < begin + kChunk; ++e)
          ofValue[e - begin] += by * keeps * get(gradient, e);
      }
    auto key = row(at::KeyGradient, b, g, j);
    auto value = row(at::ValueGradient, b, g, j);
    for (int64_t d = begin; d < width && d < begin + kChunk; ++d)
      key.set(d, Wide<T>::narrow(ofKey[d - begin]));
    for (int64_t e = begin; e < valueWidth && e < begin + kChunk; ++e)
      value.set(e, Wide<T>::narrow(ofValue[e - begin]));
  }
}

template <typename Body> void forEach(Words w, int64_t count, Body body) {
  for (int64_t n = w.gpu.index(); n < count; n += w.gpu.count())
    body(n);
}

template <typename T> void runForward(Words w) {
  Attend<T> attend(w);
  forEach(w, w[at::NumBatches] * attend.heads * attend.queries,
          [&](int64_t n) { attend.forward(n); });
}
template <typename T> void runTotals(Words w) {
  Attend<T> attend(w);
  forEach(w, w[at::NumBatches] * attend.heads * attend.queries,
          [&](int64_t n) { attend.findTotal(n); });
}
template <typename T> void runQueries(Words w) {
  Attend<T> attend(w);
  forEach(w, w[at::NumBatches] * attend.heads * attend.queries,
          [&](int64_t n) { attend.queryGradient(n); });
}
template <typename T> void runKeys(Words w) {
  Attend<T> attend(w);
  forEach(w, w[at::NumBatches] * attend.keyHeads * attend.keys,
          [&](int64_t n) { attend.keyGradients(n); });
}

} // namespace
} // namespace tandem::rt::cuda

#define TANDEM_ATTENTION(suffix, type)                                         \
  TANDEM_KERNEL(tandem_attention_forward_##suffix,                             \
                tandem::rt::cuda::runForward<type>)                            \
  TANDEM_KERNEL(tandem_attention_totals_##suffix,                              \
                tandem::rt::cuda::runTotals<type>)                             \
  TANDEM_KERNEL(tandem_attention_queries_##suffix,                             \
                tandem::rt::cuda::runQueries<type>)                            \
  TANDEM_KERNEL(tandem_attention_keys_##suffix, tandem::rt::cuda::runKeys<type>)
TANDEM_ATTENTION(f64, double)
TANDEM_ATTENTION(f32, float)
TANDEM_ATTENTION(bf16, tandem::rt::cuda::Bf16)
