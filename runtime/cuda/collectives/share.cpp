//===- share.cpp - collectives among ranks of one GPU ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "cuda/driver/work.h"
#include "cuda/kernels/words.h"
#include "tandem_rt/program_builder.h"

#include <algorithm>
#include <string>

namespace tandem::rt::cuda {

namespace {
using Made = Expected<std::unique_ptr<Work>>;

/// Makes the share of one member; its numbers change with the iteration.
class Share {
public:
  Share(const std::shared_ptr<Gpu> &gpu, const std::vector<Post> &posts,
        size_t member, int64_t count)
      : gpu(gpu), posts(posts), op(*posts[member].op), member(member),
        count(count), n(int64_t(posts.size())), width(elementBytes(op.type)) {}

  Made allReduce();
  Made reduceScatter();
  Made allGather();
  Made allToAll();

private:
  /// Bytes behind what a member posted.
  int64_t source(size_t i, int64_t iteration, int64_t elements) const {
    return int64_t(posts[i].source.at(iteration)) + elements * width;
  }
  int64_t destination(size_t i, int64_t iteration, int64_t elements) const {
    return int64_t(posts[i].destination.at(iteration)) + elements * width;
  }
  Made copyBlock(const Shape &extents, size_t from, int64_t fromElements,
                 const Shape &fromStrides, int64_t toElements,
                 const Shape &toStrides);
  std::string sumSymbol() const {
    return "tandem_sum_" + std::string(elementName(op.type));
  }

  const std::shared_ptr<Gpu> &gpu;
  const std::vector<Post> &posts;
  const Collective &op;
  size_t member;
  int64_t count, n, width;
};

/// Elements [begin, end) of all members, which go to all members.
Made Share::allReduce() {
  int64_t elements = numElements(op.shape), part = (elements + n - 1) / n;
  int64_t begin = std::min(elements, part * int64_t(member));
  int64_t columns = std::min(elements, begin + part) - begin;
  return makePlainWork(gpu, sumSymbol(), columns, count,
                       [&](int64_t iteration) {
                         Words words = {1, columns, 0, 0, n, n};
                         for (size_t i = 0; i < posts.size(); ++i)
                           words.push_back(source(i, iteration, begin));
                         for (size_t i = 0; i < posts.size(); ++i)
                           words.push_back(destination(i, iteration, begin));
                         return words;
                       });
}

Made Share::reduceScatter() {
  int64_t rows = 1, inner = 1;
  for (size_t i = 0; i < op.shape.size(); ++i)
    (i < size_t(op.splitDim) ? rows : inner) *= op.shape[i];
  int64_t columns = inner / n;
  return makePlainWork(
      gpu, sumSymbol(), rows * columns, count, [&](int64_t iteration) {
        Words words = {rows, columns, inner, columns, n, 1};
        for (size_t i = 0; i < posts.size(); ++i)
          words.push_back(source(i, iteration, int64_t(member) * columns));
        words.push_back(destination(member, iteration, 0));
        return words;
      });
}

Made Share::copyBlock(const Shape &extents, size_t from, int64_t fromElements,
                      const Shape &fromStrides, int64_t toElements,
                      const Shape &toStrides) {
  int64_t total = numElements(extents);
  return makePlainWork(
      gpu, "tandem_copy_" + std::to_string(width), total, count,
      [&](int64_t iteration) {
        Words words = {int64_t(extents.size()), total,
                       source(from, iteration, fromElements),
                       destination(member, iteration, toElements)};
        for (const Shape *numbers : {&extents, &fromStrides, &toStrides})
          words.insert(words.end(), numbers->begin(), numbers->end());
        return words;
      });
}

Made Share::allGather() {
  Shape from = contiguousStrides(op.shape);
  Shape to = contiguousStrides(destinationShape(op, n));
  size_t dim = size_t(op.concatDim);
  int64_t stride = op.shape[dim] * to[dim];
  std::vector<std::unique_ptr<Work>> works;
  for (size_t i = 0; i < posts.size(); ++i) {
    Made copy = copyBlock(op.shape, i, 0, from, int64_t(i) * stride, to);
    if (!copy.ok())
      return copy;
    works.push_back(std::move(*copy));
  }
  return makeSequence(std::move(works));
}

/// Member i takes slice i of every source.
Made Share::allToAll() {
  size_t split = size_t(op.splitDim), join = size_t(op.concatDim);
  Shape block = op.shape;
  block[split] /= n;
  Shape from = contiguousStrides(op.shape);
  Shape to = contiguousStrides(destinationShape(op, n));
  int64_t skip = int64_t(member) * block[split] * from[split];
  int64_t stride = block[join] * to[join];
  std::vector<std::unique_ptr<Work>> works;
  for (size_t i = 0; i < posts.size(); ++i) {
    Made copy = copyBlock(block, i, skip, from, int64_t(i) * stride, to);
    if (!copy.ok())
      return copy;
    works.push_back(std::move(*copy));
  }
  return makeSequence(std::move(works));
}
} // namespace

Expected<std::unique_ptr<Work>> makeShare(const std::shared_ptr<Gpu> &gpu,
                                          const std::vector<Post> &posts,
                                          size_t member, int64_t count) {
  Share share(gpu, posts, member, count);
  if (numElements(posts[member].op->shape) == 0)
    return makeSequence({});
  switch (posts[member].op->kind) {
  case CollectiveKind::AllReduce:
    return share.allReduce();
  case CollectiveKind::AllGather:
    return share.allGather();
  case CollectiveKind::ReduceScatter:
    return share.reduceScatter();
  case CollectiveKind::AllToAll:
    return share.allToAll();
  }
  return makeSequence({});
}

} // namespace tandem::rt::cuda
