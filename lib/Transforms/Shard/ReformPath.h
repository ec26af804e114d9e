//===- ReformPath.h - the cheapest sequence of reforms ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SHARD_REFORMPATH_H
#define TANDEM_TRANSFORMS_SHARD_REFORMPATH_H

#include "tandem/Dialect/SPMD/SPMD.h"

namespace tandem {

/// The cheapest sequence of legal one-axis reforms (`getReformedAxis`) from the
/// forms of `from` to those of `to`, without `from` itself. It is found by a
/// shortest path over all forms of the tensor. The cost of a reform over space
/// is what it takes, over all strands, by `rates` (`spmd.rates`), as a plan
/// counts it; without them, or to and from one point, what one device sends,
/// plus a latency. A local one costs a small part of the bytes that it writes.
/// Where costs are equal, the sequence found first in the order of forms wins.
/// None if there is no such sequence.
std::optional<llvm::SmallVector<mlir::RankedTensorType>>
findReforms(mlir::RankedTensorType from, mlir::RankedTensorType to,
            spmd::MeshAttr mesh, mlir::DictionaryAttr rates);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_SHARD_REFORMPATH_H
