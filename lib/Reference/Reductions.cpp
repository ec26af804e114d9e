//===- Reductions.cpp - operators along dimensions ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluators.h"
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace tandem::nn;

namespace tandem::reference {

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// For every element of `input`, the element of the result into which it is
/// reduced over `dims`.
static std::vector<int64_t> mapReduction(ArrayRef<int64_t> input,
                                         ArrayRef<int64_t> dims) {
  SmallVector<int64_t, 4> kept(input);
  for (int64_t dim : dims)
    kept[dim] = 1;
  // An element goes where the broadcast of the result would come from.
  return mapBroadcast(kept, input);
}

/// Folds every element of operand 0 into its result with `fold`, beginning with
/// the first one, and rounds at the end.
template <typename T, typename Fold>
static std::vector<T> foldAll(const Call &call, ArrayRef<int64_t> dims, T empty,
                              Fold fold) {
  const Tensor &input = call.operand(0);
  std::vector<T> folded(getNumElements(call.resultParts[0].shape), empty);
  std::vector<bool> isBegun(folded.size());
  for (auto [i, target] :
       llvm::enumerate(mapReduction(input.getShape(), dims))) {
    T value;
    if constexpr (std::is_same_v<T, double>)
      value = input.getDouble(i);
    else
      value = input.getInteger(i);
    folded[target] = isBegun[target] ? fold(folded[target], value) : value;
    isBegun[target] = true;
  }
  return folded;
}

template <typename FoldDouble, typename FoldInteger>
static LogicalResult reduceAll(Call &call, ArrayRef<int64_t> dims, double empty,
                               FoldDouble onDoubles, FoldInteger onIntegers) {
  if (call.operand(0).isFloat()) {
    for (auto [i, value] :
         llvm::enumerate(foldAll<double>(call, dims, empty, onDoubles)))
      call.result().setDouble(i, value);
    return success();
  }
  for (auto [i, value] : llvm::enumerate(foldAll<int64_t>(
           call, dims, std::isfinite(empty) ? empty : 0, onIntegers)))
    call.result().setInteger(i, value);
  return success();
}

LogicalResult run(SumOp op, Call &call) {
  return reduceAll(call, op.getDims(), 0, std::plus<double>(),
                   [](int64_t x, int64_t y) {
                     return static_cast<int64_t>(static_cast<uint64_t>(x) +
                                                 static_cast<uint64_t>(y));
                   });
}

LogicalResult run(MaxOp op, Call &call) {
  return reduceAll(
      call, op.getDims(), -std::numeric_limits<double>::infinity(),
      [](double x, double y) { return std::isnan(x) || x > y ? x : y; },
      [](int64_t x, int64_t y) { return std::max(x, y); });
}

LogicalResult run(MinOp op, Call &call) {
  return reduceAll(
      call, op.getDims(), std::numeric_limits<double>::infinity(),
      [](double x, double y) { return std::isnan(x) || x < y ? x : y; },
      [](int64_t x, int64_t y) { return std::min(x, y); });
}

LogicalResult run(ProdOp op, Call &call) {
  return reduceAll(call, op.getDims(), 1, std::multiplies<double>(),
                   [](int64_t x, int64_t y) {
                     return static_cast<int64_t>(static_cast<uint64_t>(x) *
                                                 static_cast<uint64_t>(y));
                   });
}

//===----------------------------------------------------------------------===//
// Rows: the elements along one dimension (or the last few)
//===----------------------------------------------------------------------===//

namespace {
/// Linear indices of the elements of one row.
using Row = std::vector<int64_t>;
} // namespace

/// All rows of a tensor of `shape` along `dim`, in row-major order of the other
/// dimensions.
static std::vector<Row> getRows(ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t, 4> heads(shape);
  heads[dim] = 1;
  auto strides = getStrides(shape);
  std::vector<Row> rows;
  forEachIndex(heads, [&](ArrayRef<int64_t> index, int64_t) {
    int64_t first = std::inner_product(index.begin(), index.end(),
                                       strides.begin(), int64_t(0));
    Row row(shape[dim]);
    for (int64_t i = 0; i < shape[dim]; ++i)
      row[i] = first + i * strides[dim];
    rows.push_back(std::move(row));
  });
  return rows;
}

static double getMaximum(const Tensor &input, const Row &row) {
  double maximum = -std::numeric_limits<double>::infinity();
  for (int64_t i : row)
    maximum = std::max(maximum, input.getDouble(i));
  return maximum;
}

static double sumExp(const Tensor &input, const Row &row, double shift) {
  double sum = 0;
  for (int64_t i : row)
    sum += std::exp(input.getDouble(i) - shift);
  return sum;
}

static bool isAllMinusInfinity(const Tensor &input, const Row &row) {
  return llvm::all_of(row, [&](int64_t i) {
    return input.getDouble(i) == -std::numeric_limits<double>::infinity();
  });
}

LogicalResult run(SoftmaxOp op, Call &call) {
  const Tensor &input = call.operand(0);
  for (const Row &row : getRows(input.getShape(), op.getDim())) {
    // The zeros that the result begins with.
    if (op.getSafe() && isAllMinusInfinity(input, row))
      continue;
    double maximum = getMaximum(input, row);
    double sum = sumExp(input, row, maximum);
    for (int64_t i : row)
      call.result().setDouble(i, std::exp(input.getDouble(i) - maximum) / sum);
  }
  return success();
}

LogicalResult run(LogSoftmaxOp op, Call &call) {
  const Tensor &input = call.operand(0);
  for (const Row &row : getRows(input.getShape(), op.getDim())) {
    double maximum = getMaximum(input, row);
    double shift = maximum + std::log(sumExp(input, row, maximum));
    for (int64_t i : row)
      call.result().setDouble(i, input.getDouble(i) - shift);
  }
  return success();
}

LogicalResult run(SoftmaxBackwardOp op, Call &call) {
  const Tensor &grad = call.operand(0), &output = call.operand(1);
  for (const Row &row : getRows(grad.getShape(), op.getDim())) {
    double sum = 0;
    for (int64_t i : row)
      sum += grad.getDouble(i) * output.getDouble(i);
    for (int64_t i : row)
      call.result().setDouble(i,
                              output.getDouble(i) * (grad.getDouble(i) - sum));
  }
  return success();
}

LogicalResult run(LogSoftmaxBackwardOp op, Call &call) {
  const Tensor &grad = call.operand(0), &output = call.operand(1);
  for (const Row &row : getRows(grad.getShape(), op.getDim())) {
    double sum = 0;
    for (int64_t i : row)
      sum += grad.getDouble(i);
    for (int64_t i : row)
      call.result().setDouble(i, grad.getDouble(i) -
                                     std::exp(output.getDouble(i)) * sum);
  }
  return success();
}

LogicalResult run(CumsumOp op, Call &call) {
  const Tensor &input = call.operand(0);
  for (const Row &row : getRows(input.getShape(), op.getDim())) {
    double sum = 0;
    uint64_t integerSum = 0;
    for (int64_t i : row) {
      if (input.isFloat())
        call.result().setDouble(i, sum += input.getDouble(i));
      else
        call.result().setInteger(i, integerSum += input.getInteger(i));
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// Whether element `i` comes before `j`; NaN counts as the largest.
static bool isBefore(const Tensor &input, int64_t i, int64_t j, bool largest) {
  if (!input.isFloat())
    return largest ? input.getInteger(i) > input.getInteger(j)
                   : input.getInteger(i) < input.getInteger(j);
  double x = input.getDouble(i), y = input.getDouble(j);
  if (std::isnan(x) || std::isnan(y))
    return largest ? std::isnan(x) && !std::isnan(y)
                   : !std::isnan(x) && std::isnan(y);
  return largest ? x > y : x < y;
}

/// Positions in `row` in the order of their elements; equal ones stay in order.
static std::vector<int64_t> sortRow(const Tensor &input, const Row &row,
                                    bool largest) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](int64_t i, int64_t j) {
    if (isBefore(input, row[i], row[j], largest))
      return true;
    return !isBefore(input, row[j], row[i], largest) && i < j;
  });
  return order;
}

LogicalResult run(TopkOp op, Call &call) {
  const Tensor &input = call.operand(0);
  Tensor &values = call.result(0), &indices = call.result(1);
  auto from = getRows(input.getShape(), op.getDim());
  auto to = getRows(values.getShape(), op.getDim());
  for (auto [source, target] : llvm::zip(from, to)) {
    auto order = sortRow(input, source, op.getLargest());
    for (auto [rank, i] : llvm::enumerate(target)) {
      values.copyElement(i, input, source[order[rank]]);
      indices.setInteger(i, order[rank]);
    }
  }
  return success();
}

LogicalResult run(ArgmaxOp op, Call &call) {
  const Tensor &input = call.operand(0);
  for (auto [i, row] : llvm::enumerate(getRows(input.getShape(), op.getDim())))
    call.result().setInteger(i, sortRow(input, row, true).front());
  return success();
}

//===----------------------------------------------------------------------===//
// Layer normalisation
//===----------------------------------------------------------------------===//

/// Number of elements in the last `rank` dimensions.
static int64_t getRowSize(const Tensor &input, int64_t rank) {
  return getNumElements(input.getShape().take_back(rank));
}

LogicalResult run(LayerNormOp op, Call &call) {
  const Tensor &input = call.operand(0);
  bool hasWeight = call.values.size() > 1, hasBias = call.values.size() > 2;
  int64_t size = getRowSize(input, op.getNormalizedRank());
  for (int64_t row = 0; row < input.getNumElements() / size; ++row) {
    auto at = [&](int64_t i) { return input.getDouble(row * size + i); };
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < size; ++i)
      mean += at(i) / size;
    for (int64_t i = 0; i < size; ++i)
      variance += (at(i) - mean) * (at(i) - mean) / size;
    double rstd = 1 / std::sqrt(variance + op.getEps().convertToDouble());
    for (int64_t i = 0; i < size; ++i) {
      double weight = hasWeight ? call.operand(1).getDouble(i) : 1;
      double bias = hasBias ? call.operand(2).getDouble(i) : 0;
      call.result(0).setDouble(row * size + i,
                               (at(i) - mean) * rstd * weight + bias);
    }
    call.result(1).setDouble(row, mean);
    call.result(2).setDouble(row, rstd);
  }
  return success();
}

