//===- block_product.h - products of small matrices -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products within a command, whose shapes repeat: by the libraries that
// compute a Gemm. They may throw dnnl::error.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_BLOCK_PRODUCT_H
#define TANDEM_RT_CPU_BLOCK_PRODUCT_H

#include <cstdint>

namespace tandem::rt::cpu {

/// In memory only.
struct Bf16 {
  uint16_t bits;
};

/// Rows `leading` elements apart, which for one row may be any number; with
/// `transposed` columns are.
template <typename T> struct Factor {
  const T *data;
  int64_t leading;
  bool transposed = false;
};

struct ProductShape {
  int64_t m, n, k;
  bool accumulate = false; ///< Adds to what c is.
  double alpha = 1;        ///< Of what adds to nothing.
};

/// c = alpha a b; rows of c are `leading` elements apart.
void multiply(const ProductShape &shape, Factor<float> a, Factor<float> b,
              float *c, int64_t leading);
void multiply(const ProductShape &shape, Factor<double> a, Factor<double> b,
              double *c, int64_t leading);
void multiply(const ProductShape &shape, Factor<Bf16> a, Factor<Bf16> b,
              float *c, int64_t leading);

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_BLOCK_PRODUCT_H
