//===- attention.cpp - attention and convolutions, by plain kernels -------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/attention.h"
#include "cuda/kernels/words.h"
#include "cuda/work.h"

#include <cmath>
#include <string>

namespace tandem::rt::cuda {

namespace {
using Made = Expected<std::unique_ptr<Work>>;

void putTensor(const RankMemory &memory, Words &words, int at,
               const AttentionTensor &tensor, int64_t iteration) {
  words[size_t(at)] = int64_t(memory.address(tensor.buffer).at(iteration));
  for (int dim = 0; dim < 3; ++dim)
    words[size_t(at + 1 + dim)] = tensor.strides[size_t(dim)];
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
  return words;
}
} // namespace

Expected<std::unique_ptr<Work>>
makeAttention(const WorkContext &context, const Attention &op, int64_t count) {
  std::string type(elementName(op.type));
  auto words = [&](int64_t iteration) {
    return wordsOf(context.memory, op, iteration);
  };
  int64_t queries = op.batch * op.heads * op.queries;
  if (!op.gradients)
    return makePlainWork(context, "tandem_attention_forward_" + type, queries,
                         count, words);
  Made ofQueries = makePlainWork(context, "tandem_attention_queries_" + type,
                                 queries, count, words);
  if (!ofQueries.ok())
    return ofQueries;
  Made ofKeys = makePlainWork(context, "tandem_attention_keys_" + type,
                              op.batch * op.keyHeads * op.keys, count, words);
  if (!ofKeys.ok())
    return ofKeys;
  std::vector<std::unique_ptr<Work>> works;
  works.push_back(std::move(*ofQueries));
  works.push_back(std::move(*ofKeys));
  return makeSequence(std::move(works));
}

Expected<std::unique_ptr<Work>> makeConvolution(const WorkContext &context,
                                                const Convolution &op,
                                                int64_t count) {
  namespace at = convolution;
  auto words = [&](int64_t iteration) {
    Words made(at::End, 0);
    auto put = [&](int place, int64_t value) { made[size_t(place)] = value; };
    // Fewer dimensions are the last ones of three.
    size_t dims = op.stride.size(), skip = 3 - dims;
    put(at::Kind, int64_t(op.kind));
    put(at::Groups, op.groups());
    for (int dim = 0; dim < 3; ++dim) {
      bool isThere = size_t(dim) >= skip;
      size_t from = size_t(dim) - (isThere ? skip : 0);
      put(at::Stride + dim, isThere ? op.stride[from] : 1);
      put(at::Padding + dim, isThere ? op.padding[from] : 0);
      put(at::Dilation + dim, isThere ? op.dilation[from] : 1);
    }
    for (int i = 0; i < 3; ++i) {
      const ConvolutionTensor &tensor = op.tensors[size_t(i)];
      int first = at::Tensors + i * at::TensorWords;
      put(first, int64_t(context.memory.address(tensor.buffer).at(iteration)));
      for (int dim = 0; dim < 5; ++dim) {
        bool isThere = dim < 2 || size_t(dim - 2) >= skip;
        size_t from = dim < 2 ? size_t(dim) : size_t(dim) - skip;
        put(first + 1 + dim, isThere ? tensor.extents[from] : 1);
        put(first + 6 + dim, isThere ? tensor.strides[from] : 0);
      }
    }
    return made;
  };
  return makePlainWork(
      context, "tandem_convolution_" + std::string(elementName(op.type)),
      numElements(op.tensors[op.roles()[2]].extents), count, words);
}

} // namespace tandem::rt::cuda
