//===- communicator.cpp - communicator.cpp - ranks are threads ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/communicator.h"
#include "comm/local/group.h"
#include "core/text.h"

#include <algorithm>
#include <map>

namespace tandem::rt {

namespace {
using local::Group;

/// Every member reads from all others' sources, between two barriers.
class LocalCommunicator final : public Communicator {
public:
  LocalCommunicator(std::shared_ptr<Group> group, size_t member)
      : group(std::move(group)), member(member) {}

  Status run(const Collective &op, const void *source,
             void *destination) override;

private:
  std::shared_ptr<Group> group;
  size_t member;
};

Status LocalCommunicator::run(const Collective &op, const void *source,
                              void *destination) {
  const char *kStopped = "stopped by an error on another rank";
  group->posts[member] = {&op, static_cast<const char *>(source),
                          static_cast<char *>(destination)};
  if (!group->barrier.wait([&] { group->meet(); }))
    return Status::error(kStopped);
  if (!group->agreement.ok() || group->finished)
    return group->agreement;
  local::transfer(group->posts, member);
  return group->barrier.wait() ? Status::success() : Status::error(kStopped);
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
