//===- FreeViews.h - views that cost nothing --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_FREEVIEWS_H
#define TANDEM_ANALYSIS_FREEVIEWS_H

#include "tandem/Dialect/NN/NN.h"
#include <optional>

namespace tandem {

/// Whether the result of `op` is a run of consecutive elements of its input,
/// which begins at the same place on each rank and in each iteration or at one
/// that is affine in the rank's coordinates or the iteration.
bool isFreeView(mlir::Operation *op);

/// Where the result of a view of a row-major tensor begins in it, in elements;
/// none if it is not one run of elements.
std::optional<int64_t> getFreeOffset(nn::StridedOpInterface view);

} // namespace tandem

#endif // TANDEM_ANALYSIS_FREEVIEWS_H
