//===- attend_kernels.h - kernels of attention by tiles ---------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_ATTEND_KERNELS_H
#define TANDEM_RT_CUDA_KERNELS_ATTEND_KERNELS_H

#include "attend_rows.h"
#include "attend_scores.h"

namespace tandem::rt::cuda {
namespace {
namespace at = attention;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Calls with the first key of each tile that is seen, while the next one
/// comes, and with the stage where it is.
template <typename Way, int Resident>
template <typename Body>
TANDEM_INLINE void Attend<Way, Resident>::forEachKeyTile(const Span &seen,
                                                         Body body) {
  Columns columns = keyColumns();
  int stage = 0;
  if (kStages > 1 && seen.begin < seen.end)
    load(0, columns, seen.begin / kTile * kTile);
  TANDEM_ROLL
  for (int key = seen.begin / kTile * kTile; key < seen.end; key += kTile) {
    nextTile([&] { load(0, columns, key); });
    if (kStages > 1 && key + kTile < seen.end)
      load(1 - stage, columns, key + kTile);
    body(key, stage);
    stage = kStages - 1 - stage;
  }
}

TANDEM_ATTEND(void)::forward() {
  findRows(queries, heads, /*areLastLongest=*/true);
  storeFacts(Pass::Forward, 0, read(Pass::Forward, head, first, kBlockRows));
  load<kBlockRows>(kX1, queryRows(at::Query, head, first, at::Width));
  block.barrier();
  Outputs outputs;
  clear(outputs);
  float most[Scores::kRows], sums[Scores::kRows];
  TANDEM_UNROLL
  for (int i = 0; i < Scores::kRows; ++i)
    most[i] = kHidden, sums[i] = 0;
  Span seen = keysSeenBy(kBlockRows);
  forEachKeyTile(seen, [&](int key, int stage) {
    Kept<Scores> kept = draw<false>(key);
    Scores scores;
    clear(scores);
    Way::addScores(block, scores, ofWarp(kX1), firstTile(stage));
    hide<false>(scores, seen, key);
    addToSoftmax(scores, most, sums, outputs);
    if (dropout.isOn)
      forEachElement<Scores>([&](int i, int c) {
        if (!kept.has(i, c))
          scores.at[i][c] = 0;
      });
    Way::addOutputs(block, outputs, scores, secondTile(stage), scratch());
  });
  TANDEM_UNROLL
  for (int i = 0; i < Scores::kRows; ++i) {
    float sum = block.sumOfRow(sums[i], Scores::kLanesPerRow);
    float factor = sum == 0 ? 0 : 1 / sum;
    TANDEM_UNROLL
    for (int c = 0; c < Outputs::kColumns; ++c)
      outputs.at[i][c] *= factor;
    if (lane % Scores::kLanesPerRow == 0 && first + rowOf(i) < queries)
      w.array<float>(at::LogSumExp)
          .set(int64_t(batch * heads + head) * queries + first + rowOf(i),
               sum == 0 ? kHidden : (most[i] + Block::log2(sum)) * kLn2);
  }
  copies.wait();
  block.barrier();
  keep(kX1, outputs, dropout.factor);
  block.barrier();
  store(queryRows(at::Output, head, first, at::ValueWidth), kX1);
}

TANDEM_ATTEND(void)::queryGradient() {
  findRows(queries, heads, /*areLastLongest=*/true);
  load<kBlockRows>(kX1, queryRows(at::Query, head, first, at::Width));
  load<kBlockRows>(kX2,
                   queryRows(at::OutputGradient, head, first, at::ValueWidth));
  storeFacts(Pass::Queries, 0, read(Pass::Queries, head, first, kBlockRows));
  computeDeltas();
  block.barrier();
  Outputs outputs;
  clear(outputs);
  Span seen = keysSeenBy(kBlockRows);
  forEachKeyTile(seen, [&](int key, int stage) {
    Kept<Scores> kept = draw<false>(key);
    Scores scores, gradients;
    clear(scores);
    clear(gradients);
    Way::addScores(block, scores, ofWarp(kX1), firstTile(stage));
    Way::addScores(block, gradients, ofWarp(kX2), secondTile(stage));
    makeGradients<false>(scores, gradients, seen, kept, key);
    Way::addOutputs(block, outputs, gradients, firstTile(stage), scratch());
  });
  copies.wait();
  block.barrier();
  keep(kX1, outputs, scale * kLn2);
  block.barrier();
  store(queryRows(at::QueryGradient, head, first, at::Width), kX1);
}

/// Over the heads that share the keys, in their order, and their queries.
TANDEM_ATTEND(void)::keyGradients() {
  findRows(keys, keyHeads, /*areLastLongest=*/false);
  int ofKeys = head, shared = heads / keyHeads;
  Range range = queriesThatSee();
  load<kBlockRows>(kX1, rowsOf(at::Key, ofKeys, first, keys, at::Width));
  load<kBlockRows>(kX2, rowsOf(at::Value, ofKeys, first, keys, at::ValueWidth));
  Outputs ofKey, ofValue;
  clear(ofKey);
  clear(ofValue);
  head = ofKeys * shared;
  int query = range.begin, endHead = head + shared;
  bool isLast = range.begin >= range.end;
  int set = 0; // of facts; tiles have as many stages, or one
  Columns columns = queryColumns(head);
  if (!isLast) {
    storeFacts(Pass::Keys, 0, read(Pass::Keys, head, query, kTile));
    if (kStages > 1)
      load(0, columns, query);
  }
  TANDEM_ROLL
  while (!isLast) {
    nextTile([&] { load(0, columns, query); });
    int nextHead = head, nextQuery = query + kTile;
    if (nextQuery >= range.end)
      ++nextHead, nextQuery = range.begin;
    isLast = nextHead == endHead;
    QueryWords next;
    if (!isLast) {
      if (nextHead != head)
        columns = queryColumns(nextHead);
      if (kStages > 1)
        load(1 - set, columns, nextQuery);
      next = read(Pass::Keys, nextHead, nextQuery, kTile);
    }
    facts = uint32_t(set) * kFactBytes;
    int stage = kStages > 1 ? set : 0;
    Span seen = keysSeenBy(kTile);
    if (seen.end > first && seen.begin < first + kBlockRows) {
      Kept<Scores> kept = draw<true>(query);
      Scores weights, gradients;
      clear(weights);
      clear(gradients);
      Way::addScores(block, weights, ofWarp(kX1), firstTile(stage));
      Way::addScores(block, gradients, ofWarp(kX2), secondTile(stage));
      makeGradients<true>(weights, gradients, seen, kept, query);
      Way::addOutputs(block, ofValue, weights, secondTile(stage), scratch());
      Way::addOutputs(block, ofKey, gradients, firstTile(stage), scratch());
    }
    set = 1 - set;
    if (!isLast)
      storeFacts(Pass::Keys, set, next);
    head = nextHead, query = nextQuery;
  }
  copies.wait();
  block.barrier();
  keep(kX1, ofKey, scale * kLn2);
  keep(kX2, ofValue, dropout.factor);
  block.barrier();
  store(rowsOf(at::KeyGradient, ofKeys, first, keys, at::Width), kX1);
  store(rowsOf(at::ValueGradient, ofKeys, first, keys, at::ValueWidth), kX2);
}

template <typename Way> void runForward(Words w, Block block) {
  Attend<Way, 1>(w, block).forward();
}
template <typename Way> void runQueries(Words w, Block block) {
  Attend<Way, 2>(w, block).queryGradient();
}
template <typename Way> void runKeys(Words w, Block block) {
  Attend<Way, 2>(w, block).keyGradients();
}
/// The way to multiply of a block that has `Rows` rows.
template <template <int, int, int> typename Way, int Rows, int Width, int Tile>
using WayOf = Way<Rows / at::kTileWarps, Width, Tile>;

} // namespace
} // namespace tandem::rt::cuda

#define TANDEM_ATTENTION_KERNEL(what, run, suffix, width, rows, tile, way)     \
  TANDEM_BLOCK_KERNEL(                                                         \
      tandem_attention_##what##_##suffix##_##width,                            \
      (tandem::rt::cuda::run<                                                  \
          tandem::rt::cuda::WayOf<tandem::rt::cuda::way, rows, width, tile>>))
#define TANDEM_ATTENTION(suffix, width, rows, tile, queryRows, queryTile,      \
                         keyRows, keyTile, way)                                \
  TANDEM_ATTENTION_KERNEL(forward, runForward, suffix, width, rows, tile, way) \
  TANDEM_ATTENTION_KERNEL(queries, runQueries, suffix, width, queryRows,       \
                          queryTile, way)                                      \
  TANDEM_ATTENTION_KERNEL(keys, runKeys, suffix, width, keyRows, keyTile, way)

#endif // TANDEM_RT_CUDA_KERNELS_ATTEND_KERNELS_H
