//===- interpreter_attention.cpp - attention, row by row ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/interpreter.h"

#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace tandem::rt::cts {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Philox4x32-10, the lane `index` mod 4, on words of 32 bits.
uint32_t drawBits(uint64_t index, uint64_t seed, uint64_t step,
                  uint64_t ordinal) {
  std::array<uint32_t, 4> c = {uint32_t(index >> 2), uint32_t(index >> 34),
                               uint32_t(ordinal), uint32_t(step)};
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t x = uint64_t(0xD2511F53) * c[0], y = uint64_t(0xCD9E8D57) * c[2];
    c = {uint32_t(y >> 32) ^ c[1] ^ key0, uint32_t(y),
         uint32_t(x >> 32) ^ c[3] ^ key1, uint32_t(x)};
    key0 += 0x9E3779B9, key1 += 0xBB67AE85;
  }
  return c[index % 4];
}

/// Loads and adds by index; `find` gives the place of a buffer.
struct Tensors {
  using Find = std::function<char *(const BufferRef &)>;

  double get(const AttentionTensor &tensor, std::array<int64_t, 4> i) const {
    return loadNumber(op.type, find(tensor.buffer), place(tensor, i));
  }
  void add(const AttentionTensor &tensor, std::array<int64_t, 4> i,
           std::vector<double> &sums, double term) const {
    sums[size_t(place(tensor, i))] += term;
  }
  static int64_t place(const AttentionTensor &tensor,
                       std::array<int64_t, 4> i) {
    return i[0] * tensor.strides[0] + i[1] * tensor.strides[1] +
           i[2] * tensor.strides[2] + i[3];
  }
  int64_t number(const BufferRef &ref, int64_t index) const {
    return int64_t(loadNumber(ElementType::I64, find(ref), index));
  }
  double score(int64_t b, int64_t h, int64_t i, int64_t j) const;
  double kept(int64_t row, int64_t j) const;

  const Attention &op;
  Find find;
};

double Tensors::score(int64_t b, int64_t h, int64_t i, int64_t j) const {
  int64_t keyHead = h / (op.heads / op.keyHeads);
  double sum = 0;
  for (int64_t d = 0; d < op.width; ++d)
    sum += get(op.query, {b, h, i, d}) * get(op.key, {b, keyHead, j, d});
  sum *= op.scale;
  if (op.mask) {
    const Shape &s = op.mask->strides;
    double mask = loadNumber(op.mask->type, find(op.mask->buffer),
                             b * s[0] + h * s[1] + i * s[2] + j * s[3]);
    bool isTruth = op.mask->type == ElementType::I1;
    sum = isTruth ? (mask != 0 ? sum : -kInfinity) : sum + mask;
  }
  if (op.hasBand()) {
    int64_t position = number(*op.positions, i);
    if ((op.before >= 0 && j < position - op.before) ||
        (op.after >= 0 && j > position + op.after))
      sum = -kInfinity;
  }
  return sum;
}

double Tensors::kept(int64_t row, int64_t j) const {
  if (!op.dropout)
    return 1;
  const AttentionDropout &dropout = *op.dropout;
  double keep = 1 - dropout.probability;
  uint32_t bits =
      drawBits(uint64_t(number(dropout.rows, row) * op.keys + j),
               uint64_t(number(dropout.seed, 0)),
               uint64_t(number(dropout.step, 0)), uint64_t(dropout.ordinal));
  return bits < std::floor(std::ldexp(keep, 32)) ? 1 / keep : 0;
}

/// One row of scores, forward or backward.
struct Row {
  Row(const Tensors &t, int64_t b, int64_t h, int64_t i)
      : t(t), op(t.op), b(b), h(h), keyHead(h / (op.heads / op.keyHeads)), i(i),
        number((b * op.heads + h) * op.queries + i) {
    for (int64_t j = 0; j < op.keys; ++j) {
      scores.push_back(t.score(b, h, i, j));
      most = std::max(most, scores.back());
    }
  }
  double logSum() const {
    double sum = 0;
    for (double score : scores)
      sum += score == -kInfinity ? 0 : std::exp(score - most);
    return most == -kInfinity ? 0 : std::log(sum);
  }
  /// Of a log-sum-exp that is the sum of the two.
  double weight(int64_t j, double first, double second) const {
    double score = scores[size_t(j)];
    return score == -kInfinity ? 0 : std::exp(score - first - second);
  }

  const Tensors &t;
  const Attention &op;
  int64_t b, h, keyHead, i, number;
  std::vector<double> scores;
  double most = -kInfinity;
};

