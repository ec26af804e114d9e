//===- gemm_shape.h - matrix products in their simplest form ----*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_GEMM_SHAPE_H
#define TANDEM_RT_CPU_GEMM_SHAPE_H

#include "tandem_rt/program.h"

#include <array>

namespace tandem::rt::cpu {

/// The loops of a Gemm: batch dimensions, then m, n, k, with the strides of the
/// three operands. Simplifying does not change which elements are multiplied.
struct GemmShape {
  explicit GemmShape(const Gemm &gemm);

  Shape batch;
  int64_t m, n, k;
  /// Batch strides, then (m, k), (k, n) and (m, n), of a, b and c.
  std::array<Shape, 3> strides;

  /// Joins batch dimensions that run on into each other, drops those of extent
  /// 1, and makes a batch that shares b part of m.
  void simplify();

  /// Extents of operand 0, 1 or 2, batch included.
  Shape extents(size_t operand) const;
  /// Whether a batch dimension repeats one product.
  bool repeats() const;

private:
  void dropUnitDims();
  void joinDims();
  void foldIntoRows();
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_GEMM_SHAPE_H
