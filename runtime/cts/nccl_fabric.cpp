//===- nccl_fabric.cpp - ranks that are threads, with a GPU each ----------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/group.h"
#include "core/access.h"
#include "cts/fabrics.h"
#include "cts/support.h"
#include "cuda/collectives/messages.h"
#include "cuda/collectives/nccl_collective.h"
#include "cuda/driver/rank.h"

#include <algorithm>
#include <barrier>
#include <map>
#include <mutex>

namespace tandem::rt::cts {
namespace {
using namespace std::chrono_literals;

/// What all ranks share: ids of groups, and why there are no collectives.
struct Shared {
  explicit Shared(int64_t ranks) : meeting(ranks) {}

  std::mutex mutex;
  std::map<std::pair<std::vector<int64_t>, unsigned>, nccl::UniqueId> ids;
  Status why;
  int64_t epoch = 0;
  std::barrier<> meeting;

  Status reason() {
    std::lock_guard lock(mutex);
    return why;
  }
};

/// Collectives and transfers of values of the host, by way of a GPU. Connects
/// with the first one, as its members are then at it.
class NcclCommunicator final : public Communicator {
public:
  NcclCommunicator(std::shared_ptr<Shared> shared,
                   std::shared_ptr<cuda::Gpu> gpu, std::vector<int64_t> members,
                   size_t member, unsigned channel)
      : shared(std::move(shared)), gpu(std::move(gpu)),
        members(std::move(members)), member(member), channel(channel),
        group(**nccl::load(cuda::Gpu::libraryFolder()),
              {30s, [this] { return this->shared->reason(); }}) {}

  Status run(const Collective &op, const void *source,
             void *destination) override {
    return connected([&] { return move(op, source, destination); });
  }

  Status transfer(bool sends, void *data, size_t bytes,
                  const std::function<void()> &) override {
    return connected([&] { return give(sends, data, bytes); });
  }

private:
  template <typename Body> Status connected(Body body) {
    cuda::Present present(*gpu);
    Status status = present.status();
    if (status.ok() && members.size() > 1 && !isConnected())
      status = connect();
    if (status.ok())
      status = body();
    if (shared->reason().ok())
      return status;
    group.abort();
    return Status::error("stopped by an error on another rank");
  }
  bool isConnected() {
    std::lock_guard lock(shared->mutex);
    return group.isConnected() && epoch == shared->epoch;
  }
  Status connect() {
    nccl::UniqueId id;
    {
      std::lock_guard lock(shared->mutex);
      epoch = shared->epoch;
      auto [place, isNew] = shared->ids.try_emplace({members, channel});
      if (isNew)
        place->second = *nccl::makeId(**nccl::load(""));
      id = place->second;
    }
    return group.connect(id, int(members.size()), int(member));
  }

  Status move(const Collective &op, const void *source, void *destination) {
    int64_t n = int64_t(members.size()), width = elementBytes(op.type);
    size_t in = size_t(numElements(op.shape) * width);
    size_t out = size_t(numElements(destinationShape(op, n)) * width);
    bool isInPlace = source == destination;
    auto from = cuda::Memory::allocate(gpu, int64_t(in));
    auto to = cuda::Memory::allocate(gpu, int64_t(out));
    int64_t needed = cuda::scratchBytes(op, n);
    auto scratch = cuda::Memory::allocate(gpu, needed);
    auto stream = cuda::Stream::create(gpu);
    EXPECT_OK(from->copyIn(0, source, in));
    cuda::Post post{&op, {from->address(), 0}, {to->address(), 0}};
    if (isInPlace)
      post.destination = post.source;
    cuda::Party party{gpu,   group, n, int64_t(member), scratch->address(),
                      needed};
    auto work = n == 1 ? cuda::makeShare(gpu, {post}, 0, 1)
                       : cuda::makeExchange(party, post, 1);
    Status status = work.status();
    if (status.ok())
      status = (*work)->enqueue(stream->get(), 0);
    if (status.ok())
      status = wait(stream->get());
    if (status.ok())
      status = (isInPlace ? from : to)->copyOut(0, destination, out);
    return status;
  }

  /// Memory is freed at the end, as that waits for all that the GPU does: also
  /// for another thread's receive.
  Status give(bool sends, void *data, size_t bytes) {
    if (!stream.get())
      stream = std::move(*cuda::Stream::create(gpu));
    used.push_back(std::move(*cuda::Memory::allocate(gpu, int64_t(bytes))));
    const cuda::Memory &at = used.back();
    EXPECT_OK(at.copyIn(0, data, bytes));
    auto work = cuda::makeMessages(
        group,
        {{sends, int64_t(1 - member), {at.address(), 0}, int64_t(bytes)}});
    Status status = work->enqueue(stream.get(), 0);
    if (status.ok())
      status = wait(stream.get());
    return status.ok() && !sends ? at.copyOut(0, data, bytes) : status;
  }

  Status wait(cuda::CUstream stream) {
    cuda::CUresult result;
    while ((result = gpu->driver.streamQuery(stream)) == cuda::kNotReady) {
      if (Status status = shared->reason(); !status.ok()) {
        group.abort();
        return status;
      }
      std::this_thread::sleep_for(50us);
    }
    return gpu->check(result, "do a collective");
  }

  const std::shared_ptr<Shared> shared;
  const std::shared_ptr<cuda::Gpu> gpu;
  const std::vector<int64_t> members;
  const size_t member;
  const unsigned channel;
  std::vector<cuda::Memory> used;
  cuda::Stream stream;
  nccl::Group group;
  int64_t epoch = -1;
};

/// Of one rank. What is not about collectives is of nobody's interest here.
class NcclFabric final : public Fabric {
public:
  NcclFabric(std::shared_ptr<Shared> shared, std::shared_ptr<cuda::Gpu> gpu)
      : shared(std::move(shared)), gpu(std::move(gpu)) {}

  Expected<std::unique_ptr<Communicator>>
  connect(const std::vector<int64_t> &members, int64_t rank,
          unsigned channel) override {
    auto place = std::ranges::find(members, rank);
    if (place == members.end())
      return Status::error("rank is not a member of its group");
    return std::unique_ptr<Communicator>(new NcclCommunicator(
        shared, gpu, members, size_t(place - members.begin()), channel));
  }
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
  void abort(const Status &why) override {
    std::lock_guard lock(shared->mutex);
    if (shared->why.ok())
      shared->why = why;
  }
  Status reason() const override { return shared->reason(); }
  bool isReasonKnown() const override { return !reason().ok(); }
  /// One of the ranks does it, when all have come.
  Status recover() override {
    shared->meeting.arrive_and_wait();
    {
      std::lock_guard lock(shared->mutex);
      if (!shared->why.ok()) {
        shared->ids.clear();
        ++shared->epoch;
      }
      shared->why = Status::success();
    }
    shared->meeting.arrive_and_wait();
    return Status::success();
  }
  Expected<ClockReading> readClock() override { return ClockReading(); }
  int64_t bytesSent() const override { return 0; }

private:
  std::shared_ptr<Shared> shared;
  std::shared_ptr<cuda::Gpu> gpu;
};
} // namespace

Fabrics ncclFabrics(int64_t ranks) {
  auto shared = std::make_shared<Shared>(ranks);
  Fabrics fabrics;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    auto gpu = cuda::Gpu::open(int(rank));
    EXPECT_OK(gpu.status());
    if (gpu.ok())
      fabrics.push_back(std::make_shared<NcclFabric>(shared, *gpu));
  }
  return fabrics;
}

} // namespace tandem::rt::cts
