//===- nccl_collective.h - collectives between processes ---------------*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_COLLECTIVES_NCCL_COLLECTIVE_H
#define TANDEM_RT_CUDA_COLLECTIVES_NCCL_COLLECTIVE_H

#include "comm/nccl/group.h"
#include "cuda/driver/work.h"

namespace tandem::rt::cuda {

/// One member's end of a group whose members have a GPU each.
struct Party {
  std::shared_ptr<Gpu> gpu;
  nccl::Group &group;
  int64_t members, member;
  /// Of scratchBytes() or more; one collective at a time uses it.
  CUdeviceptr scratch;
  int64_t scratchBytes;
};

/// What a collective needs of memory beside its operands.
int64_t scratchBytes(const Collective &op, int64_t members);

/// A collective by NCCL, which only moves bytes. Sums are a kernel's, in the
/// order of the group, bf16 in f32: with the bits of ranks that share a GPU,
/// and of every other fabric.
Expected<std::unique_ptr<Work>> makeExchange(const Party &party,
                                             const Post &post, int64_t count);

/// Each member's `bytes` at `all` plus its place times `bytes` go to all.
std::unique_ptr<Work> makeGatherInPlace(nccl::Group &group, Address all,
                                        int64_t bytes, int64_t member);

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_COLLECTIVES_NCCL_COLLECTIVE_H
