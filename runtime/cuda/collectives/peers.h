//===- peers.h - the other processes of a job -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_COLLECTIVES_PEERS_H
#define TANDEM_RT_CUDA_COLLECTIVES_PEERS_H

#include "core/executor.h"
#include "cuda/collectives/joint.h"
#include "cuda/collectives/nccl_collective.h"
#include "cuda/driver/rank.h"
#include "cuda/driver/turns.h"

#include <array>
#include <chrono>
#include <map>

namespace tandem::rt::cuda {

/// The processes of a job, with a GPU each: an NCCL communicator of all, and,
/// where each has one rank, its parts for the groups of the mesh; and one of
/// all for transfers. Collectives of this process come one after the other,
/// whatever their streams, and so do its transfers, in an order which is one
/// for all: so no two wait for each other, and no sum waits for a receive. It
/// is that of the listing, or, where processes have several ranks, that of
/// turnsOf().
class Peers {
public:
  /// Loads NCCL; waits for nobody. `context` outlives it.
  static Expected<std::unique_ptr<Peers>> create(const ExecutorContext &context,
                                                 std::shared_ptr<Gpu> gpu);

  /// Who has which rank, and which GPU. Every process calls it once, behind
  /// create(); an error is that of all.
  Status meet();
  /// Memory for the largest collective, behind meet().
  Status reserve();
  /// Every process calls it, after meet() and after an abort().
  Status connect();
  bool isConnected() const { return world && world->isConnected(); }
  /// Ends what collectives are under way. Whoever is in wait() gets an error.
  void abort();

  /// Whether some process has several ranks: then members of a group that are
  /// in one process do what they do with others as one, in the order of turns.
  bool isJoint() const { return hasSeveral; }
  const std::vector<Turn> &getTurns() const { return turns; }

  /// A collective of the command at that place.
  Expected<std::unique_ptr<Work>> makeCollective(const Post &post,
                                                 int64_t count, Turn command);
  /// That all members have each other's words, of which each has left its own.
  std::unique_ptr<Work> exchangeWords(const std::vector<uint32_t> &axes,
                                      Address words, int64_t bytes,
                                      Turn command);
  /// The same for all members here of `group`; posts are by member.
  Expected<std::unique_ptr<Work>>
  makeJointCollective(const std::vector<int64_t> &group,
                      const std::vector<Post> &posts, int64_t count,
                      Turn command);
  std::unique_ptr<Work> exchangeJointWords(const std::vector<int64_t> &group,
                                           Address words, int64_t bytes,
                                           Turn command);

  /// One end of a transfer of the command at that place; the other end is that
  /// of a rank elsewhere.
  std::unique_ptr<Work> send(int64_t to, Address source, int64_t bytes,
                             Turn command);
  std::unique_ptr<Work> receive(int64_t from, Address destination,
                                int64_t bytes, Turn command);

  /// In front of all that is put into streams for a step.
  void beginStep() {
    for (Lane &lane : lanes) {
      lane.isChained = false;
      lane.sequence.clear();
    }
  }

  /// Waits until the stream has none left, asleep. An error of another process,
  /// and a command that is not done within the job's timeout, end it; `command`
  /// is then the latter.
  struct Waited {
    Status status;
    std::optional<Turn> command = {};
  };
  Waited wait(CUstream stream);

private:
  class ChainedWork;

  /// Commands that come one after the other.
  struct Lane {
    Event last; ///< Of the last one that was enqueued.
    bool isChained = false;
    std::vector<Turn> sequence = {}; ///< Of a step.
    /// Which of these is under way, from 1 on, as it is known since then.
    uint32_t under = 0;
    std::chrono::steady_clock::time_point since = {};

    std::optional<Turn> command() const {
      bool isKnown = under && under <= sequence.size();
      return isKnown ? std::optional(sequence[under - 1]) : std::nullopt;
    }
  };
  enum { Collectives, Transfers, NumLanes };

  Peers(const ExecutorContext &context, std::shared_ptr<Gpu> gpu,
        const nccl::Api &api);
  Status prepare();
  void listGroups();
  Joint jointOf(const std::vector<int64_t> &group) const;
  nccl::Group &groupOf(const std::vector<uint32_t> &axes);
  std::vector<int64_t> membersOf(const std::vector<uint32_t> &axes) const;
  std::unique_ptr<Work> chain(std::unique_ptr<Work> work, Turn command,
                              size_t lane = Collectives);
  std::unique_ptr<Work> message(bool isSend, int64_t other, Address at,
                                int64_t bytes, Turn command);
  CUdeviceptr progressOf(size_t lane) const {
    return progress.address() + lane * sizeof(uint32_t);
  }
  Status poll() const;
  void lookAtProgress();
  const Lane *oldest() const;

  const ExecutorContext &context;
  const Program &program;
  const int64_t rank; ///< The first one here.
  int64_t process = 0, numProcesses = 1;
  std::vector<int64_t> processOf; ///< By rank.
  bool hasSeveral = false;
  std::vector<Turn> turns;
  std::shared_ptr<Gpu> gpu;
  const nccl::Api &api;
  std::chrono::milliseconds timeout;
  int maxCtas = nccl::kUndefined;
  std::unique_ptr<nccl::Group> world;
  /// Of all processes, for transfers; null: there are none.
  std::unique_ptr<nccl::Group> transfers;
  /// By axes; those of all axes are the world's.
  std::map<std::vector<uint32_t>, std::unique_ptr<nccl::Group>> groups;
  Memory scratch;
  int64_t scratchSize = 0;
  std::array<Lane, NumLanes> lanes;
  /// A word of each lane: which command is under way; and where it is read.
  Memory progress;
  PinnedMemory seen;
  Stream watch;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_COLLECTIVES_PEERS_H
