//===- attention_backward.cpp - attention by blocks, backward -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each block of keys over all blocks of queries that see it: with weights P
// of the saved log-sum-exp (of large ones again of the scores), kept (and
// scaled) by D,
//
//   dV += (P D)ᵀ dO    dS = P (D (dO Vᵀ) - sum(dO O))    dK += dSᵀ Q    dQ +=
//   dS K
//
//===----------------------------------------------------------------------===//

#include "cpu/attention_blocks.h"

#include <cmath>

namespace tandem::rt::cpu {

namespace {
/// All heads that share one of the keys.
template <typename T> class Backward {
public:
  using W = Wide<T>;
  explicit Backward(const AttentionBlocks<T> &blocks);

  void run(int64_t batch, int64_t keyHead);

private:
  void computeDeltas(const QueryBlock &block, W *to) const;
  void findTotals(const QueryBlock &block, Span seen);
  void addBlock(const QueryBlock &block, Span keys, bool isFirst);
  void computeWeights(const QueryBlock &block, Span keys);
  void computeGradients(const QueryBlock &block, Span keys);
  /// `scores` are the gradients of the scores.
  void addToKeys(const QueryBlock &block, Span keys, const T *scores,
                 bool isFirst);
  void addToQueries(const QueryBlock &block, Span keys, const T *scores);
  void store(const W *sums, T *to, int64_t leading, Span rows, int64_t width);
  /// Of the first head in the group, and of the first query.
  W *deltas(const QueryBlock &block) const {
    return allDeltas + (block.head % group * op.queries + block.rows.first);
  }
  /// Weights are e^((score - shift) - total).
  W *shifts(const QueryBlock &block) const {
    return allShifts + (block.head % group * op.queries + block.rows.first);
  }
  W *totals(const QueryBlock &block) const {
    return allTotals + (block.head % group * op.queries + block.rows.first);
  }
  W *querySums(const QueryBlock &block) const {
    return allQuerySums +
           (block.head % group * op.queries + block.rows.first) * op.width;
  }

  const AttentionBlocks<T> &blocks;
  const Attention &op;
  const int64_t group;   ///< Heads that share one of the keys.
  const int64_t leading; ///< Of scores.
  Rows<const T> outputGradient;
  Rows<T> queryGradient, keyGradient, valueGradient;
  W *weights, *gradients, *kept;      ///< Of a block.
  T *narrowWeights, *narrowGradients; ///< As the library multiplies them.
  W *keySums, *valueSums;             ///< Of a block of keys.
  W *allQuerySums, *allDeltas, *allShifts, *allTotals; ///< Of the group.
};
} // namespace

template <typename T>
Backward<T>::Backward(const AttentionBlocks<T> &blocks)
    : blocks(blocks), op(blocks.op), group(op.heads / op.keyHeads),
      leading(blocks.scoresLeading()),
      outputGradient(blocks.template rows<const T>(op.gradients->output)),
      queryGradient(blocks.template rows<T>(op.gradients->query)),
      keyGradient(blocks.template rows<T>(op.gradients->key)),
      valueGradient(blocks.template rows<T>(op.gradients->value)),
      weights(scratch<struct Weights, W>(kMaxScores)),
      gradients(scratch<struct Gradients, W>(kMaxScores)),
      kept(scratch<struct KeptWeights, W>(op.dropout ? kMaxScores : 0)),
      narrowWeights(scratch<struct NarrowWeights, T>(
          std::is_same_v<T, W> ? 0 : kMaxScores)),
      narrowGradients(scratch<struct NarrowGradients, T>(kNarrowed<T>)),
      keySums(scratch<struct KeySums, W>(kBlockKeys * op.width)),
      valueSums(scratch<struct ValueSums, W>(kBlockKeys * op.valueWidth)),
      allQuerySums(scratch<struct QuerySums, W>(group * op.queries * op.width)),
      allDeltas(scratch<struct Deltas, W>(group * op.queries)),
      allShifts(scratch<struct Shifts, W>(group * op.queries)),
      allTotals(scratch<struct Totals, W>(group * op.queries)) {}

template <typename T>
void Backward<T>::computeDeltas(const QueryBlock &block, W *to) const {
  for (int64_t i = 0; i < block.rows.count; ++i) {
    int64_t row = block.rows.first + i;
    const T *gradient = outputGradient.at(block.batch, block.head, row);
    const T *output = blocks.output.at(block.batch, block.head, row);
    to[i] = dotRow(gradient, output, op.valueWidth);
  }
}

template <typename T>
void Backward<T>::findTotals(const QueryBlock &block, Span seen) {
  const int64_t count = block.rows.count;
  W *shift = shifts(block), *total = totals(block), sum[kBlockQueries] = {};
  std::copy_n(blocks.logsumexp + block.number, count, total);
  auto isLost = [](W x) {
    return std::isfinite(x) && std::abs(x) > W(kLargeLogSumExp);
  };
  if (!addsMask(op) || std::none_of(total, total + count, isLost)) {
    std::fill(shift, shift + count, W(0));
    return;
  }
  std::fill(shift, shift + count, -std::numeric_limits<W>::infinity());
  for (int64_t index = seen.first; index < seen.end(); ++index) {
    Span keys = blocks.keys(index);
    blocks.computeScores(block, keys, weights);
    for (int64_t i = 0; i < count; ++i) {
      Span columns = blocks.columnsOf(block, keys, i);
      softmaxRow(weights + i * leading + columns.first, columns.count, shift[i],
                 sum[i]);
    }
  }
  for (int64_t i = 0; i < count; ++i)
    if (isLost(total[i]))
      total[i] = std::log(sum[i]);
    else
      shift[i] = 0;
}

template <typename T>
void Backward<T>::computeWeights(const QueryBlock &block, Span keys) {
  blocks.computeScores(block, keys, weights);
  for (int64_t i = 0; i < block.rows.count; ++i) {
    Span columns = blocks.columnsOf(block, keys, i);
    W *row = weights + i * leading + columns.first;
    if (W shift = shifts(block)[i]; shift != 0)
      std::transform(row, row + columns.count, row,
                     [&](W score) { return score - shift; });
    weightRow(row, columns.count, totals(block)[i]);
  }
  if (op.dropout)
    blocks.computeKept(block, keys, kept);
}

/// Of the scores, in the place of those of the weights; then also drops
/// weights.
template <typename T>
void Backward<T>::computeGradients(const QueryBlock &block, Span keys) {
  ProductShape shape = {block.rows.count, keys.count, op.valueWidth};
  Factor<T> left = {
      outputGradient.at(block.batch, block.head, block.rows.first),
      outputGradient.leading()};
  Factor<T> right = {
      blocks.value.at(block.batch, blocks.keyHead(block.head), keys.first),
      blocks.value.leading(), /*transposed=*/true};
  multiply(shape, left, right, gradients, leading);
  const W *delta = deltas(block);
  for (int64_t i = 0; i < block.rows.count; ++i) {
    Span columns = blocks.columnsOf(block, keys, i);
    int64_t at = i * leading + columns.first;
    if (op.dropout)
      multiplyRow(gradients + at, kept + at, columns.count);
    gradientRow(weights + at, gradients + at, columns.count, delta[i],
                W(op.scale));
    if (op.dropout)
      multiplyRow(weights + at, kept + at, columns.count);
  }
}

template <typename T>
void Backward<T>::addToKeys(const QueryBlock &block, Span keys, const T *scores,
                            bool isFirst) {
  Factor<T> kept = {narrowBlock<T>(blocks, block, keys, weights, narrowWeights),
                    leading,
                    /*transposed=*/true};
  Factor<T> output = {
      outputGradient.at(block.batch, block.head, block.rows.first),
      outputGradient.leading()};
  multiply({keys.count, op.valueWidth, block.rows.count, !isFirst}, kept,
           output, valueSums, op.valueWidth);
  Factor<T> query = {blocks.query.at(block.batch, block.head, block.rows.first),
                     blocks.query.leading()};
  multiply({keys.count, op.width, block.rows.count, !isFirst},
           Factor<T>{scores, leading, /*transposed=*/true}, query, keySums,
           op.width);
}

template <typename T>
void Backward<T>::addToQueries(const QueryBlock &block, Span keys,
                               const T *scores) {
  Factor<T> key = {
      blocks.key.at(block.batch, blocks.keyHead(block.head), keys.first),
      blocks.key.leading()};
  multiply({block.rows.count, op.width, keys.count, /*accumulate=*/true},
           Factor<T>{scores, leading}, key, querySums(block), op.width);
}

template <typename T>
void Backward<T>::addBlock(const QueryBlock &block, Span keys, bool isFirst) {
  computeWeights(block, keys);
  computeGradients(block, keys);
  const T *scores =
      narrowBlock<T>(blocks, block, keys, gradients, narrowGradients);
  addToKeys(block, keys, scores, isFirst);
  addToQueries(block, keys, scores);
}

template <typename T>
void Backward<T>::store(const W *sums, T *to, int64_t leading, Span rows,
                        int64_t width) {
  for (int64_t i = 0; i < rows.count; ++i)
    scaleRow(to + i * leading, sums + i * width, width, W(1));
}

template <typename T> void Backward<T>::run(int64_t batch, int64_t keyHead) {
  std::vector<std::pair<QueryBlock, Span>> seen;
  for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head)
    for (int64_t index = 0; index < blocks.countQueryBlocks(); ++index) {
      QueryBlock block = blocks.block(batch, head, index);
      computeDeltas(block, deltas(block));
      seen.push_back({block, blocks.seenKeyBlocks(block)});
      findTotals(block, seen.back().second);
    }
  std::fill(allQuerySums, allQuerySums + group * op.queries * op.width, W(0));
  for (int64_t index = 0; index * kBlockKeys < op.keys; ++index) {
    Span keys = blocks.keys(index);
    bool isFirst = true;
    for (const auto &[block, sees] : seen) {
      if (index < sees.first || index >= sees.end())
        continue;
      addBlock(block, keys, isFirst);
      isFirst = false;
    }
    if (isFirst) {
      std::fill(keySums, keySums + keys.count * op.width, W(0));
      std::fill(valueSums, valueSums + keys.count * op.valueWidth, W(0));
    }
    store(keySums, keyGradient.at(batch, keyHead, keys.first),
          keyGradient.leading(), keys, op.width);
    store(valueSums, valueGradient.at(batch, keyHead, keys.first),
          valueGradient.leading(), keys, op.valueWidth);
  }
  for (const auto &[block, sees] : seen)
    store(querySums(block),
          queryGradient.at(batch, block.head, block.rows.first),
          queryGradient.leading(), block.rows, op.width);
}

template <typename T>
void runBackward(const AttentionBlocks<T> &blocks, int64_t first, int64_t end) {
  Backward<T> backward(blocks);
  for (int64_t number = first; number < end; ++number)
    backward.run(number / blocks.op.keyHeads, number % blocks.op.keyHeads);
}

template void runBackward(const AttentionBlocks<float> &, int64_t, int64_t);
template void runBackward(const AttentionBlocks<double> &, int64_t, int64_t);
template void runBackward(const AttentionBlocks<Bf16> &, int64_t, int64_t);

} // namespace tandem::rt::cpu
