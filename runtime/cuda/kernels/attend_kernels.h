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
template <int Width, int Tile, int Resident, template <int, int> typename WayOf>
template <typename Body>
TANDEM_INLINE void
Attend<Width, Tile, Resident, WayOf>::forEachKeyTile(const Span &seen,
                                                     Body body) {
  Columns columns = keyColumns();
  int stage = 0;
  if (kStages > 1 && seen.begin < seen.end)
    load(0, columns, seen.begin / Tile * Tile);
  TANDEM_ROLL
  for (int key = seen.begin / Tile * Tile; key < seen.end; key += Tile) {
    nextTile([&] { load(0, columns, key); });
    if (kStages > 1 && key + Tile < seen.end)
      load(1 - stage, columns, key + Tile);
    body(key, stage);
    stage = kStages - 1 - stage;
  }
}

TANDEM_ATTEND(void)::forward() {
  findRows(queries, heads, /*areLastLongest=*/true);
  storeFacts(Pass::Forward, 0, read(Pass::Forward, head, first, at::kTileRows));
  load<at::kTileRows>(kX1, queryRows(at::Query, head, first, at::Width));
  block.barrier();
  Outputs outputs;
  clear(outputs);
  float most[Scores::kRows], sums[Scores::kRows];
  TANDEM_UNROLL
  for (int i = 0; i < Scores::kRows; ++i)
    most[i] = kHidden, sums[i] = 0;
  Span seen = keysSeenBy(at::kTileRows);
  forEachKeyTile(seen, [&](int key, int stage) {
    Kept kept = draw<false>(key);
    Scores scores;
    clear(scores);
    Way::addScores(block, scores, ofWarp(kX1), firstTile(stage));
    hide<false>(scores, seen, key);
    addToSoftmax(scores, most, sums, outputs);
    if (dropout.isOn)
      forEachElement<Scores>([&](int i, int c) {
        if (!kept.template has<Scores>(i, c))
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
  load<at::kTileRows>(kX1, queryRows(at::Query, head, first, at::Width));
  load<at::kTileRows>(
      kX2, queryRows(at::OutputGradient, head, first, at::ValueWidth));
  storeFacts(Pass::Queries, 0, read(Pass::Queries, head, first, at::kTileRows));
  computeDeltas();
  block.barrier();
  Outputs outputs;
  clear(outputs);
  Span seen = keysSeenBy(at::kTileRows);
  forEachKeyTile(seen, [&](int key, int stage) {
    Kept kept = draw<false>(key);
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
  load<at::kTileRows>(kX1, rowsOf(at::Key, ofKeys, first, keys, at::Width));
  load<at::kTileRows>(kX2,
                      rowsOf(at::Value, ofKeys, first, keys, at::ValueWidth));
  Outputs ofKey, ofValue;
  clear(ofKey);
  clear(ofValue);
  head = ofKeys * shared;
  int query = range.begin, endHead = head + shared;
  bool isLast = range.begin >= range.end;
  int set = 0; // of facts; tiles have as many stages, or one
  Columns columns = queryColumns(head);
  if (!isLast) {
    storeFacts(Pass::Keys, 0, read(Pass::Keys, head, query, Tile));
    if (kStages > 1)
      load(0, columns, query);
  }
  TANDEM_ROLL
  while (!isLast) {
    nextTile([&] { load(0, columns, query); });
    int nextHead = head, nextQuery = query + Tile;
    if (nextQuery >= range.end)
      ++nextHead, nextQuery = range.begin;
    isLast = nextHead == endHead;
    QueryWords next;
    if (!isLast) {
      if (nextHead != head)
        columns = queryColumns(nextHead);
      if (kStages > 1)
        load(1 - set, columns, nextQuery);
      next = read(Pass::Keys, nextHead, nextQuery, Tile);
    }
    facts = uint32_t(set) * at::kFactBytes;
    int stage = kStages > 1 ? set : 0;
    Span seen = keysSeenBy(Tile);
    if (seen.end > first && seen.begin < first + at::kTileRows) {
      Kept kept = draw<true>(query);
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

template <int Width, int Tile, template <int, int> typename Way>
void runForward(Words w, Block block) {
  Attend<Width, Tile, 1, Way>(w, block).forward();
}
template <int Width, int Tile, template <int, int> typename Way>
void runQueries(Words w, Block block) {
  Attend<Width, Tile, 2, Way>(w, block).queryGradient();
}
template <int Width, int Tile, template <int, int> typename Way>
void runKeys(Words w, Block block) {
  Attend<Width, Tile, 2, Way>(w, block).keyGradients();
}

} // namespace
} // namespace tandem::rt::cuda

#define TANDEM_ATTENTION(suffix, width, forward, queries, keys, way)           \
  TANDEM_BLOCK_KERNEL(                                                         \
      tandem_attention_forward_##suffix##_##width,                             \
      (tandem::rt::cuda::runForward<width, forward, tandem::rt::cuda::way>))   \
  TANDEM_BLOCK_KERNEL(                                                         \
      tandem_attention_queries_##suffix##_##width,                             \
      (tandem::rt::cuda::runQueries<width, queries, tandem::rt::cuda::way>))   \
  TANDEM_BLOCK_KERNEL(                                                         \
      tandem_attention_keys_##suffix##_##width,                                \
      (tandem::rt::cuda::runKeys<width, keys, tandem::rt::cuda::way>))

#endif // TANDEM_RT_CUDA_KERNELS_ATTEND_KERNELS_H
