//===- communicator.cpp - ranks are threads -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/communicator.h"
#include "comm/local/group.h"
#include "core/access.h"
#include "core/reduce.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "tandem_rt/program_builder.h"

#include <algorithm>
#include <map>

namespace tandem::rt {

namespace {
using local::Group;
using local::Post;

bool agree(const Collective &a, const Collective &b) {
  return a.kind == b.kind && a.type == b.type && a.shape == b.shape &&
         a.splitDim == b.splitDim && a.concatDim == b.concatDim;
}

std::string describe(const Collective &op) {
  return concat(Program::kindName(op), " of ", elementName(op.type),
                shapeText(op.shape));
}

/// Every member reads from all others' sources between two barriers.
class LocalCommunicator final : public Communicator {
public:
  LocalCommunicator(std::shared_ptr<Group> group, size_t member)
      : group(std::move(group)), member(member) {}

  Status run(const Collective &op, const void *source,
             void *destination) override;

private:
  Status checkAgreement(const Collective &op) const;
  void transfer(const Collective &op);
  void allReduce(const Collective &op);
  void reduceScatter(const Collective &op);
  void allGather(const Collective &op);
  void allToAll(const Collective &op);

  const Post &post(size_t index) const { return group->posts[index]; }
  size_t size() const { return group->posts.size(); }

  std::shared_ptr<Group> group;
  size_t member;
};

Status LocalCommunicator::run(const Collective &op, const void *source,
                              void *destination) {
  group->posts[member] = {&op, static_cast<const char *>(source),
                          static_cast<char *>(destination)};
  if (!group->barrier.wait())
    return Status::error("stopped by an error on another rank");
  Status status = checkAgreement(op);
  if (status.ok())
    transfer(op);
  if (!group->barrier.wait())
    return Status::error("stopped by an error on another rank");
  return status;
}

Status LocalCommunicator::checkAgreement(const Collective &op) const {
  for (size_t other = 0; other < size(); ++other)
    if (!agree(op, *post(other).op))
      return errorOf("member ", member, " of the group runs ", describe(op),
                     ", but member ", other, " runs ",
                     describe(*post(other).op));
  return Status::success();
}

void LocalCommunicator::transfer(const Collective &op) {
  switch (op.kind) {
  case CollectiveKind::AllReduce:
    return allReduce(op);
  case CollectiveKind::AllGather:
    return allGather(op);
  case CollectiveKind::ReduceScatter:
    return reduceScatter(op);
  case CollectiveKind::AllToAll:
    return allToAll(op);
  }
}

/// Each member adds up its share of the elements and hands it to all.
void LocalCommunicator::allReduce(const Collective &op) {
  // Whole cache lines, so that no two members write to one.
  constexpr int64_t kGrain = 64;
  int64_t count = numElements(op.shape), n = int64_t(size());
  int64_t share = ((count + n - 1) / n + kGrain - 1) / kGrain * kGrain;
  int64_t begin = std::min(count, share * int64_t(member));
  int64_t end = std::min(count, begin + share);
  std::vector<const char *> sources;
  std::vector<char *> destinations;
  for (size_t i = 0; i < size(); ++i) {
    sources.push_back(post(i).source + begin * elementBytes(op.type));
    destinations.push_back(post(i).destination + begin * elementBytes(op.type));
  }
  sumInOrder(op.type, end - begin, sources, destinations);
}

void LocalCommunicator::reduceScatter(const Collective &op) {
  int64_t outer = 1, inner = elementBytes(op.type);
  size_t dim = size_t(op.splitDim);
  for (size_t i = 0; i < op.shape.size(); ++i)
    (i < dim ? outer : inner) *= op.shape[i];
  int64_t slice = inner / int64_t(size());
  for (int64_t row = 0; row < outer; ++row) {
    std::vector<const char *> sources;
    for (size_t i = 0; i < size(); ++i)
      sources.push_back(post(i).source + row * inner + int64_t(member) * slice);
    char *destination = post(member).destination + row * slice;
    sumInOrder(op.type, slice / elementBytes(op.type), sources,
               std::span(&destination, 1));
  }
}

void LocalCommunicator::allGather(const Collective &op) {
  Shape whole = destinationShape(op, int64_t(size()));
  Shape from = contiguousStrides(op.shape), to = contiguousStrides(whole);
  int64_t width = elementBytes(op.type);
  size_t dim = size_t(op.concatDim);
  for (size_t i = 0; i < size(); ++i)
    copyStrided(op.shape, width, post(i).source, from,
                post(member).destination +
                    int64_t(i) * op.shape[dim] * to[dim] * width,
                to);
}

/// Member i takes slice i of every source.
void LocalCommunicator::allToAll(const Collective &op) {
  int64_t n = int64_t(size()), width = elementBytes(op.type);
  size_t split = size_t(op.splitDim), join = size_t(op.concatDim);
  Shape block = op.shape;
  block[split] /= n;
  Shape from = contiguousStrides(op.shape);
  Shape to = contiguousStrides(destinationShape(op, n));
  int64_t skip = int64_t(member) * block[split] * from[split] * width;
  for (int64_t i = 0; i < n; ++i)
    copyStrided(block, width, post(size_t(i)).source + skip, from,
                post(member).destination + i * block[join] * to[join] * width,
                to);
}

class LocalFabric final : public Fabric {
public:
  Expected<std::unique_ptr<Communicator>>
  connect(const std::vector<int64_t> &members, int64_t rank,
          unsigned channel) override;
  void abort() override;
  void recover() override;

private:
  std::mutex mutex;
  std::map<std::pair<std::vector<int64_t>, unsigned>, std::shared_ptr<Group>>
      groups;
};

Expected<std::unique_ptr<Communicator>>
LocalFabric::connect(const std::vector<int64_t> &members, int64_t rank,
                     unsigned channel) {
  auto place = std::find(members.begin(), members.end(), rank);
  if (place == members.end())
    return errorOf("rank ", rank, " is not a member of its group");
  std::lock_guard lock(mutex);
  std::shared_ptr<Group> &group = groups[{members, channel}];
  if (!group)
    group = std::make_shared<Group>(members.size());
  return std::unique_ptr<Communicator>(
      new LocalCommunicator(group, size_t(place - members.begin())));
}

void LocalFabric::abort() {
  std::lock_guard lock(mutex);
  for (auto &[key, group] : groups)
    group->barrier.abort();
}

void LocalFabric::recover() {
  std::lock_guard lock(mutex);
  for (auto &[key, group] : groups)
    group->barrier.reset();
}
} // namespace

std::shared_ptr<Fabric> createLocalFabric() {
  return std::make_shared<LocalFabric>();
}

} // namespace tandem::rt
