//===- transfer.cpp - moves the data of collectives -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/local/group.h"
#include "core/access.h"
#include "core/collective.h"
#include "core/reduce.h"
#include "core/strided_copy.h"
#include "tandem_rt/program_builder.h"

#include <algorithm>

namespace tandem::rt::local {

namespace {
/// Each member adds up its share of the elements and hands it to all.
void allReduce(const Posts &posts, size_t member) {
  const Collective &op = *posts[member].op;
  // Whole cache lines, so that no two members write to one.
  constexpr int64_t kGrain = 64;
  int64_t count = numElements(op.shape), n = int64_t(posts.size());
  int64_t share = ((count + n - 1) / n + kGrain - 1) / kGrain * kGrain;
  int64_t begin = std::min(count, share * int64_t(member));
  int64_t end = std::min(count, begin + share);
  std::vector<const char *> sources;
  std::vector<char *> destinations;
  for (const Post &post : posts) {
    sources.push_back(post.source + begin * elementBytes(op.type));
    destinations.push_back(post.destination + begin * elementBytes(op.type));
  }
  sumInOrder(op.type, end - begin, sources, destinations);
}

void reduceScatter(const Posts &posts, size_t member) {
  const Collective &op = *posts[member].op;
  int64_t outer = 1, inner = elementBytes(op.type);
  size_t dim = size_t(op.splitDim);
  for (size_t i = 0; i < op.shape.size(); ++i)
    (i < dim ? outer : inner) *= op.shape[i];
  int64_t slice = inner / int64_t(posts.size());
  std::vector<const char *> sources(posts.size());
  for (int64_t row = 0; row < outer; ++row) {
    for (size_t i = 0; i < posts.size(); ++i)
      sources[i] = posts[i].source + row * inner + int64_t(member) * slice;
    char *destination = posts[member].destination + row * slice;
    sumInOrder(op.type, slice / elementBytes(op.type), sources,
               std::span(&destination, 1));
  }
}

void allGather(const Posts &posts, size_t member) {
  const Collective &op = *posts[member].op;
  Shape whole = destinationShape(op, int64_t(posts.size()));
  Shape from = contiguousStrides(op.shape), to = contiguousStrides(whole);
  int64_t width = elementBytes(op.type);
  size_t dim = size_t(op.concatDim);
  int64_t stride = op.shape[dim] * to[dim] * width;
  for (size_t i = 0; i < posts.size(); ++i)
    copyStrided(op.shape, width, posts[i].source, from,
                posts[member].destination + int64_t(i) * stride, to);
}

/// Member i takes slice i of every source.
void allToAll(const Posts &posts, size_t member) {
  const Collective &op = *posts[member].op;
  int64_t n = int64_t(posts.size()), width = elementBytes(op.type);
  size_t split = size_t(op.splitDim), join = size_t(op.concatDim);
  Shape block = op.shape;
  block[split] /= n;
  Shape from = contiguousStrides(op.shape);
  Shape to = contiguousStrides(destinationShape(op, n));
  int64_t skip = int64_t(member) * block[split] * from[split] * width;
  int64_t stride = block[join] * to[join] * width;
  for (size_t i = 0; i < posts.size(); ++i)
    copyStrided(block, width, posts[i].source + skip, from,
                posts[member].destination + int64_t(i) * stride, to);
}
} // namespace

void transfer(const Posts &posts, size_t member) {
  if (numElements(posts[member].op->shape) == 0)
    return; // empty buffers may be null, which has no offsets
  switch (posts[member].op->kind) {
  case CollectiveKind::AllReduce:
    return allReduce(posts, member);
  case CollectiveKind::AllGather:
    return allGather(posts, member);
  case CollectiveKind::ReduceScatter:
    return reduceScatter(posts, member);
  case CollectiveKind::AllToAll:
    return allToAll(posts, member);
  }
}

void Group::meet() {
  // About what a core copies in the time that it takes to wake a thread.
  constexpr int64_t kSmall = 32 * 1024;
  const Collective &op = *posts[0].op;
  agreement = Status::success();
  finished = false;
  for (size_t other = 1; other < posts.size(); ++other)
    if (!isSame(op, *posts[other].op)) {
      agreement = disagreement(op, other, *posts[other].op);
      return;
    }
  int64_t bytes = numElements(op.shape) * elementBytes(op.type);
  if (bytes * int64_t(posts.size()) > kSmall)
    return;
  for (size_t member = 0; member < posts.size(); ++member)
    transfer(posts, member);
  finished = true;
}

} // namespace tandem::rt::local
