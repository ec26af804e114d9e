//===- attention_tiles.cpp - attention by tiles ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block has 64 *rows*, which are queries (of the output, and of the gradient
// of queries) or keys (of the gradients of keys and values), and goes over the
// others, the *columns*, a tile at a time. The softmax is put together from
// tiles (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018; Dao, "FlashAttention-2", 2023); the backward has the weights again from
// the log-sum-exp. Each block alone writes its rows, and adds up in the order
// of tiles, so nothing depends on the order of blocks.
//
//===----------------------------------------------------------------------===//

#include "philox.h"
#include "tiles.h"
#include "words.h"

namespace tandem::rt::cuda {
namespace {
namespace at = attention;

constexpr float kLog2OfE = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
constexpr float kHidden = -__builtin_inff(), kLowest = -__FLT_MAX__;

/// A mask by the logarithm of base 2; the lowest ones stay finite, as a row of
/// them is one of equal scores.
inline float addedOf(float mask) {
  float made = mask * kLog2OfE;
  return made == kHidden && mask != kHidden ? kLowest : made;
}

/// What is known of each query of a block's rows or of a tile, in shared memory
/// from its begin.
struct Facts {
  /// Of `tileRows` queries each: two numbers whose sum is the log-sum-exp by
  /// the logarithm of base 2 (the first one is 0 but where masks are added),
  /// the sum of the output times its gradient, the first and the last key that
  /// is seen, and the number of the row's first random number.
  static constexpr uint32_t kMost = 0, kTotal = kMost + 4 * at::kTileRows,
                            kDelta = kTotal + 4 * at::kTileRows,
                            kFirst = kDelta + 4 * at::kTileRows,
                            kLast = kFirst + 4 * at::kTileRows,
                            kRandom = kLast + 4 * at::kTileRows,
                            kEnd = kRandom + 8 * at::kTileRows;
};
static_assert(Facts::kEnd == at::kFactBytes);

typedef float Float2 __attribute__((vector_size(8)));

/// What dropout makes of the weights with a number and the next one: 0, or
/// 1 / (1 - probability) times what they are. Not inlined: it is asked for at
/// many unrolled elements.
[[gnu::noinline, gnu::pure]] Float2 keptOf(uint64_t number, Words w) {
  uint64_t seed = uint64_t(w.array<int64_t>(at::DropoutSeed)[0]);
  uint64_t step = uint64_t(w.array<int64_t>(at::DropoutStep)[0]);
  uint64_t ordinal = uint64_t(w[at::DropoutOrdinal]);
  Bits4 bits = drawBlock(number / 4, seed, step, ordinal);
  uint32_t place = number % 4, first = chosen(bits, place);
  uint32_t second = place < 3
                        ? chosen(bits, place + 1)
                        : drawBlock(number / 4 + 1, seed, step, ordinal)[0];
  uint64_t threshold = uint64_t(w[at::DropoutThreshold]);
  float factor = float(w.real(at::DropoutFactor));
  return Float2{first < threshold ? factor : 0,
                second < threshold ? factor : 0};
}

/// Rows of one head of a tensor in memory.
template <typename T> struct Rows {
  Array<T> elements;
  int64_t stride, count;
  int width;
};

/// A block's work by `Way` (tiles.h), with `Resident` tensors whose rows are
/// the block's in shared memory throughout.
template <int Width, int Tile, int Resident, template <int, int> typename WayOf>
class Attend {
public:
  Attend(Words w, Block block)
      : w(w), block(block), lane(int(block.lane())), heads(w[at::Heads]),
        keyHeads(w[at::KeyHeads]), queries(w[at::Queries]), keys(w[at::Keys]),
        scale(float(w.real(at::Scale)) * kLog2OfE),
        drops(w[at::DropoutThreshold] >= 0), mask(uint64_t(w[at::Mask])) {}

