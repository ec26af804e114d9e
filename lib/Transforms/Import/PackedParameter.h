//===- PackedParameter.h - packed parameters --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_IMPORT_PACKEDPARAMETER_H
#define TANDEM_LIB_TRANSFORMS_IMPORT_PACKEDPARAMETER_H

#include "Views.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <set>

namespace tandem {

/// Where a dimension of a value is a range of the parameter's dimension: index
/// i is rows origin + i * rows / pieces and following of the parameter.
struct PackedDim {
  int64_t dim, origin = 0, rows = 1, pieces = 1;
  bool operator==(const PackedDim &) const = default;

  /// The parameter's row where `index` begins, if one does.
  std::optional<int64_t> getRow(int64_t index) const;
  /// The index that begins with the parameter's row, if one does.
  std::optional<int64_t> getIndex(int64_t row) const;
};

/// An operand that has the packed dimension, of an operator where it ends: a
/// slice of one part, a product that sums over it, the return.
struct PackedUse {
  mlir::OpOperand *operand;
  PackedDim place;
};

/// A parameter (or one state of it) whose dimension `dim` holds several side by
/// side: all that is computed from it keeps them apart, until slices take one
/// each. `cuts` are the rows where parts begin, and the end.
struct PackedParameter {
  int64_t dim;
  std::set<int64_t> cuts;
  llvm::SmallVector<PackedUse> ends;
};

/// `arguments`: a parameter and its states, all of one shape. None if no slices
/// cover it, if they make more than eight parts (a loop over heads, which are
/// better split as one), or if anything computes across parts.
std::optional<PackedParameter>
findPacking(llvm::ArrayRef<mlir::BlockArgument> arguments);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_IMPORT_PACKEDPARAMETER_H
