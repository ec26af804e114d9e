//===- attention.cpp - attention by blocks, forward -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of queries goes over the blocks of keys that it sees; the softmax is
// put together from them (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018; Dao et al., "FlashAttention", NeurIPS 2022).
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "cpu/attention_blocks.h"
#include "cpu/blas_threads.h"

#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>

namespace tandem::rt::cpu {

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

template <typename T>
AttentionBlocks<T>::AttentionBlocks(const Attention &op,
                                    const RankMemory &memory, int64_t iteration)
    : op(op), memory(memory), iteration(iteration) {
  query = rows<const T>(op.query), key = rows<const T>(op.key);
  value = rows<const T>(op.value), output = rows<T>(op.output);
  logsumexp = pointer<W>(op.logsumexp);
  if (op.mask)
    mask = pointer<char>(op.mask->buffer);
  if (op.positions)
    positions = pointer<int64_t>(*op.positions);
  if (!op.dropout)
    return;
  numbers = pointer<int64_t>(op.dropout->rows);
  bits = {uint64_t(*pointer<int64_t>(op.dropout->seed)),
          uint64_t(*pointer<int64_t>(op.dropout->step)),
          uint64_t(op.dropout->ordinal),
          keepThreshold(op.dropout->probability)};
}

template <typename T>
Span AttentionBlocks<T>::seenKeyBlocks(const QueryBlock &block) const {
  int64_t begin = 0, end = op.keys;
  if (positions) {
    const int64_t *from = positions + block.rows.first;
    auto [least, most] = std::minmax_element(from, from + block.rows.count);
    if (op.before >= 0)
      begin = std::clamp<int64_t>(*least - op.before, 0, op.keys);
    if (op.after >= 0)
      end = std::clamp<int64_t>(*most + op.after + 1, 0, op.keys);
  }
  if (begin >= end)
    return {0, 0};
  int64_t first = begin / kBlockKeys;
  return {first, (end + kBlockKeys - 1) / kBlockKeys - first};
}

template <typename T>
std::pair<int64_t, int64_t> AttentionBlocks<T>::bandOf(const QueryBlock &block,
                                                       Span keys,
                                                       int64_t i) const {
  int64_t begin = 0, end = keys.count;
  if (!positions)
    return {begin, end};
  int64_t position = positions[block.rows.first + i] - keys.first;
  if (op.before >= 0)
    begin = std::clamp<int64_t>(position - op.before, 0, keys.count);
  if (op.after >= 0)
    end = std::clamp<int64_t>(position + op.after + 1, 0, keys.count);
  return {begin, std::max(begin, end)};
}

template <typename T>
void AttentionBlocks<T>::applyBand(const QueryBlock &block, Span keys,
                                   W *scores) const {
  constexpr W hidden = -std::numeric_limits<W>::infinity();
  for (int64_t i = 0; i < block.rows.count; ++i) {
    auto [begin, end] = bandOf(block, keys, i);
    Span columns = columnsOf(block, keys, i);
    W *row = scores + i * scoresLeading();
    std::fill(row + columns.first, row + begin, hidden);
    std::fill(row + end, row + std::max(end, columns.end()), hidden);
  }
}

template <typename T>
void AttentionBlocks<T>::applyMask(const QueryBlock &block, Span keys,
                                   W *scores) const {
  const Shape &strides = op.mask->strides;
  for (int64_t i = 0; i < block.rows.count; ++i) {
    int64_t at = block.batch * strides[0] + block.head * strides[1] +
                 (block.rows.first + i) * strides[2] + keys.first * strides[3];
    W *row = scores + i * scoresLeading();
    for (int64_t j = 0; j < keys.count; ++j, at += strides[3])
      if (op.mask->type != ElementType::I1)
        row[j] += widen(reinterpret_cast<const T *>(mask)[at]);
      else if (!mask[at])
        row[j] = -std::numeric_limits<W>::infinity();
  }
}

template <typename T>
void AttentionBlocks<T>::computeScores(const QueryBlock &block, Span keys,
                                       W *scores) const {
  ProductShape shape = {block.rows.count, keys.count, op.width, false,
                        op.scale};
  Factor<T> left = {query.at(block.batch, block.head, block.rows.first),
                    query.leading()};
  Factor<T> right = {key.at(block.batch, keyHead(block.head), keys.first),
                     key.leading(), /*transposed=*/true};
  multiply(shape, left, right, scores, scoresLeading());
  if (mask)
    applyMask(block, keys, scores);
  applyBand(block, keys, scores);
}

template <typename T>
void AttentionBlocks<T>::computeKept(const QueryBlock &block, Span keys,
                                     W *kept) const {
  W factor = W(1 / (1 - op.dropout->probability));
  for (int64_t i = 0; i < block.rows.count; ++i) {
    auto [begin, end] = bandOf(block, keys, i);
    int64_t index = numbers[block.number + i] * op.keys + keys.first + begin;
    keepRow(kept + i * scoresLeading() + begin, end - begin, uint64_t(index),
            bits, factor);
  }
}

template class AttentionBlocks<float>;
template class AttentionBlocks<double>;
template class AttentionBlocks<Bf16>;

//===----------------------------------------------------------------------===//
// The forward
//===----------------------------------------------------------------------===//

namespace {
/// One block of queries.
template <typename T> class Forward {
public:
  using W = Wide<T>;
  explicit Forward(const AttentionBlocks<T> &blocks)
      : blocks(blocks), op(blocks.op), leading(blocks.scoresLeading()),
        scores(scratch<struct Scores, W>(kMaxScores)),
        sums(scratch<struct Sums, W>(kBlockQueries * op.valueWidth)) {}

  void run(const QueryBlock &block);

private:
  void addKeys(const QueryBlock &block, Span keys, bool isFirst);
  void addValues(const QueryBlock &block, Span keys, bool isFirst);
  void finish(const QueryBlock &block);

  const AttentionBlocks<T> &blocks;
  const Attention &op;
  const int64_t leading;
  W *scores, *sums; ///< (block, keys) and (block, value width).
  W most[kBlockQueries], sum[kBlockQueries];
};
} // namespace

template <typename T>
void Forward<T>::addValues(const QueryBlock &block, Span keys, bool isFirst) {
  ProductShape shape = {block.rows.count, op.valueWidth, keys.count, !isFirst};
  T *narrowed = scratch<struct Narrowed, T>(kNarrowed<T>);
  Factor<T> left = {narrowBlock<T>(blocks, block, keys, scores, narrowed),
                    leading};
  Factor<T> right = {
      blocks.value.at(block.batch, blocks.keyHead(block.head), keys.first),
      blocks.value.leading()};
  multiply(shape, left, right, sums, op.valueWidth);
}

template <typename T>
void Forward<T>::addKeys(const QueryBlock &block, Span keys, bool isFirst) {
  blocks.computeScores(block, keys, scores);
  for (int64_t i = 0; i < block.rows.count; ++i) {
    Span columns = blocks.columnsOf(block, keys, i);
    W rescale = softmaxRow(scores + i * leading + columns.first, columns.count,
                           most[i], sum[i]);
    W *row = sums + i * op.valueWidth;
    if (!isFirst && rescale != 1)
      std::transform(row, row + op.valueWidth, row,
                     [&](W x) { return x * rescale; });
  }
  if (op.dropout) {
    W *kept = scratch<struct Kept, W>(kMaxScores);
    blocks.computeKept(block, keys, kept);
    for (int64_t i = 0; i < block.rows.count; ++i) {
      Span columns = blocks.columnsOf(block, keys, i);
      int64_t at = i * leading + columns.first;
      multiplyRow(scores + at, kept + at, columns.count);
    }
  }
  addValues(block, keys, isFirst);
}

template <typename T> void Forward<T>::finish(const QueryBlock &block) {
  for (int64_t i = 0; i < block.rows.count; ++i) {
    T *out = blocks.output.at(block.batch, block.head, block.rows.first + i);
    W factor = sum[i] == 0 ? 0 : 1 / sum[i];
    scaleRow(out, sums + i * op.valueWidth, op.valueWidth, factor);
    blocks.logsumexp[block.number + i] = most[i] + std::log(sum[i]);
  }
}

template <typename T> void Forward<T>::run(const QueryBlock &block) {
  std::fill(most, most + kBlockQueries, -std::numeric_limits<W>::infinity());
  std::fill(sum, sum + kBlockQueries, W(0));
  Span seen = blocks.seenKeyBlocks(block);
  if (seen.count == 0)
    std::fill(sums, sums + kBlockQueries * op.valueWidth, W(0));
  for (int64_t index = seen.first; index < seen.end(); ++index)
    addKeys(block, blocks.keys(index), index == seen.first);
  finish(block);
}

template <typename T>
void runForward(const AttentionBlocks<T> &blocks, int64_t first, int64_t end) {
  Forward<T> forward(blocks);
  int64_t heads = blocks.op.heads;
  for (int64_t number = first; number < end; ++number)
    for (int64_t index = 0; index < blocks.countQueryBlocks(); ++index)
      forward.run(blocks.block(number / heads, number % heads, index));
}

//===----------------------------------------------------------------------===//
// The task
//===----------------------------------------------------------------------===//

namespace {
template <typename T> class AttentionTask final : public Task {
public:
  AttentionTask(const TaskContext &context, const Attention &op)
      : op(op), memory(context.memory), crew(context.crew),
        count(op.batch * (op.gradients ? op.keyHeads : op.heads)) {}

  Status run(int64_t iteration) override {
    std::optional<BlasThreads> hold;
    if constexpr (std::is_same_v<T, double>)
      hold.emplace(1);
    AttentionBlocks<T> blocks(op, memory, iteration);
    int parts = crew ? int(std::min<int64_t>(crew->size(), count)) : 1;
    auto work = [&](int part) {
      auto [first, end] = shareOf(count, part, parts);
      if (op.gradients)
        runBackward(blocks, first, end);
      else
        runForward(blocks, first, end);
    };
    try {
      if (parts > 1)
        crew->run(parts, work);
      else
        work(0);
    } catch (const dnnl::error &error) {
      return errorOf("oneDNN product of attention: ", error.what());
    }
    return Status::success();
  }

private:
  const Attention &op;
  const RankMemory &memory;
  Crew *const crew;
  const int64_t count; ///< Of heads that have nothing in common.
};
} // namespace

Expected<std::unique_ptr<Task>> makeAttention(const TaskContext &context,
                                              const Attention &op) {
  using Made = std::unique_ptr<Task>;
  if (op.type == ElementType::F64)
    return Made(std::make_unique<AttentionTask<double>>(context, op));
  if (op.type == ElementType::F32)
    return Made(std::make_unique<AttentionTask<float>>(context, op));
  return Made(std::make_unique<AttentionTask<Bf16>>(context, op));
}

} // namespace tandem::rt::cpu
