//===- listing.h - listing of a rank's commands -----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_EXECUTOR_LISTING_H
#define TANDEM_RT_CUDA_EXECUTOR_LISTING_H

#include "cuda/collectives/peers.h"
#include "cuda/driver/rank.h"
#include "cuda/executor/board.h"

namespace tandem::rt::cuda {

/// What entries are made from. `peers` is null where all ranks are here.
struct ListingContext {
  const ExecutorContext &context;
  std::shared_ptr<Gpu> gpu;
  const std::vector<std::unique_ptr<Code>> &code;
  const StatusBoard &board;
  Peers *peers;
  PlainCounts &plain;
  const class Algorithms &algorithms;
};

/// The most checks of a rank.
size_t numChecks(const Program &program);

/// Makes the entries of all ranks of this process, which have their memory.
Status makeListings(const ListingContext &from,
                    std::vector<std::unique_ptr<Rank>> &ranks);

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_EXECUTOR_LISTING_H
