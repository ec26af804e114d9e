//===- IndexSum.h - sums at an index ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_INDEXSUM_H
#define TANDEM_LIB_CONVERSION_KERNELS_INDEXSUM_H

#include "Nest/OwnLoops.h"

namespace tandem {

/// What the loops of a `scatter_add` or `embedding_backward` have in common on
/// all devices.
class IndexSum : public OwnLoopEmitter {
protected:
  IndexSum(KernelEmitter &kernel, mlir::Operation *op);

  /// A position in the indices, and in the source behind it.
  struct Place {
    Value outer, place, inner;
  };
  int64_t getNumElements() const { return to.outer * to.size * to.inner; }
  int64_t getNumPositions() const {
    return isOfRows ? from.size : from.outer * from.size * from.inner;
  }
  mlir::Type getComputed() const {
    return getComputeType(getElementType(op->getResult(0)));
  }
  Value getPosition(const Place &at);
  Value loadIndex(const Place &at);
  Value loadSource(const Place &at);
  Value getTarget(const Place &at, Value index);
  Value getStart(Value at);
  void beginUnlessInPlace();
  Value isValid(Value index);
  void beginChecked(Value index);
  void addTo(Value sum, Value target, const Place &at);

  mlir::Operation *op;
  Value source, indices;
  Around from, to;
  /// Whether an index is that of a whole row, not of one element.
  bool isOfRows;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_INDEXSUM_H
