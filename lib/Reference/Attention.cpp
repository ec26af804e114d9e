//===- Attention.cpp - scaled dot product attention -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluators.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace tandem::nn;

namespace tandem::reference {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

namespace {
/// One row of scores, and where what it is made of lies.
struct Row {
  int64_t number;   ///< Of the query, over batch, heads and positions.
  int64_t firstKey; ///< Row of the keys, and of the values.
  std::vector<double> scores; ///< Scaled and masked.
  std::vector<double> kept;   ///< What dropout multiplies a weight by.

  /// e^(score - log-sum-exp), where that is `most` + `log`: a finite mask over
  /// the whole row may leave nothing of `log` in their sum.
  double getWeight(int64_t key) const {
    return scores[key] == -kInfinity ? 0 : std::exp(scores[key] - most - log);
  }
  void findMost();

  double most = -kInfinity, log = 0;
};

/// Forward and backward alike: what the rows of scores are.
template <typename OpT> class Attention {
public:
  Attention(OpT op, const Call &call)
      : op(op), q(call.operand(own(op.getQuery()))),
        k(call.operand(own(op.getKey()))), v(call.operand(own(op.getValue()))),
        others(op.getOtherOperands()), call(call) {}

  int64_t countRows() const { return getNumElements(q.getShape().drop_back()); }
  int64_t getKeys() const { return k.getShape()[2]; }
  int64_t getWidth() const { return q.getShape()[3]; }
  int64_t getValueWidth() const { return v.getShape()[3]; }
  double getScale() const { return op.getScale().convertToDouble(); }

  Row getRow(int64_t number) const;
  /// The product of row `i` of `a` and row `j` of `b`.
  static double dot(const Tensor &a, int64_t i, const Tensor &b, int64_t j);

  mutable OpT op; // whose accessors are not const
  const Tensor &q, &k, &v;

private:
  unsigned own(Value operand) const {
    return llvm::find(op->getOperands(), operand) - op->operand_begin();
  }
  const Tensor &get(Value operand) const { return call.operand(own(operand)); }
  double applyMask(double score, int64_t row, int64_t key) const;
  bool isInBand(int64_t row, int64_t key) const;
  double getKept(int64_t row, int64_t key) const;

  AttentionOthers others;
  const Call &call;
};
} // namespace

template <typename OpT>
double Attention<OpT>::dot(const Tensor &a, int64_t i, const Tensor &b,
                           int64_t j) {
  int64_t width = a.getShape().back();
  double sum = 0;
  for (int64_t d = 0; d < width; ++d)
    sum += a.getDouble(i * width + d) * b.getDouble(j * width + d);
  return sum;
}

template <typename OpT>
double Attention<OpT>::applyMask(double score, int64_t row, int64_t key) const {
  const Tensor &mask = get(others.mask);
  ArrayRef<int64_t> heads = q.getShape(), shape = mask.getShape();
  int64_t index[] = {row / heads[2] / heads[1], row / heads[2] % heads[1],
                     row % heads[2], key};
  int64_t at = 0;
  for (auto [position, size] : llvm::zip_equal(index, shape))
    at = at * size + (size == 1 ? 0 : position);
  if (mask.isFloat())
    return score + mask.getDouble(at);
  return mask.getInteger(at) ? score : -kInfinity;
}

template <typename OpT>
bool Attention<OpT>::isInBand(int64_t row, int64_t key) const {
  int64_t queries = q.getShape()[2];
  int64_t position = get(others.positions).getInteger(row % queries);
  return (!op.getBefore() || key >= position - int64_t(*op.getBefore())) &&
         (!op.getAfter() || key <= position + int64_t(*op.getAfter()));
}

template <typename OpT>
double Attention<OpT>::getKept(int64_t row, int64_t key) const {
  double keep = 1 - op.getDropout().convertToDouble();
  int64_t index = get(others.rows).getInteger(row) * getKeys() + key;
  int64_t bits = applyPhilox(index, get(others.seed).getInteger(0),
                             get(others.step).getInteger(0), op.getOrdinal());
  return bits < int64_t(std::floor(keep * 4294967296.0)) ? 1 / keep : 0;
}

template <typename OpT> Row Attention<OpT>::getRow(int64_t number) const {
  int64_t group = q.getShape()[1] / k.getShape()[1];
  int64_t head = number / q.getShape()[2];
  Row row{number, head / group * getKeys(), {}, {}};
  for (int64_t key = 0; key < getKeys(); ++key) {
    double score = getScale() * dot(q, number, k, row.firstKey + key);
    if (others.mask)
      score = applyMask(score, number, key);
    if (others.positions && !isInBand(number, key))
      score = -kInfinity;
    row.scores.push_back(score);
    row.kept.push_back(others.rows ? getKept(number, key) : 1);
  }
  return row;
}

void Row::findMost() {
  double sum = 0;
  for (double score : scores)
    most = std::max(most, score);
  if (most == -kInfinity)
    return;
  for (double score : scores)
    sum += std::exp(score - most);
  log = std::log(sum);
}

LogicalResult run(AttentionOp op, Call &call) {
  Attention attention(op, call);
  int64_t width = attention.getValueWidth();
  for (int64_t i = 0; i < attention.countRows(); ++i) {
    Row row = attention.getRow(i);
    row.findMost();
    call.result(1).setDouble(i, row.most + row.log);
    for (int64_t e = 0; e < width; ++e) {
      double sum = 0;
      for (int64_t j = 0; j < attention.getKeys(); ++j)
        sum += row.getWeight(j) * row.kept[j] *
               attention.v.getDouble((row.firstKey + j) * width + e);
      call.result().setDouble(i * width + e, sum);
    }
  }
  return success();
}

/// Adds `factor` times row `j` of `from` to row `i` of `to`.
static void addRow(std::vector<double> &to, int64_t i, double factor,
                   const Tensor &from, int64_t j) {
  int64_t width = from.getShape().back();
  for (int64_t d = 0; d < width; ++d)
    to[i * width + d] += factor * from.getDouble(j * width + d);
}

/// Whether so large a log-sum-exp has lost digits, by a mask that is added.
static bool isLost(AttentionBackwardOp op, double logsumexp) {
  constexpr double kLarge = 1024;
  Value mask = op.getOtherOperands().mask;
  return mask && !getElementTypeOrSelf(mask.getType()).isInteger(1) &&
         std::isfinite(logsumexp) && std::abs(logsumexp) > kLarge;
}

LogicalResult run(AttentionBackwardOp op, Call &call) {
  Attention attention(op, call);
  const Tensor &grad = call.operand(0), &output = call.operand(4);
  std::vector<double> gradients[3];
  for (auto [sums, result] : llvm::zip_equal(gradients, call.results))
    sums.resize(result.getNumElements());
  for (int64_t i = 0; i < attention.countRows(); ++i) {
    Row row = attention.getRow(i);
    double logsumexp = call.operand(5).getDouble(i);
    if (isLost(op, logsumexp))
      row.findMost();
    else
      row.most = logsumexp;
    double delta = attention.dot(grad, i, output, i);
    for (int64_t j = 0; j < attention.getKeys(); ++j) {
      int64_t key = row.firstKey + j;
      double weight = row.getWeight(j);
      double ofWeight = attention.dot(grad, i, attention.v, key) * row.kept[j];
      double ofScore = weight * (ofWeight - delta) * attention.getScale();
      addRow(gradients[0], i, ofScore, attention.k, key);
      addRow(gradients[1], key, ofScore, attention.q, i);
      addRow(gradients[2], key, weight * row.kept[j], grad, i);
    }
  }
  for (auto [sums, result] : llvm::zip_equal(gradients, call.results))
    for (auto [i, sum] : llvm::enumerate(sums))
      result.setDouble(i, sum);
  return success();
}

} // namespace tandem::reference
