//===- attend_scores.h - scores of attention by tiles -----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_ATTEND_SCORES_H
#define TANDEM_RT_CUDA_KERNELS_ATTEND_SCORES_H

#include "attend.h"

namespace tandem::rt::cuda {
namespace {
namespace at = attention;

/// A mask by the logarithm of base 2; the lowest ones stay finite, as a row of
/// them is one of equal scores.
inline float addedOf(float mask) {
  float made = mask * kLog2OfE;
  return made == kHidden && mask != kHidden ? kLowest : made;
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Scores are scaled, with their mask, and -inf where a key is not seen.
template <typename Way, int Resident>
template <bool IsTransposed>
TANDEM_INLINE void Attend<Way, Resident>::hide(Scores &scores, const Span &span,
                                               int firstColumn) const {
  if (isWhole<IsTransposed>(span, firstColumn))
    forEachElement<Scores>([&](int i, int c) { scores.at[i][c] *= scale; });
  else
    forEachElement<Scores>([&](int i, int c) {
      Place at = placeOf<IsTransposed>(firstColumn, i, c);
      auto seen = fact<Int2>(Facts::kSpan, at.query);
      bool isSeen = at.key >= seen[0] && at.key <= seen[1];
      scores.at[i][c] = isSeen ? scores.at[i][c] * scale : kHidden;
    });
  if (hasMask)
    addMask<IsTransposed>(scores, firstColumn);
}

template <typename Way, int Resident>
template <bool IsTransposed>
TANDEM_INLINE void Attend<Way, Resident>::addMask(Scores &scores,
                                                  int firstColumn) const {
  uint64_t mask = uint64_t(w[at::Mask]);
  int64_t base = batch * w[at::MaskStrides] + head * w[at::MaskStrides + 1];
  int64_t byQuery = w[at::MaskStrides + 2], byKey = w[at::MaskStrides + 3];
  bool isTruth = w[at::MaskIsTruth];
  forEachElement<Scores>([&](int i, int c) {
    Place at = placeOf<IsTransposed>(firstColumn, i, c);
    float &score = scores.at[i][c];
    if (score == kHidden) // there may be no such element
      return;
    int64_t place = base + at.numQuery * byQuery + at.key * byKey;
    if (!isTruth)
      score += addedOf(Wide<T>::widen(Array<T>{w.gpu, mask}[place]));
    else if (!Array<uint8_t>{w.gpu, mask}[place])
      score = kHidden;
  });
}

/// What is kept of a tile's weights.
template <typename Way, int Resident>
template <bool IsTransposed>
TANDEM_INLINE auto Attend<Way, Resident>::draw(int firstColumn) const
    -> Kept<Scores> {
  Kept<Scores> kept = {};
  if (!dropout.isOn)
    return kept;
  if constexpr (Scores::kLanesPerRow == 4)
    if (keys % 4 == 0) {
      drawByBlocks<IsTransposed>(kept, firstColumn);
      return kept;
    }
  forEachElement<Scores>([&](int i, int c) {
    Place at = placeOf<IsTransposed>(firstColumn, i, c);
    bool keeps =
        keptOf(fact<uint64_t>(Facts::kRandom, at.query) + uint64_t(at.key), w);
    kept.words[Scores::word(i, c)] |= uint32_t(keeps) << Scores::bit(i, c);
  });
  return kept;
}

/// Pieces as `mma` has them, where four neighbouring keys of a query are those
/// of one draw: each of the threads that have them draws every second or fourth
/// of these, and they exchange what is kept.
template <typename Way, int Resident>
template <bool IsTransposed>
TANDEM_INLINE void Attend<Way, Resident>::drawByBlocks(Kept<Scores> &kept,
                                                       int firstColumn) const {
  constexpr int numBlocks = kTile / 8, together = numBlocks < 4 ? numBlocks : 4;
  // Of those that share draws: two have one row's, or four have a key's.
  int number = IsTransposed ? lane / 4 % 4 : lane % 2;
  // A query's first block of four keys; a row is a query, or there are many.
  auto blockOf = [&](int query, int key) {
    return (fact<uint64_t>(Facts::kRandom, query) + uint64_t(key)) / 4;
  };
  // Of 16 rows, as many as one `mma` has.
  auto drawRows = [&](int row, uint32_t *words) {
    uint64_t ofRow = IsTransposed ? 0
                                  : blockOf(row + number * 8,
                                            firstColumn + lane % 4 / 2 * 4);
    uint32_t own = 0;
    TANDEM_ROLL
    for (int n = 0; n < numBlocks; n += together) {
      uint64_t blocks[together];
      TANDEM_UNROLL
      for (int m = 0; m < together; ++m)
        blocks[m] = IsTransposed
                        ? blockOf((n + m) * 8 + lane % 4 * 2 + number % 2,
                                  first + row / 4 * 4 + number / 2 * 8)
                        : ofRow + uint32_t(n + m) * 2;
      own |= dropout.keptOfBlocks<together>(blocks) << n * 4;
    }
    if (!IsTransposed) {
      uint32_t other = block.shuffle(own, 1);
      uint32_t rows[2] = {number ? other : own, number ? own : other};
      for (int word = 0; word < 4; ++word)
        words[word] = rows[word / 2] >> (2 * number + word % 2);
      return;
    }
    uint32_t others[4] = {own, block.shuffle(own, 4), block.shuffle(own, 8),
                          block.shuffle(own, 12)};
    TANDEM_UNROLL
    for (int word = 0; word < 4; ++word) {
      int away = number ^ word;
      uint32_t low = away & 1 ? others[1] : others[0];
      uint32_t high = away & 1 ? others[3] : others[2];
      words[word] = (away & 2 ? high : low) >> number;
    }
  };
  TANDEM_UNROLL
  for (int row = 0; row < Way::kWarpRows; row += 16)
    drawRows(int(block.warp()) * Way::kWarpRows + row + lane / 4,
             kept.words + row / 4);
}

/// Scores become weights, but for a factor of their row.
TANDEM_ATTEND(void)::addToSoftmax(Scores &scores, float *most, float *sums,
                                  Outputs &outputs) const {
  TANDEM_UNROLL
  for (int i = 0; i < Scores::kRows; ++i) {
    float largest = most[i];
    TANDEM_UNROLL
    for (int c = 0; c < Scores::kColumns; ++c)
      largest = __builtin_fmaxf(largest, scores.at[i][c]);
    largest = block.maxOfRow(largest, Scores::kLanesPerRow);
    float shift = largest == kHidden ? 0 : largest;
    float fading = Block::exp2(most[i] - shift);
    most[i] = largest;
    sums[i] *= fading;
    TANDEM_UNROLL
    for (int c = 0; c < Scores::kColumns; ++c) {
      scores.at[i][c] = Block::exp2(scores.at[i][c] - shift);
      sums[i] += scores.at[i][c];
    }
    TANDEM_UNROLL
    for (int c = 0; c < Outputs::kColumns; ++c)
      outputs.at[i][c] *= fading;
  }
}

/// Of scores and of gradients of weights: weights that dropout keeps, but for
/// its factor, and gradients of scores, but for their scale.
template <typename Way, int Resident>
template <bool IsTransposed>
TANDEM_INLINE void
Attend<Way, Resident>::makeGradients(Scores &scores, Scores &ofWeights,
                                     const Span &span, const Kept<Scores> &kept,
                                     int firstColumn) const {
  auto make = [&](int i, int c, float logarithm, bool isSeen) {
    auto whole = fact<Float2>(Facts::kWhole,
                              placeOf<IsTransposed>(firstColumn, i, c).query);
    float weight = Block::exp2(logarithm - whole[0]);
    bool keeps = !dropout.isOn || kept.has(i, c);
    float inner = ofWeights.at[i][c] * (keeps ? dropout.factor : 0) - whole[1];
    scores.at[i][c] = isSeen && keeps ? weight : 0;
    ofWeights.at[i][c] = isSeen ? weight * inner : 0;
  };
  if (isWhole<IsTransposed>(span, firstColumn) && !hasMask) {
    forEachElement<Scores>([&](int i, int c) {
      make(i, c, scores.at[i][c] * scale, /*isSeen=*/true);
    });
    return;
  }
  hide<IsTransposed>(scores, span, firstColumn);
  forEachElement<Scores>([&](int i, int c) {
    float score = scores.at[i][c];
    bool isSeen = score != kHidden;
    if (shifts)
      score -= fact<float>(Facts::kMost,
                           placeOf<IsTransposed>(firstColumn, i, c).query);
    make(i, c, score, isSeen);
  });
}
} // namespace
} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_ATTEND_SCORES_H
