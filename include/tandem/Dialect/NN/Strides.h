//===- Strides.h - tensors in memory ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_STRIDES_H
#define TANDEM_DIALECT_NN_STRIDES_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace tandem {

using Sizes = llvm::SmallVector<int64_t, 6>;

/// Row-major strides.
Sizes getContiguousStrides(llvm::ArrayRef<int64_t> shape);

/// The strides, for the elements in the order of `from`, of the same elements
/// in the shape `to`; none if they cannot be reached by strides.
std::optional<Sizes> reshapeStrides(llvm::ArrayRef<int64_t> from,
                                    llvm::ArrayRef<int64_t> strides,
                                    llvm::ArrayRef<int64_t> to);

} // namespace tandem

#endif // TANDEM_DIALECT_NN_STRIDES_H
