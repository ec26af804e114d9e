//===- gemm_shape.cpp - matrix products in their simplest form ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/gemm_shape.h"

namespace tandem::rt::cpu {

GemmShape::GemmShape(const Gemm &gemm)
    : batch(gemm.batch), m(gemm.m), n(gemm.n), k(gemm.k),
      strides{gemm.stridesA, gemm.stridesB, gemm.stridesC} {}

Shape GemmShape::extents(size_t operand) const {
  const int64_t rows = operand == 1 ? k : m, columns = operand == 0 ? k : n;
  Shape result = batch;
  result.insert(result.end(), {rows, columns});
  return result;
}

bool GemmShape::repeats() const {
  for (size_t dim = 0; dim < batch.size(); ++dim)
    if (strides[0][dim] == 0 && strides[1][dim] == 0)
      return true;
  return false;
}

void GemmShape::dropUnitDims() {
  for (size_t dim = batch.size(); dim-- > 0;) {
    if (batch[dim] != 1)
      continue;
    batch.erase(batch.begin() + int64_t(dim));
    for (Shape &list : strides)
      list.erase(list.begin() + int64_t(dim));
  }
}

void GemmShape::joinDims() {
  for (size_t dim = batch.size(); dim-- > 1;) {
    bool joins = true;
    for (const Shape &list : strides)
      joins &= list[dim - 1] == list[dim] * batch[dim];
    if (!joins)
      continue;
    batch[dim - 1] *= batch[dim];
    batch.erase(batch.begin() + int64_t(dim));
    for (Shape &list : strides)
      list.erase(list.begin() + int64_t(dim) - 1);
  }
}

void GemmShape::foldIntoRows() {
  while (!batch.empty()) {
    size_t last = batch.size() - 1, row = batch.size();
    const auto &[a, b, c] = strides;
    if (b[last] != 0 || a[last] != m * a[row] || c[last] != m * c[row])
      return;
    m *= batch[last];
    batch.pop_back();
    for (Shape &list : strides)
      list.erase(list.begin() + int64_t(last));
  }
}

void GemmShape::simplify() {
  dropUnitDims();
  joinDims();
  foldIntoRows();
}

} // namespace tandem::rt::cpu
