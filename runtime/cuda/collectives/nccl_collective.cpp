//===- nccl_collective.cpp - collectives between processes
//-----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/collectives/nccl_collective.h"
#include "core/access.h"
#include "cuda/collectives/messages.h"
#include "tandem_rt/program_builder.h"

#include <algorithm>
#include <numeric>

namespace tandem::rt::cuda {

namespace {
void *pointer(const Address &at, int64_t iteration) {
  return reinterpret_cast<void *>(at.at(iteration));
}

class GatherWork final : public Work {
public:
  GatherWork(nccl::Group &group, Address source, Address destination,
             int64_t bytes)
      : group(group), source(source), destination(destination), bytes(bytes) {}
  Status enqueue(CUstream stream, int64_t iteration) override {
    return group.allGather(pointer(source, iteration),
                           pointer(destination, iteration), size_t(bytes),
                           stream);
  }

private:
  nccl::Group &group;
  Address source, destination;
  int64_t bytes;
};

class Exchange final : public CollectiveBuilder {
public:
  Exchange(const Party &party, const Post &post, int64_t count)
      : CollectiveBuilder(party.gpu, *post.op, count, party.members),
        party(party), source(post.source), destination(post.destination),
        packed{party.scratch, 0},
        received{party.scratch + uint64_t(party.scratchBytes / 2), 0} {}

private:
  Status allReduce() override;
  Status reduceScatter() override;
  Status allGather() override;
  Status allToAll() override;
  /// Sends block i of `from` to member i, and receives that of member i as
  /// block i of `to`; this member's own stays.
  void exchangeBlocks(Address from, Address to, int64_t bytes);
  Status sum(Address own, Address others, int64_t stride, Address to,
             int64_t columns);
  void addMessages(std::vector<Message> messages) {
    works.push_back(makeMessages(party.group, std::move(messages)));
  }

  const Party &party;
  const Address source, destination;
  const Address packed, received;
};

/// `others` has the terms of all members but this one, `stride` bytes apart.
Status Exchange::sum(Address own, Address others, int64_t stride, Address to,
                     int64_t columns) {
  std::vector<Address> terms;
  for (int64_t i = 0; i < n; ++i)
    terms.push_back(i == party.member ? own : others + i * stride);
  return add(makeSum(gpu, op.type, terms, {to}, columns, count));
}

/// Each member adds up its part, and all add up what does not divide.
Status Exchange::allReduce() {
  int64_t elements = numElements(op.shape);
  int64_t part = elements * width <= kSmallSum ? 0 : elements / n;
  int64_t bytes = part * width, rest = (elements - n * part) * width;
  Address sourceRest = source + n * bytes;
  std::vector<Message> messages;
  for (int64_t i = 0; i < n; ++i) {
    if (i == party.member)
      continue;
    Address slot = received + i * (bytes + rest);
    messages.push_back({true, i, source + i * bytes, bytes});
    messages.push_back({true, i, sourceRest, rest});
    messages.push_back({false, i, slot, bytes});
    messages.push_back({false, i, slot + bytes, rest});
  }
  addMessages(std::move(messages));
  Address own = destination + party.member * bytes;
  Status status =
      sum(source + party.member * bytes, received, bytes + rest, own, part);
  if (status.ok())
    status = sum(sourceRest, received + bytes, bytes + rest,
                 destination + n * bytes, rest / width);
  if (status.ok() && part)
    works.push_back(
        makeGatherInPlace(party.group, destination, bytes, party.member));
  return status;
}

void Exchange::exchangeBlocks(Address from, Address to, int64_t bytes) {
  std::vector<Message> messages;
  for (int64_t i = 0; i < n; ++i)
    if (i != party.member) {
      messages.push_back({true, i, from + i * bytes, bytes});
      messages.push_back({false, i, to + i * bytes, bytes});
    }
  addMessages(std::move(messages));
}

Status Exchange::reduceScatter() {
  Cut cut(op.shape, op.splitDim);
  int64_t block = cut.rows * (cut.columns / n);
  Status status;
  if (cut.rows > 1)
    status = permute(source, packed, cut.rows, cut.columns / n, true);
  Address from = cut.rows > 1 ? packed : source;
  exchangeBlocks(from, received, block * width);
  if (!status.ok())
    return status;
  return sum(from + party.member * block * width, received, block * width,
             destination, block);
}

Status Exchange::allGather() {
  Cut cut(op.shape, op.concatDim);
  int64_t bytes = numElements(op.shape) * width;
  Address to = cut.rows > 1 ? received : destination;
  works.push_back(std::make_unique<GatherWork>(party.group, source, to, bytes));
  return cut.rows > 1
             ? permute(received, destination, cut.rows, cut.columns, false)
             : Status::success();
}

/// Member i takes slice i of every source.
Status Exchange::allToAll() {
  Shape block = op.shape;
  block[size_t(op.splitDim)] /= n;
  Cut split(block, op.splitDim), join(block, op.concatDim);
  int64_t bytes = numElements(block) * width;
  Address from = split.rows > 1 ? packed : source;
  Address to = join.rows > 1 ? received : destination;
  Status status;
  if (split.rows > 1)
    status = permute(source, packed, split.rows, split.columns, true);
  exchangeBlocks(from, to, bytes);
  copy(from + party.member * bytes, to + party.member * bytes, bytes);
  if (status.ok() && join.rows > 1)
    status = permute(received, destination, join.rows, join.columns, false);
  return status;
}

} // namespace

/// Half of it is what is packed, half what is received: the larger of the
/// operands, or the terms of small sums.
int64_t scratchBytes(const Collective &op, int64_t members) {
  int64_t width = elementBytes(op.type);
  int64_t operands = std::max(numElements(op.shape),
                              numElements(destinationShape(op, members)));
  int64_t elements = numElements(op.shape);
  bool isSmall = elements * width <= kSmallSum;
  int64_t terms = op.kind != CollectiveKind::AllReduce ? 0
                  : isSmall ? members * elements
                            : elements + members * members;
  return 2 * aligned(std::max(operands, terms) * width);
}

Expected<std::unique_ptr<Work>> makeExchange(const Party &party,
                                             const Post &post, int64_t count) {
  return Exchange(party, post, count).make();
}

std::unique_ptr<Work> makeGatherInPlace(nccl::Group &group, Address all,
                                        int64_t bytes, int64_t member) {
  return std::make_unique<GatherWork>(group, all + member * bytes, all, bytes);
}

} // namespace tandem::rt::cuda
