//===- Shard.cpp - positions of shards ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;

namespace tandem::spmd {

RankedTensorType Shard::getOldOperandType(unsigned index) const {
  return cast<RankedTensorType>(operandTypes[index]);
}

RankedTensorType Shard::getOldResultType(unsigned index) const {
  return cast<RankedTensorType>(oldResultTypes[index]);
}

bool Shard::isRemoved(unsigned axis) const {
  return mesh.isTime(axis) == (coordinates.has_value() || isIteration);
}

DimSplit Shard::getSplit(RankedTensorType type, int64_t dim) const {
  Forms forms = getForms(type, mesh);
  DimSplit split;
  split.size = split.block = type.getDimSize(dim);
  for (unsigned axis : mesh.getLayoutOrder()) {
    if (!forms[axis].isGather(dim))
      continue;
    split.block /= mesh.getSize(axis);
    (isRemoved(axis) ? split.removed : split.kept) *= mesh.getSize(axis);
    if (isRemoved(axis))
      split.strides.emplace_back(axis, split.block);
  }
  return split;
}

Shard::Offset Shard::getOffset(const DimSplit &split) const {
  Offset offset;
  for (auto [axis, stride] : split.strides) {
    if (mesh.getSize(axis) == 1)
      continue;
    if (isIteration)
      offset.terms.emplace_back(kIterationAxis, stride);
    else if (coordinates)
      offset.constant += (*coordinates)[axis - mesh.getNumSpaceAxes()] * stride;
    else
      offset.terms.emplace_back(mesh.getName(axis), stride);
  }
  return offset;
}

} // namespace tandem::spmd
