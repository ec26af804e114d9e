//===- slices.cpp - whole tensors and the slices of ranks -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/slices.h"
#include "core/strided_copy.h"
#include "tandem_rt/program_builder.h"

#include <algorithm>
#include <cstring>

namespace tandem::rt {

namespace {
/// Of so many slices of a dimension, the one at a point of the mesh.
std::pair<int64_t, int64_t> sliceAt(const Program &program, const DimForm &form,
                                    const std::vector<int64_t> &point) {
  int64_t slices = 1, slice = 0;
  for (uint32_t axis : form.axes) {
    slice = slice * program.mesh[axis].size + point[axis];
    slices *= program.mesh[axis].size;
  }
  return {slices, slice};
}

bool isFirst(const Program &program, const std::vector<uint32_t> &axes,
             int64_t rank) {
  std::vector<int64_t> point = program.coordinates(rank);
  return std::all_of(axes.begin(), axes.end(),
                     [&](uint32_t axis) { return point[axis] == 0; });
}
} // namespace

/// A dimension of extent T·S·L becomes loops over t and l, at a fixed s.
Block blockOf(const SliceLayout &layout, const std::optional<Part> &part,
              int64_t rank) {
  std::vector<int64_t> point = layout.program.coordinates(rank);
  Shape whole = contiguousStrides(part ? part->shape : layout.globalShape);
  Block block;
  if (part)
    block.wholeOffset = part->offset * whole[part->dim];
  for (size_t dim = 0; dim < layout.globalShape.size(); ++dim) {
    const DimForm &form = layout.form.dims[dim];
    auto [slices, slice] = sliceAt(layout.program, form, point);
    int64_t inner = layout.globalShape[dim] / (slices * form.timeFactor);
    block.extents.insert(block.extents.end(), {form.timeFactor, inner});
    block.wholeStrides.insert(block.wholeStrides.end(),
                              {slices * inner * whole[dim], whole[dim]});
    block.wholeOffset += slice * inner * whole[dim];
  }
  block.sliceStrides = contiguousStrides(block.extents);
  return block;
}

int64_t sliceBytes(const SliceLayout &layout) {
  return numElements(blockOf(layout, {}, 0).extents) *
         elementBytes(layout.type);
}

std::optional<int64_t> contiguousOffset(const SliceLayout &layout,
                                        int64_t rank) {
  if (!isFirst(layout.program, layout.form.reduce, rank))
    return std::nullopt;
  Block block = blockOf(layout, {}, rank);
  for (size_t dim = 0; dim < block.extents.size(); ++dim)
    if (block.extents[dim] != 1 &&
        block.wholeStrides[dim] != block.sliceStrides[dim])
      return std::nullopt;
  return block.wholeOffset * elementBytes(layout.type);
}

std::optional<Box> boxOf(const SliceLayout &layout, int64_t rank) {
  std::vector<int64_t> point = layout.program.coordinates(rank);
  Box box;
  for (size_t dim = 0; dim < layout.globalShape.size(); ++dim) {
    const DimForm &form = layout.form.dims[dim];
    if (form.timeFactor != 1)
      return std::nullopt;
    auto [slices, slice] = sliceAt(layout.program, form, point);
    box.extents.push_back(layout.globalShape[dim] / slices);
    box.offsets.push_back(slice * box.extents.back());
  }
  return layout.form.reduce.empty() ? std::optional(box) : std::nullopt;
}

void scatterTo(const SliceLayout &layout, int64_t rank, const void *whole,
               void *local) {
  Block block = blockOf(layout, {}, rank);
  int64_t width = elementBytes(layout.type);
  if (!isFirst(layout.program, layout.form.reduce, rank)) {
    std::memset(local, 0, size_t(numElements(block.extents) * width));
    return;
  }
  copyStrided(block.extents, width,
              static_cast<const char *>(whole) + block.wholeOffset * width,
              block.wholeStrides, local, block.sliceStrides);
}

void gatherFrom(const SliceLayout &layout, int64_t rank, const void *local,
                void *whole) {
  Block block = blockOf(layout, {}, rank);
  int64_t width = elementBytes(layout.type);
  copyStrided(block.extents, width, local, block.sliceStrides,
              static_cast<char *>(whole) + block.wholeOffset * width,
              block.wholeStrides);
}

std::vector<int64_t> owners(const Program &program, const Form &form) {
  std::vector<uint32_t> unsplit;
  for (uint32_t axis = 0; axis < program.mesh.size(); ++axis) {
    bool splits = false;
    for (const DimForm &dim : form.dims)
      splits |=
          std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end();
    auto isAxis = [&](const AxisPoint &at) { return at.axis == axis; };
    bool places = std::ranges::any_of(form.at, isAxis);
    if (!splits && !places)
      unsplit.push_back(axis);
  }
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < program.numRanks(); ++rank)
    if (holds(program, form, rank) && isFirst(program, unsplit, rank))
      ranks.push_back(rank);
  return ranks;
}

} // namespace tandem::rt
