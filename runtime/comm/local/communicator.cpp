//===- communicator.cpp - ranks are threads -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/local/communicator.h"
#include "comm/local/group.h"
#include "core/registry.h"
#include "core/text.h"

#include <algorithm>
#include <cstring>
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
  Status transfer(bool sends, void *data, size_t bytes,
                  const std::function<void()> &moves) override;

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

/// The end that receives copies.
Status LocalCommunicator::transfer(bool sends, void *data, size_t bytes,
                                   const std::function<void()> &moves) {
  const char *kStopped = "stopped by an error on another rank";
  group->posts[member] = {nullptr, static_cast<const char *>(data), nullptr};
  if (!group->barrier.wait())
    return Status::error(kStopped);
  if (moves)
    moves();
  if (!sends)
    std::memcpy(data, group->posts[1 - member].source, bytes);
  return group->barrier.wait() ? Status::success() : Status::error(kStopped);
}

class LocalFabric final : public Fabric {
public:
  Expected<std::unique_ptr<Communicator>>
  connect(const std::vector<int64_t> &members, int64_t rank,
          unsigned channel) override;
  /// All ranks are here, with all slices.
  Status move(int64_t, std::optional<int64_t>, void *, size_t) override {
    return Status::success();
  }
  Status agree(const std::string &, const std::string &) override {
    return Status::success();
  }
  Status conclude(const std::string &, const Status &own) override {
    return own;
  }
  void setStepping(bool) override {}
  void abort(const Status &why) override;
  Status reason() const override;
  bool isReasonKnown() const override {
    std::lock_guard lock(mutex);
    return known;
  }
  Status recover() override;
  Expected<ClockReading> readClock() override { return ClockReading(); }
  int64_t bytesSent() const override { return 0; }

private:
  mutable std::mutex mutex;
  mutable bool known = false;
  Status why;
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

void LocalFabric::abort(const Status &reason) {
  std::lock_guard lock(mutex);
  if (why.ok())
    why = reason;
  for (auto &[key, group] : groups)
    group->barrier.abort();
}

Status LocalFabric::reason() const {
  std::lock_guard lock(mutex);
  known = !why.ok();
  return why;
}

Status LocalFabric::recover() {
  std::lock_guard lock(mutex);
  why = {}, known = false;
  for (auto &[key, group] : groups)
    group->barrier.reset();
  return Status::success();
}
} // namespace

std::shared_ptr<Fabric> createLocalFabric() {
  return std::make_shared<LocalFabric>();
}

void registerLocal(Registry &registry) {
  auto create = [](const Job &job) -> Expected<std::shared_ptr<Fabric>> {
    if (int64_t(job.ranks.size()) != job.worldSize)
      return errorOf("fabric 'local' connects ranks of one process, which has ",
                     job.ranks.size(), ", expected all ", job.worldSize);
    return createLocalFabric();
  };
  registry.fabrics.add("local", {[] { return Status::success(); }, create});
}

} // namespace tandem::rt
