//===- attention.cpp - attention by tiles, or by plain kernels ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/attention.h"
#include "core/text.h"
#include "cuda/driver/work.h"
#include "cuda/kernels/words.h"

#include <algorithm>
#include <numbers>

namespace tandem::rt::cuda {

namespace {
using Made = Expected<std::unique_ptr<Work>>;

void putTensor(const RankMemory &memory, Words &words, int at,
               const AttentionTensor &tensor, int64_t iteration) {
  words[size_t(at)] = int64_t(memory.address(tensor.buffer).at(iteration));
  for (int dim = 0; dim < 3; ++dim)
    words[size_t(at + 1 + dim)] = tensor.strides[size_t(dim)];
}

/// Whether rows of all tensors can be read by 16 bytes.
bool isWide(const Words &words, const Attention &op) {
  namespace at = attention;
  constexpr int64_t kBytes = 16;
  int64_t each = elementBytes(op.type);
  auto fits = [&](int tensor, int64_t heads) {
    const int64_t *word = &words[size_t(tensor)];
    return word[0] % kBytes == 0 && word[3] * each % kBytes == 0 &&
           (op.batch == 1 || word[1] * each % kBytes == 0) &&
           (heads == 1 || word[2] * each % kBytes == 0);
  };
  bool isWide =
      op.width * each % kBytes == 0 && op.valueWidth * each % kBytes == 0;
  for (int tensor :
       {at::Query, at::Output, at::OutputGradient, at::QueryGradient})
    isWide &= fits(tensor, op.heads);
  for (int tensor : {at::Key, at::Value, at::KeyGradient, at::ValueGradient})
    isWide &= fits(tensor, op.keyHeads);
  return isWide;
}

Words wordsOf(const RankMemory &memory, const Attention &op,
              int64_t iteration) {
  namespace at = attention;
  Words words(at::End, 0);
  auto put = [&](int place, int64_t value) { words[size_t(place)] = value; };
  auto address = [&](const BufferRef &ref) {
    return int64_t(memory.address(ref).at(iteration));
  };
  put(at::NumBatches, op.batch);
  put(at::Heads, op.heads);
  put(at::KeyHeads, op.keyHeads);
  put(at::Queries, op.queries);
  put(at::Keys, op.keys);
  put(at::Width, op.width);
  put(at::ValueWidth, op.valueWidth);
  put(at::Scale, wordOf(op.scale));
  put(at::Before, op.before);
  put(at::After, op.after);
  put(at::LogSumExp, address(op.logsumexp));
  put(at::Unit, wordOf(1.0));
  put(at::LargeLogSumExp, wordOf(kLargeLogSumExp));
  if (op.mask) {
    put(at::Mask, address(op.mask->buffer));
    put(at::MaskIsTruth, op.mask->type == ElementType::I1);
    for (int dim = 0; dim < 4; ++dim)
      put(at::MaskStrides + dim, op.mask->strides[size_t(dim)]);
  }
  if (op.positions)
    put(at::Positions, address(*op.positions));
  put(at::DropoutThreshold, -1);
  if (const auto &dropout = op.dropout) {
    put(at::DropoutThreshold, int64_t(keepThreshold(dropout->probability)));
    put(at::DropoutFactor, wordOf(1 / (1 - dropout->probability)));
    put(at::DropoutOrdinal, dropout->ordinal);
    put(at::DropoutRows, address(dropout->rows));
    put(at::DropoutSeed, address(dropout->seed));
    put(at::DropoutStep, address(dropout->step));
  }
  putTensor(memory, words, at::Query, op.query, iteration);
  putTensor(memory, words, at::Key, op.key, iteration);
  putTensor(memory, words, at::Value, op.value, iteration);
  putTensor(memory, words, at::Output, op.output, iteration);
  if (const auto &gradients = op.gradients) {
    putTensor(memory, words, at::OutputGradient, gradients->output, iteration);
    putTensor(memory, words, at::QueryGradient, gradients->query, iteration);
    putTensor(memory, words, at::KeyGradient, gradients->key, iteration);
    putTensor(memory, words, at::ValueGradient, gradients->value, iteration);
  }
  put(at::IsWide, isWide(words, op));
  return words;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Makes kernels one behind the other, with memory for what one leaves to the
/// next; of errors the first is kept. Scores are in `unit`.
class BackwardBuilder {
public:
  BackwardBuilder(const WorkContext &context, const Attention &op,
                  int64_t count, double unit)
      : context(context), op(op), count(count), unit(unit) {}

  int64_t rows() const { return op.batch * op.heads * op.queries; }
  /// Memory whose address is a word of what is added then.
  void reserve(int word, int64_t bytes);
  /// If it is needed, before the others.
  void addTotals();
  void addPlain(std::string_view what, int64_t threads);
  void add(const std::string &symbol, const Geometry &geometry) {
    add(makeOwnWork(context.gpu, symbol, geometry, count, words()));
  }
  Made finish();

private:
  void add(Made work);
  std::function<Words(int64_t)> words() const;

  const WorkContext &context;
  const Attention &op;
  const int64_t count;
  const double unit;
  std::vector<std::pair<int, int64_t>> reserved; ///< Words.
  std::vector<Memory> memory;
  std::vector<std::unique_ptr<Work>> kernels;
  Status status;
};

void BackwardBuilder::reserve(int word, int64_t bytes) {
  Expected<Memory> own = Memory::allocate(context.gpu, bytes);
  if (!own.ok()) {
    status = status.ok() ? own.status() : status;
    return;
  }
  reserved.emplace_back(word, int64_t(own->address()));
  memory.push_back(std::move(*own));
}

std::function<Words(int64_t)> BackwardBuilder::words() const {
  return [this](int64_t iteration) {
    Words words = wordsOf(context.memory, op, iteration);
    words[attention::Unit] = wordOf(unit);
    for (auto [word, address] : reserved)
      words[size_t(word)] = address;
    return words;
  };
}

void BackwardBuilder::add(Made work) {
  if (work.ok())
    kernels.push_back(std::move(*work));
  else if (status.ok())
    status = work.status();
}

void BackwardBuilder::addPlain(std::string_view what, int64_t threads) {
  add(makePlainWork(
      context.gpu, concat("tandem_attention_", what, "_", elementName(op.type)),
      threads, count, words()));
}

Made BackwardBuilder::finish() {
  if (!status.ok())
    return status;
  return hold(std::move(memory), Made(makeSequence(std::move(kernels))));
}

void BackwardBuilder::addTotals() {
  if (!addsMask(op))
    return;
  reserve(attention::Totals, 2 * rows() * elementBytes(wideType(op.type)));
  addPlain("totals", rows());
}

//===----------------------------------------------------------------------===//
// By tiles
//===----------------------------------------------------------------------===//

/// Kernels of one type, and for rows of at most one width.
struct TiledKernels {
  std::string_view name, way;
  int width;
  /// A block's, and those that it goes over at a time.
  struct Shape {
    int rows, columns;
  } forward, queries, keys;

  int64_t elementBytes() const { return name == "bf16" ? 2 : 4; }
  Geometry geometry(int64_t rows, int64_t heads, Shape shape,
                    int resident) const {
    namespace at = attention;
    Geometry geometry;
    geometry.block[0] = at::kTileThreads;
    geometry.grid[0] = uint32_t((rows + shape.rows - 1) / shape.rows * heads);
    geometry.sharedBytes = uint32_t(at::sharedBytes(
        width, int(elementBytes()), shape.rows, shape.columns, resident,
        at::scratchBytes(/*isFma=*/way == "Fma", shape.columns)));
    return geometry;
  }
  std::string symbol(std::string_view what) const {
    return concat("tandem_attention_", what, "_", name, "_", width);
  }
};

constexpr TiledKernels kTiled[] = {
#define TANDEM_TILED(name, width, rows, tile, queryRows, queryTile, keyRows,   \
                     keyTile, way)                                             \
  {#name,                                                                      \
   #way,                                                                       \
   width,                                                                      \
   {rows, tile},                                                               \
   {queryRows, queryTile},                                                     \
   {keyRows, keyTile}},
    TANDEM_ATTENTION_TILES(TANDEM_TILED)
#undef TANDEM_TILED
};

/// Null where the plain kernels have to do.
const TiledKernels *findTiled(const Attention &op) {
  std::string_view name = elementName(op.type);
  if (op.type == ElementType::F32 && allowsTf32())
    name = "tf32";
  for (const TiledKernels &kernels : kTiled)
    if (kernels.name == name &&
        std::max(op.width, op.valueWidth) <= kernels.width)
      return &kernels;
  return nullptr;
}

Made makeTiled(const WorkContext &context, const Attention &op, int64_t count,
               const TiledKernels &kernels) {
  int64_t heads = op.batch * op.heads, keyHeads = op.batch * op.keyHeads;
  auto words = [&](int64_t iteration) {
    return wordsOf(context.memory, op, iteration);
  };
  if (!op.gradients)
    return makeOwnWork(context.gpu, kernels.symbol("forward"),
                       kernels.geometry(op.queries, heads, kernels.forward, 1),
                       count, words);
  BackwardBuilder builder(context, op, count, /*unit=*/std::numbers::log2e);
  builder.addTotals();
  builder.reserve(attention::Deltas, builder.rows() * int64_t(sizeof(float)));
  builder.add(kernels.symbol("queries"),
              kernels.geometry(op.queries, heads, kernels.queries, 2));
  builder.add(kernels.symbol("keys"),
              kernels.geometry(op.keys, keyHeads, kernels.keys, 2));
  return builder.finish();
}

/// A thread per row: of any type and width.
Made makePlain(const WorkContext &context, const Attention &op, int64_t count) {
  ++context.plain.attentions;
  auto words = [&](int64_t iteration) {
    return wordsOf(context.memory, op, iteration);
  };
  BackwardBuilder builder(context, op, count, /*unit=*/1);
  if (!op.gradients)
    return makePlainWork(
        context.gpu, concat("tandem_attention_forward_", elementName(op.type)),
        builder.rows(), count, words);
  builder.addTotals();
  builder.addPlain("queries", builder.rows());
  builder.addPlain("keys", op.batch * op.keyHeads * op.keys);
  return builder.finish();
}
} // namespace

Expected<std::unique_ptr<Work>>
makeAttention(const WorkContext &context, const Attention &op, int64_t count) {
  if (const TiledKernels *kernels = findTiled(op))
    return makeTiled(context, op, count, *kernels);
  return makePlain(context, op, count);
}

} // namespace tandem::rt::cuda