  void forward();
  void queryGradient();
  void keyGradients();

private:
  using Way = WayOf<Width, Tile>;
  using T = typename Way::Element;
  using Scores = typename Way::Scores;
  using Outputs = typename Way::Outputs;
  static constexpr uint32_t kRowBytes = at::rowBytes(Width, sizeof(T));
  static_assert(kRowBytes == Way::kStride * sizeof(T));
  // Tiles of shared memory: the block's rows, and those of the columns.
  static constexpr uint32_t kX1 = at::kFactBytes,
                            kX2 = kX1 +
                                  (Resident - 1) * at::kTileRows * kRowBytes,
                            kY1 = kX2 + at::kTileRows * kRowBytes,
                            kY2 = kY1 + Tile * kRowBytes,
                            kScratch = kY2 + Tile * kRowBytes;
  static_assert(kScratch + at::kTileWarps * Way::kScratch ==
                at::sharedBytes(Width, sizeof(T), Tile, Resident,
                                Way::kScratch));

  //===--- Memory ---------------------------------------------------------===//

  Rows<T> rowsOf(int tensor, int64_t ofHead, int64_t first, int64_t total,
                 int width) const {
    int64_t offset =
        batch * w[tensor + 1] + ofHead * w[tensor + 2] + first * w[tensor + 3];
    return {{w.gpu, uint64_t(w[tensor]) + uint64_t(offset) * sizeof(T)},
            w[tensor + 3],
            total - first,
            int(w[width])};
  }
  Rows<T> queryRows(int tensor, int64_t first, int width) const {
    return rowsOf(tensor, head, first, queries, width);
  }
  Rows<T> keyRows(int tensor, int64_t first, int width) const {
    return rowsOf(tensor, head / (heads / keyHeads), first, keys, width);
  }
  template <typename Body> void forEachChunk(int rows, Body body) const;
  void load(uint32_t tile, int rows, const Rows<T> &from) const;
  void store(const Rows<T> &to, uint32_t tile) const;
  void keep(uint32_t tile, const Outputs &outputs) const;
  uint32_t ofWarp(uint32_t tile) const {
    return tile + block.warp() * kWarpRows * kRowBytes;
  }
  uint32_t scratch() const {
    return kScratch + block.warp() * uint32_t(Way::kScratch);
  }

  //===--- Facts ----------------------------------------------------------===//

  void findRows(int64_t total, int64_t numHeads);
  void loadFacts(int64_t firstQuery, int count, bool isBackward) const;
  template <typename N> N fact(uint32_t which, int query) const {
    return block.loadShared<N>(which + uint32_t(query) * uint32_t(sizeof(N)));
  }
  /// Of some queries, which are seen: from the first to behind the last.
  struct Span {
    int begin, end;
  };
  Span keysSeenBy(int count) const;
  void computeDeltas() const;

  //===--- Scores ---------------------------------------------------------===//

  /// The number of a piece's row among the block's.
  int rowOf(int i) const {
    return int(block.warp()) * kWarpRows + Scores::row(lane, i);
  }
  /// Of an element whose row is the i-th of a piece: in a *transposed* piece
  /// rows are keys.
  struct Place {
    int query;        ///< Of those whose facts are there.
    int64_t numQuery; ///< Of all.
    int key;
  };
  template <bool IsTransposed>
  Place placeOf(int64_t firstColumn, int i, int c) const {
    int row = rowOf(i), column = Scores::column(lane, c);
    if (IsTransposed)
      return {column, firstColumn + column, int(first) + row};
    return {row, first + row, int(firstColumn) + column};
  }
  template <bool IsTransposed>
  void hide(Scores &scores, int64_t firstColumn) const;
  template <bool IsTransposed>
  void addMask(Scores &scores, int64_t firstColumn) const;
  template <bool IsTransposed>
  void drop(Scores &weights, int64_t firstColumn) const;
  void addToSoftmax(Scores &scores, float *most, float *sums,
                    Outputs &outputs) const;
  template <bool IsTransposed>
  void makeGradients(Scores &scores, Scores &ofWeights,
                     int64_t firstColumn) const;

