//===- interpreter_convolution.cpp - convolution, term by term ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/interpreter.h"
#include "cts/support.h"

#include <map>

namespace tandem::rt::cts {

namespace {
int64_t place(const ConvolutionTensor &tensor, const Shape &at) {
  int64_t sum = 0;
  for (size_t dim = 0; dim < at.size(); ++dim)
    sum += at[dim] * tensor.strides[dim];
  return sum;
}

/// The indices of input, weight and output of one term; nothing if it reads
/// outside of the input. `loops` are batch, channels out of all groups,
/// channels in of one, and the positions of output and kernel.
std::optional<std::array<Shape, 3>> indicesOf(const Convolution &op,
                                              const Shape &loops) {
  size_t dims = op.stride.size();
  int64_t perGroup = op.weight().extents[0] / op.groups();
  int64_t group = loops[1] / perGroup;
  std::array<Shape, 3> at = {
      Shape{loops[0], group * op.weight().extents[1] + loops[2]},
      Shape{loops[1], loops[2]}, Shape{loops[0], loops[1]}};
  for (size_t dim = 0; dim < dims; ++dim) {
    int64_t y = loops[3 + dim], k = loops[3 + dims + dim];
    int64_t x = op.stride[dim] * y + op.dilation[dim] * k - op.padding[dim];
    if (x < 0 || x >= op.input().extents[2 + dim])
      return std::nullopt;
    at[0].push_back(x);
    at[1].push_back(k);
    at[2].push_back(y);
  }
  return at;
}
} // namespace

void Interpreter::convolve(int64_t rank, const Convolution &op,
                           int64_t iteration) {
  auto [lhs, rhs, made] = op.roles();
  auto read = [&](size_t number, const Shape &index) {
    const ConvolutionTensor &tensor = op.tensors[number];
    return loadNumber(op.type, at(rank, tensor.buffer, iteration),
                      place(tensor, index));
  };
  const Shape &output = op.output().extents, &weight = op.weight().extents;
  Shape loops = output;
  loops.insert(loops.begin() + 2, weight[1]);
  loops.insert(loops.end(), weight.begin() + 2, weight.end());
  std::map<int64_t, double> sums;
  const ConvolutionTensor &result = op.tensors[made];
  for (int64_t i = 0; i < numElements(result.extents); ++i)
    sums[place(result, unflatten(i, result.extents))] = 0;
  for (int64_t i = 0; i < numElements(loops); ++i)
    if (auto indices = indicesOf(op, unflatten(i, loops)))
      sums[place(result, (*indices)[made])] +=
          read(lhs, (*indices)[lhs]) * read(rhs, (*indices)[rhs]);
  for (auto [at, sum] : sums)
    storeNumber(op.madeType, this->at(rank, result.buffer, iteration), at, sum);
}

} // namespace tandem::rt::cts
