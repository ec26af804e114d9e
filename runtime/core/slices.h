//===- slices.h - whole tensors and the slices of ranks ---------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_SLICES_H
#define TANDEM_RT_CORE_SLICES_H

#include "tandem_rt/program.h"

namespace tandem::rt {

/// What slicing needs to know of an argument or result.
struct SliceLayout {
  const Program &program;
  const Form &form;
  const Shape &globalShape;
  ElementType type;
};

/// A slice as loops over its elements: where they lie in the whole, and in the
/// slice, where they are contiguous. Strides and offset are in elements.
struct Block {
  Shape extents, wholeStrides, sliceStrides;
  int64_t wholeOffset = 0;
};
/// Of a part of a whole, in the latter.
Block blockOf(const SliceLayout &layout, const std::optional<Part> &part,
              int64_t rank);

/// Bytes of each rank's slice.
int64_t sliceBytes(const SliceLayout &layout);

/// Where the slice of `rank` begins in the whole, in bytes, if it lies there in
/// one piece and as it is.
std::optional<int64_t> contiguousOffset(const SliceLayout &layout,
                                        int64_t rank);

/// Where the slice of `rank` lies in the whole: a box, first element and
/// extents by dimension. None if it is several boxes (over time), or a term.
struct Box {
  Shape offsets = {};
  Shape extents = {};
};
std::optional<Box> boxOf(const SliceLayout &layout, int64_t rank);

/// Copies the slice of `rank` out of a whole tensor. Along `reduce` axes the
/// first point gets the value and the others zero.
void scatterTo(const SliceLayout &layout, int64_t rank, const void *whole,
               void *local);

/// Copies the slice of `rank` to its place in a whole tensor.
void gatherFrom(const SliceLayout &layout, int64_t rank, const void *local,
                void *whole);

/// The ranks that must be gathered to have each slice once: those at the first
/// point of every axis that splits nothing. Along `reduce` axes too, so that
/// the terms of such a rank are reduceGroup().
std::vector<int64_t> owners(const Program &program, const Form &form);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_SLICES_H