namespace {
/// One row of the backward pass of layer normalisation.
struct NormRow {
  const Call &call;
  int64_t row, size;

  double grad(int64_t i) const { return get(0, i); }
  double weighted(int64_t i) const {
    return grad(i) *
           (call.values.size() > 4 ? call.operand(4).getDouble(i) : 1.0);
  }
  double rstd() const { return call.operand(3).getDouble(row); }
  double normalized(int64_t i) const {
    return (get(1, i) - call.operand(2).getDouble(row)) * rstd();
  }

private:
  double get(unsigned operand, int64_t i) const {
    return call.operand(operand).getDouble(row * size + i);
  }
};
} // namespace

LogicalResult run(LayerNormBackwardOp op, Call &call) {
  int64_t size = getRowSize(call.operand(0), op.getNormalizedRank());
  int64_t rows = call.operand(0).getNumElements() / size;
  std::vector<double> weightGrad(size), biasGrad(size);
  for (int64_t index = 0; index < rows; ++index) {
    NormRow row{call, index, size};
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < size; ++i) {
      sum += row.weighted(i) / size;
      dot += row.weighted(i) * row.normalized(i) / size;
      weightGrad[i] += row.grad(i) * row.normalized(i);
      biasGrad[i] += row.grad(i);
    }
    for (int64_t i = 0; i < size; ++i)
      call.result(0).setDouble(
          index * size + i,
          (row.weighted(i) - sum - row.normalized(i) * dot) * row.rstd());
  }
  for (int64_t i = 0; call.results.size() > 1 && i < size; ++i) {
    call.result(1).setDouble(i, weightGrad[i]);
    call.result(2).setDouble(i, biasGrad[i]);
  }
  return success();
}

} // namespace tandem::reference
