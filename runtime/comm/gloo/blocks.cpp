//===- blocks.cpp - the blocks that an exchange moves ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/exchange.h"
#include "core/access.h"
#include "core/strided_copy.h"
#include "tandem_rt/program_builder.h"

#include <algorithm>

namespace tandem::rt::gloo {

namespace {
/// What is sent with a greeting at most: as long as a few packets the time that
/// a message takes does not depend on its size. An all-reduce sends whole terms
/// then, twice what it needs.
constexpr int64_t kMaxInline = 4096, kMaxInlineTerms = 1024;

/// Messages are so large that their cost does not count, and so small that a
/// few fill a link while others are added up.
constexpr int64_t kMaxMessage = 256 << 10, kMinMessage = 32 << 10,
                  kAllMembers = 512 << 10;
} // namespace

void Exchange::layOut() {
  int64_t n = int64_t(places.members.size());
  int64_t processes = int64_t(places.processes.size());
  block = op.shape;
  if (op.kind == CollectiveKind::ReduceScatter ||
      op.kind == CollectiveKind::AllToAll)
    block[size_t(op.splitDim)] /= n;
  inlined = maxInlineBytes() <= (isAllReduce() ? kMaxInlineTerms : kMaxInline);
  // Whole cache lines.
  constexpr int64_t kGrain = 64;
  int64_t count = numElements(op.shape);
  int64_t each =
      ((count + processes - 1) / processes + kGrain - 1) / kGrain * kGrain;
  for (int64_t i = 0; i < processes; ++i) {
    int64_t begin = inlined ? 0 : std::min(count, each * i);
    int64_t end = inlined ? count : std::min(count, begin + each);
    begins[size_t(i)] = begin;
    parts[size_t(i)] = cut(isAllReduce() ? Shape{end - begin} : block);
  }
}

/// Of what one process sends another; all must answer alike.
int64_t Exchange::maxInlineBytes() const {
  size_t most = 0;
  for (size_t from = 0; from < targets.size(); ++from)
    for (size_t to = 0; to < targets.size(); ++to)
      most = std::max(most, perPart(from, to));
  return int64_t(most) * numElements(block) * width;
}

Exchange::Parts Exchange::cut(const Shape &whole) const {
  if (numElements(whole) == 0)
    return {};
  int64_t limit = std::clamp(kAllMembers / int64_t(places.members.size()),
                             kMinMessage, kMaxMessage);
  // The first dimension whose rows are small enough.
  size_t dim = 0;
  int64_t row = numElements(whole) * width;
  while (dim < whole.size() && (row /= whole[dim]) > limit)
    ++dim;
  if (dim >= whole.size()) // one element
    return {{Shape(whole.size()), whole, numElements(whole) * width}};
  int64_t rows = std::max<int64_t>(1, limit / row), outer = 1;
  for (size_t i = 0; i < dim; ++i)
    outer *= whole[i];
  Parts result;
  for (int64_t index = 0; index < outer; ++index)
    for (int64_t begin = 0; begin < whole[dim]; begin += rows) {
      Part part{Shape(whole.size()), whole, 0};
      int64_t left = index;
      for (size_t i = dim; i-- > 0; left /= whole[i])
        part.begin[i] = left % whole[i], part.extents[i] = 1;
      part.begin[dim] = begin;
      part.extents[dim] = std::min(rows, whole[dim] - begin);
      part.bytes = part.extents[dim] * row;
      result.push_back(std::move(part));
    }
  return result;
}

Exchange::Number Exchange::numberOf(size_t from, size_t to,
                                    size_t message) const {
  size_t members = places.owned[from].size(), each = perPart(from, to);
  return {&parts[to][message / each], targets[to][message % each / members],
          places.owned[from][message % members]};
}

/// What a member has for a target, or, in an all-reduce, for a process.
Exchange::View Exchange::outgoing(size_t member, size_t process,
                                  size_t target) const {
  char *source = const_cast<char *>(posts[member].source);
  if (isAllReduce())
    return {source + begins[process] * width, {1}};
  Shape strides = contiguousStrides(op.shape);
  if (op.kind == CollectiveKind::AllGather)
    return {source, strides};
  size_t split = size_t(op.splitDim);
  return {source + int64_t(target) * block[split] * strides[split] * width,
          strides};
}

/// Where what a member has belongs, if it is not added up.
Exchange::View Exchange::incoming(size_t member, size_t target) const {
  Shape strides =
      contiguousStrides(destinationShape(op, int64_t(places.members.size())));
  size_t join = size_t(op.concatDim);
  return {posts[target].destination +
              int64_t(member) * block[join] * strides[join] * width,
          strides};
}

/// Where the sum that a process takes belongs in a member's destination.
Exchange::View Exchange::share(size_t process, size_t member) const {
  char *destination = posts[member].destination;
  if (isAllReduce())
    return {destination + begins[process] * width, {1}};
  return {destination, contiguousStrides(block)};
}

char *Exchange::at(const View &view, const Part &part) const {
  int64_t offset = 0;
  for (size_t i = 0; i < part.begin.size(); ++i)
    offset += part.begin[i] * view.strides[i];
  return view.base + offset * width;
}

bool Exchange::isContiguous(const View &view, const Part &part) const {
  int64_t expected = 1;
  for (size_t i = part.extents.size(); i-- > 0;) {
    if (part.extents[i] != 1 && view.strides[i] != expected)
      return false;
    expected *= part.extents[i];
  }
  return true;
}

void Exchange::copy(const View &from, const View &to, const Part &part) const {
  copyStrided(part.extents, width, at(from, part), from.strides, at(to, part),
              to.strides);
}

void Exchange::pack(const View &view, const Part &part, char *to) const {
  copyStrided(part.extents, width, at(view, part), view.strides, to,
              contiguousStrides(part.extents));
}

void Exchange::unpack(const char *from, const View &view,
                      const Part &part) const {
  copyStrided(part.extents, width, from, contiguousStrides(part.extents),
              at(view, part), view.strides);
}

} // namespace tandem::rt::gloo
