//===- Contraction.h - loops of a matrix product ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_LOWER_CONTRACTION_H
#define TANDEM_LIB_CONVERSION_LOWER_CONTRACTION_H

#include "StridedView.h"

namespace tandem::lower {

/// A loop of c += a * b: its size, and how far each operand moves.
struct Loop {
  int64_t size, a, b, c;
};

/// What the library takes: batch, m, n, k and strides in elements, one per
/// batch dimension and then two, as in `sched.matmul`.
struct Product {
  Sizes batch;
  int64_t m = 1, n = 1, k = 1;
  Sizes stridesA, stridesB, stridesC;
  /// The library's a is the second operand.
  bool swapped = false;
};

/// Puts loops together into one product. None if the library could not do it:
/// two loops to sum over that are not one, or an operand without unit stride in
/// its rows or columns.
std::optional<Product> formProduct(llvm::ArrayRef<Loop> loops);

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_CONTRACTION_H