  Words w;
  Block block;
  int lane;
  int64_t heads, keyHeads, queries, keys;
  float scale; ///< Scores are logarithms of base 2.
  bool drops;
  uint64_t mask;
  /// What the block's rows are of, and the first of them.
  int64_t batch = 0, head = 0, first = 0;
};

#define TANDEM_ATTEND(type)                                                    \
  template <int Width, int Tile, int Resident,                                 \
            template <int, int> typename WayOf>                                \
  TANDEM_INLINE type Attend<Width, Tile, Resident, WayOf>

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Calls with row and column of each 16 bytes.
template <int Width, int Tile, int Resident, template <int, int> typename WayOf>
template <typename Body>
TANDEM_INLINE void
Attend<Width, Tile, Resident, WayOf>::forEachChunk(int rows, Body body) const {
  constexpr int each = 16 / int(sizeof(T)), chunks = Width / each;
  TANDEM_ROLL
  for (int n = int(block.thread()); n < rows * chunks; n += at::kTileThreads)
    body(n / chunks, n % chunks * each);
}

/// Zeros where there are no rows and columns.
TANDEM_ATTEND(void)::load(uint32_t tile, int rows, const Rows<T> &from) const {
  constexpr int each = 16 / int(sizeof(T));
  bool isWide = w[at::IsWide];
  forEachChunk(rows, [&](int row, int column) {
    uint32_t to = tile + uint32_t(row) * kRowBytes +
                  uint32_t(column) * uint32_t(sizeof(T));
    int64_t place = row * from.stride + column;
    int count = row < from.count ? from.width - column : 0;
    if (isWide || count <= 0) {
      Word4 value = {};
      if (count > 0)
        value = w.gpu.load<Word4>(from.elements.address +
                                  uint64_t(place) * sizeof(T));
      block.storeShared(to, value);
      return;
    }
    for (int e = 0; e < each; ++e)
      block.storeShared(to + e * uint32_t(sizeof(T)),
                        e < count ? from.elements[place + e] : T{});
  });
}

TANDEM_ATTEND(void)::store(const Rows<T> &to, uint32_t tile) const {
  constexpr int each = 16 / int(sizeof(T));
  bool isWide = w[at::IsWide];
  forEachChunk(at::kTileRows, [&](int row, int column) {
    uint32_t from = tile + uint32_t(row) * kRowBytes +
                    uint32_t(column) * uint32_t(sizeof(T));
    int64_t place = row * to.stride + column;
    int count = row < to.count ? to.width - column : 0;
    if (isWide && count > 0) {
      w.gpu.store(to.elements.address + uint64_t(place) * sizeof(T),
                  block.loadShared<Word4>(from));
      return;
    }
    for (int e = 0; e < each && e < count; ++e)
      to.elements.set(place + e,
                      block.loadShared<T>(from + e * uint32_t(sizeof(T))));
  });
}

/// The outputs, where the block's rows of a tensor were.
TANDEM_ATTEND(void)::keep(uint32_t tile, const Outputs &outputs) const {
  forEachElement<Outputs>([&](int i, int c) {
    block.storeShared(
        ofWarp(tile) + uint32_t(Outputs::row(lane, i)) * kRowBytes +
            uint32_t(Outputs::column(lane, c)) * uint32_t(sizeof(T)),
        Wide<T>::narrow(outputs.at[i][c]));
  });
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

TANDEM_ATTEND(void)::findRows(int64_t total, int64_t numHeads) {
  int64_t tiles = (total + at::kTileRows - 1) / at::kTileRows;
  int64_t number = block.number();
  first = number % tiles * at::kTileRows;
  head = number / tiles % numHeads;
  batch = number / tiles / numHeads;
}

/// Of `count` queries of the present head.
TANDEM_ATTEND(void)::loadFacts(int64_t firstQuery, int count,
                               bool isBackward) const {
  int n = int(block.thread());
  if (n >= count)
    return;
  int64_t query = firstQuery + n;
  int64_t number = (batch * heads + head) * queries + query;
  int64_t least = 1, most = 0; // none
  if (query < queries) {
    int64_t before = w[at::Before], after = w[at::After], position = 0;
    if (before >= 0 || after >= 0)
      position = w.array<int64_t>(at::Positions)[query];
    least = before < 0 || position < before ? 0 : position - before;
    most = after < 0 || position + after >= keys ? keys - 1 : position + after;
    least = least > keys ? keys : least;
    most = most < -1 ? -1 : most;
    if (isBackward) {
      float whole = w.array<float>(at::LogSumExp)[number];
      least = whole == kHidden ? keys : least;
      float most = 0, total = whole * kLog2OfE;
      if (w[at::Totals]) {
        auto totals = w.array<float>(at::Totals);
        most = totals[2 * number], total = totals[2 * number + 1];
      }
      block.storeShared(Facts::kMost + n * 4u, most);
      block.storeShared(Facts::kTotal + n * 4u, total);
    }
    if (drops)
      block.storeShared(Facts::kRandom + n * 8u,
                        uint64_t(w.array<int64_t>(at::DropoutRows)[number]) *
                            uint64_t(keys));
  }
  block.storeShared(Facts::kFirst + n * 4u, int32_t(least));
  block.storeShared(Facts::kLast + n * 4u, int32_t(most));
}

/// All threads get the same.
TANDEM_ATTEND(auto)::keysSeenBy(int count) const -> Span {
  Span span = {int(keys), 0};
  TANDEM_ROLL
  for (int n = 0; n < count; ++n) {
    int begin = fact<int32_t>(Facts::kFirst, n);
    int last = fact<int32_t>(Facts::kLast, n);
    if (begin > last)
      continue;
    span.begin = begin < span.begin ? begin : span.begin;
    span.end = last + 1 > span.end ? last + 1 : span.end;
  }
  return span;
}

/// Of the block's rows, for itself and for the kernel that comes next.
TANDEM_ATTEND(void)::computeDeltas() const {
  Rows<T> gradient = queryRows(at::OutputGradient, first, at::ValueWidth);
  Rows<T> output = queryRows(at::Output, first, at::ValueWidth);
  constexpr int lanes = Scores::kLanesPerRow;
  TANDEM_UNROLL
  for (int i = 0; i < Scores::kRows; ++i) {
    int row = rowOf(i);
    float sum = 0;
    if (row < output.count)
      TANDEM_ROLL
    for (int e = lane % lanes; e < output.width; e += lanes)
      sum += Wide<T>::widen(gradient.elements[row * gradient.stride + e]) *
             Wide<T>::widen(output.elements[row * output.stride + e]);
    sum = block.sumOfRow(sum, lanes);
    if (lane % lanes != 0 || row >= output.count)
      continue;
    block.storeShared(Facts::kDelta + row * 4u, sum);
    int64_t number = (batch * heads + head) * queries + first + row;
    w.array<float>(at::Deltas).set(number, sum);
  }
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Scores are scaled, with their mask, and -inf where a key is not seen.
template <int Width, int Tile, int Resident, template <int, int> typename WayOf>
template <bool IsTransposed>
TANDEM_INLINE void
Attend<Width, Tile, Resident, WayOf>::hide(Scores &scores,
                                           int64_t firstColumn) const {
  forEachElement<Scores>([&](int i, int c) {
    Place at = placeOf<IsTransposed>(firstColumn, i, c);
    bool isSeen = at.key >= fact<int32_t>(Facts::kFirst, at.query) &&
                  at.key <= fact<int32_t>(Facts::kLast, at.query);
    scores.at[i][c] = isSeen ? scores.at[i][c] * scale : kHidden;
  });
  if (mask)
    addMask<IsTransposed>(scores, firstColumn);
}

template <int Width, int Tile, int Resident, template <int, int> typename WayOf>
template <bool IsTransposed>
TANDEM_INLINE void
Attend<Width, Tile, Resident, WayOf>::addMask(Scores &scores,
                                              int64_t firstColumn) const {
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

/// Weights become 0, or 1 / (1 - probability) times what they are.
template <int Width, int Tile, int Resident, template <int, int> typename WayOf>
template <bool IsTransposed>
TANDEM_INLINE void
Attend<Width, Tile, Resident, WayOf>::drop(Scores &weights,
                                           int64_t firstColumn) const {
  if (!drops)
    return;
  constexpr int run = IsTransposed ? 1 : Scores::kRun;
  forEachElement<Scores, run>([&](int i, int c) {
    Place at = placeOf<IsTransposed>(firstColumn, i, c);
    Float2 kept =
        keptOf(fact<uint64_t>(Facts::kRandom, at.query) + uint64_t(at.key), w);
    for (int n = 0; n < run; ++n)
      weights.at[i][c + n] *= kept[n];
  });
}

/// Scores become weights, but for a factor of their row.
TANDEM_ATTEND(void)::addToSoftmax(Scores &scores, float *most, float *sums,
                                  Outputs &outputs) const {
  TANDEM_UNROLL
  for (int i = 0; i < Scores::kRows; ++i) {
    float largest = most[i];
    TANDEM_UNROLL
    for (int c = 0; c < Scores::kColumns; ++c)
      largest = scores.at[i][c] > largest ? scores.at[i][c] : largest;
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

/// Of scores and of gradients of weights: weights as dropout leaves them, and
/// gradients of scores.
template <int Width, int Tile, int Resident, template <int, int> typename WayOf>
template <bool IsTransposed>
TANDEM_INLINE void Attend<Width, Tile, Resident, WayOf>::makeGradients(
    Scores &scores, Scores &ofWeights, int64_t firstColumn) const {
  Scores kept;
  forEachElement<Scores>([&](int i, int c) { kept.at[i][c] = 1; });
  hide<IsTransposed>(scores, firstColumn);
  drop<IsTransposed>(kept, firstColumn);
  bool shifts = w[at::Totals];
  forEachElement<Scores>([&](int i, int c) {
    int query = placeOf<IsTransposed>(firstColumn, i, c).query;
    float score = scores.at[i][c], keeps = kept.at[i][c];
    bool isSeen = score != kHidden;
    if (shifts)
      score -= fact<float>(Facts::kMost, query);
    float weight = Block::exp2(score - fact<float>(Facts::kTotal, query));
    float inner =
        keeps * ofWeights.at[i][c] - fact<float>(Facts::kDelta, query);
    scores.at[i][c] = isSeen ? weight * keeps : 0;
    ofWeights.at[i][c] = isSeen ? weight * inner * (scale * kLn2) : 0;
  });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

TANDEM_ATTEND(void)::forward() {
  findRows(queries, heads);
  loadFacts(first, at::kTileRows, /*isBackward=*/false);
  load(kX1, at::kTileRows, queryRows(at::Query, first, at::Width));
  block.barrier();
  Outputs outputs;
  clear(outputs);
  float most[Scores::kRows], sums[Scores::kRows];
  TANDEM_UNROLL
  for (int i = 0; i < Scores::kRows; ++i)
    most[i] = kHidden, sums[i] = 0;
  Span seen = keysSeenBy(at::kTileRows);
  TANDEM_ROLL
  for (int64_t key = seen.begin / Tile * Tile; key < seen.end; key += Tile) {
    block.barrier();
    load(kY1, Tile, keyRows(at::Key, key, at::Width));
    load(kY2, Tile, keyRows(at::Value, key, at::ValueWidth));
    block.barrier();
    Scores scores;
    clear(scores);
    Way::addScores(block, scores, ofWarp(kX1), kY1);
    hide<false>(scores, key);
    addToSoftmax(scores, most, sums, outputs);
    drop<false>(scores, key);
    Way::addOutputs(block, outputs, scores, kY2, scratch());
  }
  TANDEM_UNROLL
  for (int i = 0; i < Scores::kRows; ++i) {
    float sum = block.sumOfRow(sums[i], Scores::kLanesPerRow);
    float factor = sum == 0 ? 0 : 1 / sum;
    TANDEM_UNROLL
    for (int c = 0; c < Outputs::kColumns; ++c)
      outputs.at[i][c] *= factor;
    if (lane % Scores::kLanesPerRow == 0 && first + rowOf(i) < queries)
      w.array<float>(at::LogSumExp)
          .set((batch * heads + head) * queries + first + rowOf(i),
               sum == 0 ? kHidden : (most[i] + Block::log2(sum)) * kLn2);
  }
  block.barrier();
  keep(kX1, outputs);
  block.barrier();
  store(queryRows(at::Output, first, at::ValueWidth), kX1);
}

TANDEM_ATTEND(void)::queryGradient() {
  findRows(queries, heads);
  loadFacts(first, at::kTileRows, /*isBackward=*/true);
  computeDeltas();
  load(kX1, at::kTileRows, queryRows(at::Query, first, at::Width));
  load(kX2, at::kTileRows,
       queryRows(at::OutputGradient, first, at::ValueWidth));
  block.barrier();
  Outputs outputs;
  clear(outputs);
  Span seen = keysSeenBy(at::kTileRows);
  TANDEM_ROLL
  for (int64_t key = seen.begin / Tile * Tile; key < seen.end; key += Tile) {
    block.barrier();
    load(kY1, Tile, keyRows(at::Key, key, at::Width));
    load(kY2, Tile, keyRows(at::Value, key, at::ValueWidth));
    block.barrier();
    Scores scores, gradients;
    clear(scores);
    clear(gradients);
    Way::addScores(block, scores, ofWarp(kX1), kY1);
    Way::addScores(block, gradients, ofWarp(kX2), kY2);
    makeGradients<false>(scores, gradients, key);
    Way::addOutputs(block, outputs, gradients, kY1, scratch());
  }
  block.barrier();
  keep(kX1, outputs);
  block.barrier();
  store(queryRows(at::QueryGradient, first, at::Width), kX1);
}

/// Over the heads that share the keys, in their order, and their queries.
TANDEM_ATTEND(void)::keyGradients() {
  findRows(keys, keyHeads);
  int64_t ofKeys = head, shared = heads / keyHeads;
  load(kX1, at::kTileRows, rowsOf(at::Key, ofKeys, first, keys, at::Width));
  load(kX2, at::kTileRows,
       rowsOf(at::Value, ofKeys, first, keys, at::ValueWidth));
  Outputs ofKey, ofValue;
  clear(ofKey);
  clear(ofValue);
  TANDEM_ROLL
  for (head = ofKeys * shared; head < (ofKeys + 1) * shared; ++head)
    TANDEM_ROLL
  for (int64_t query = 0; query < queries; query += Tile) {
    block.barrier();
    loadFacts(query, Tile, /*isBackward=*/true);
    int n = int(block.thread());
    if (n < Tile && query + n < queries)
      block.storeShared(
          Facts::kDelta + n * 4u,
          w.array<float>(
              at::Deltas)[(batch * heads + head) * queries + query + n]);
    block.barrier();
    Span seen = keysSeenBy(Tile);
    if (seen.end <= first || seen.begin >= first + at::kTileRows)
      continue;
    load(kY1, Tile, queryRows(at::Query, query, at::Width));
    load(kY2, Tile, queryRows(at::OutputGradient, query, at::ValueWidth));
    block.barrier();
    Scores weights, gradients;
    clear(weights);
    clear(gradients);
    Way::addScores(block, weights, ofWarp(kX1), kY1);
    Way::addScores(block, gradients, ofWarp(kX2), kY2);
    makeGradients<true>(weights, gradients, query);
    Way::addOutputs(block, ofValue, weights, kY2, scratch());
    Way::addOutputs(block, ofKey, gradients, kY1, scratch());
  }
  block.barrier();
  keep(kX1, ofKey);
  keep(kX2, ofValue);
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
TANDEM_ATTENTION_TILES(TANDEM_ATTENTION)
