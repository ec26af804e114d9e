//===- Lookups.h - operators with indices -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// They alone can fail at run time, by an index that is out of range. In a
// kernel they are told apart by their number, its *site*; the location of the
// command that launches it says what these are for people.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_LOOKUPS_H
#define TANDEM_ANALYSIS_LOOKUPS_H

#include "mlir/IR/Operation.h"
#include <optional>
#include <string>
#include <vector>

namespace tandem {

bool readsIndices(mlir::Operation *op);

/// An addition of what `rows`, an `embedding_backward` or `scatter_add` that
/// nothing else reads, adds up by indices. Its loop begins with `base` in place
/// of zeros.
struct RowSum {
  mlir::Operation *rows;
  mlir::Value base;
};

/// Set if `op`, which may be null, is one, and its base lies in memory: it
/// comes from outside of the block, or from a library.
std::optional<RowSum> getRowSum(mlir::Operation *op);

/// `location` with a name for each of `ops` that reads indices, in their order:
/// "embedding (model.py:7)".
mlir::Location addSites(mlir::Location location,
                        llvm::ArrayRef<mlir::Operation *> ops);

/// The names that addSites() left; none where locations were dropped.
std::vector<std::string> getSites(mlir::Location location);

} // namespace tandem

#endif // TANDEM_ANALYSIS_LOOKUPS_H