void runForward(const Row &row) {
  const Attention &op = row.op;
  double logSum = row.logSum();
  storeNumber(op.type == ElementType::F64 ? op.type : ElementType::F32,
              row.t.find(op.logsumexp), row.number, row.most + logSum);
  for (int64_t e = 0; e < op.valueWidth; ++e) {
    double sum = 0;
    for (int64_t j = 0; j < op.keys; ++j)
      sum += row.weight(j, row.most, logSum) * row.t.kept(row.number, j) *
             row.t.get(op.value, {row.b, row.keyHead, j, e});
    storeNumber(op.type, row.t.find(op.output.buffer),
                Tensors::place(op.output, {row.b, row.h, row.i, e}), sum);
  }
}

/// Sums of the three gradients, by place.
using Sums = std::array<std::vector<double>, 3>;

void addGradients(const Row &row, Sums &sums) {
  const Attention &op = row.op;
  const AttentionGradients &gradients = *op.gradients;
  const auto [t, b, h, key, i] =
      std::tie(row.t, row.b, row.h, row.keyHead, row.i);
  double logsumexp =
      loadNumber(op.type == ElementType::F64 ? op.type : ElementType::F32,
                 t.find(op.logsumexp), row.number);
  // A finite mask over a whole row leaves nothing of the logarithm in it.
  bool isAdded = op.mask && op.mask->type != ElementType::I1;
  bool isLost =
      isAdded && std::isfinite(logsumexp) && std::abs(logsumexp) > 1024;
  double most = isLost ? row.most : logsumexp;
  double logSum = isLost ? row.logSum() : 0;
  double delta = 0;
  for (int64_t e = 0; e < op.valueWidth; ++e)
    delta +=
        t.get(gradients.output, {b, h, i, e}) * t.get(op.output, {b, h, i, e});
  for (int64_t j = 0; j < op.keys; ++j) {
    double weight = row.weight(j, most, logSum), kept = t.kept(row.number, j);
    double ofWeight = 0;
    for (int64_t e = 0; e < op.valueWidth; ++e) {
      double gradient = t.get(gradients.output, {b, h, i, e});
      ofWeight += kept * gradient * t.get(op.value, {b, key, j, e});
      t.add(gradients.value, {b, key, j, e}, sums[2], weight * kept * gradient);
    }
    double ofScore = weight * (ofWeight - delta) * op.scale;
    for (int64_t d = 0; d < op.width; ++d) {
      t.add(gradients.query, {b, h, i, d}, sums[0],
            ofScore * t.get(op.key, {b, key, j, d}));
      t.add(gradients.key, {b, key, j, d}, sums[1],
            ofScore * t.get(op.query, {b, h, i, d}));
    }
  }
}

/// Every element that the strides of a gradient reach, and no other.
void store(const Tensors &t, const AttentionTensor &tensor, int64_t heads,
           int64_t rows, int64_t width, const std::vector<double> &sums) {
  for (int64_t n = 0; n < t.op.batch * heads * rows * width; ++n) {
    std::vector<int64_t> at = unflatten(n, {t.op.batch, heads, rows, width});
    int64_t place = Tensors::place(tensor, {at[0], at[1], at[2], at[3]});
    storeNumber(t.op.type, t.find(tensor.buffer), place, sums[size_t(place)]);
  }
}
} // namespace

void Interpreter::attend(int64_t rank, const Attention &op, int64_t iteration) {
  Tensors tensors{
      op, [&](const BufferRef &ref) { return at(rank, ref, iteration); }};
  Sums sums;
  if (op.gradients) {
    const AttentionGradients &g = *op.gradients;
    const BufferRef *refs[] = {&g.query.buffer, &g.key.buffer, &g.value.buffer};
    for (size_t k = 0; k < sums.size(); ++k)
      sums[k].resize(size_t(refs[k]->bytes / elementBytes(op.type)));
  }
  for (int64_t n = 0; n < op.batch * op.heads * op.queries; ++n) {
    Row row(tensors, n / op.queries / op.heads, n / op.queries % op.heads,
            n % op.queries);
    if (op.gradients)
      addGradients(row, sums);
    else
      runForward(row);
  }
  if (!op.gradients)
    return;
  store(tensors, op.gradients->query, op.heads, op.queries, op.width, sums[0]);
  store(tensors, op.gradients->key, op.keyHeads, op.keys, op.width, sums[1]);
  store(tensors, op.gradients->value, op.keyHeads, op.keys, op.valueWidth,
        sums[2]);
}

} // namespace tandem::rt::cts
