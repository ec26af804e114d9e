//===- joint.h - collectives of processes with several ranks ----*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_COLLECTIVES_JOINT_H
#define TANDEM_RT_CUDA_COLLECTIVES_JOINT_H

#include "comm/nccl/group.h"
#include "cuda/driver/work.h"

namespace tandem::rt::cuda {

/// This process' part of a group whose members are of several processes, which
/// have a GPU and a place in a communicator each.
struct Joint {
  std::shared_ptr<Gpu> gpu;
  nccl::Group &processes;
  std::vector<int64_t> processOf; ///< By member.
  int64_t process;                ///< This one.
  /// Of jointScratchBytes() or more; one collective at a time uses it.
  CUdeviceptr scratch;

  bool isHere(size_t member) const { return processOf[member] == process; }
};

/// What a collective needs of memory beside its operands, with so many members
/// here.
int64_t jointScratchBytes(const Collective &op, int64_t members, int64_t here);

/// What all members here do, as one. Posts are by member; those of others have
/// no addresses. NCCL moves a member's bytes to each process that needs them;
/// sums are a kernel's, in the order of the group, bf16 in f32.
Expected<std::unique_ptr<Work>>
makeJoint(const Joint &joint, const std::vector<Post> &posts, int64_t count);

/// Each member's `bytes`, which lie at `all` plus its place times `bytes`, go
/// to all processes.
std::unique_ptr<Work> makeJointGather(const Joint &joint, Address all,
                                      int64_t bytes);

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_COLLECTIVES_JOINT_H
