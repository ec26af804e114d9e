//===- peers.h - the other processes of a job -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_PEERS_H
#define TANDEM_RT_CUDA_PEERS_H

#include "core/executor.h"
#include "cuda/exchange.h"
#include "cuda/rank.h"

#include <chrono>
#include <map>

namespace tandem::rt::cuda {

/// The processes of a job, with a rank and a GPU each: an NCCL communicator of
/// all, and its parts for the groups of the mesh. Collectives of this process
/// come one after the other, in the order of the listing, which is one for all,
/// whatever their streams: so no two wait for each other.
class Peers {
public:
  /// Loads NCCL; waits for nobody. `context` outlives it.
  static Expected<std::unique_ptr<Peers>> create(const ExecutorContext &context,
                                                 std::shared_ptr<Gpu> gpu);

  /// Every process calls it, after create() and after an abort().
  Status connect();
  bool isConnected() const { return world && world->isConnected(); }
  /// Ends what collectives are under way. Whoever is in wait() gets an error.
  void abort();

  /// A collective of the command with that place in the listing.
  Expected<std::unique_ptr<Work>> makeCollective(const Post &post,
                                                 int64_t count, size_t command);
  /// Puts behind `entry.before` that all members have each other's words, of
  /// which each has left its own.
  void exchangeWords(Entry &entry, const std::vector<uint32_t> &axes,
                     Address words, int64_t bytes, size_t command);

  /// In front of all that is put into streams for a step.
  void beginStep() {
    isChained = false;
    sequence.clear();
  }

  /// Waits until the stream has none left, asleep. An error of another process,
  /// and a collective that is not done within the job's timeout, end it;
  /// `command` is then the latter's place in the listing.
  struct Waited {
    Status status;
    std::optional<size_t> command = {};
  };
  Waited wait(CUstream stream);

private:
  class ChainedWork;

  Peers(const ExecutorContext &context, std::shared_ptr<Gpu> gpu,
        const nccl::Api &api);
  Status prepare();
  void listGroups();
  Status checkPlaces();
  nccl::Group &groupOf(const std::vector<uint32_t> &axes);
  std::vector<int64_t> membersOf(const std::vector<uint32_t> &axes) const;
  std::unique_ptr<Work> chain(std::unique_ptr<Work> work, size_t command);
  std::optional<uint32_t> lookAtProgress();

  const ExecutorContext &context;
  const Program &program;
  const int64_t rank;
  std::shared_ptr<Gpu> gpu;
  const nccl::Api &api;
  std::chrono::milliseconds timeout;
  std::unique_ptr<nccl::Group> world;
  /// By axes; those of all axes are the world's.
  std::map<std::vector<uint32_t>, std::unique_ptr<nccl::Group>> groups;
  Memory scratch;
  int64_t scratchSize = 0;
  Event chained; ///< The last collective that was enqueued.
  bool isChained = false;
  /// Commands, in the order of the step's collectives.
  std::vector<size_t> sequence;
  /// Which of these is under way, from 1 on, and where it is read.
  Memory progress;
  PinnedMemory seen;
  Stream watch;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_PEERS_H
