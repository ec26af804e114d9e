//===- Buckets.h - sizes of buckets of updates on the host ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Updates walk over what lies on the host in buckets (AxoNN, section V): one is
// copied while another is updated, and while the gradients of a third are
// summed. A small bucket ends sooner what nothing else is beside: the first
// copy and the last; a large one pays latencies less often. So the predicted
// step decides.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_BUCKETS_H
#define TANDEM_LIB_EXECUTION_BUCKETS_H

#include "mlir/IR/BuiltinOps.h"
#include "tandem_rt/program.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <optional>
#include <string>

namespace tandem {

/// How updates walk, and what a step is then predicted to do.
struct BucketTrial {
  /// Of a bucket, at most.
  int64_t bytes = 0;
  bool largestFirst = false;
  double seconds = 0;
  /// Of the rank that holds most, bytes over its limit; 0: it fits.
  int64_t excess = 0;
  /// What two buckets, one after the other, take; B.
  int64_t held = 0;
};

struct BucketChoice {
  BucketTrial best;
  /// One line: what steps are predicted to take.
  std::string why;
};

/// The most bytes that the parameters and states of a step, or of an action of
/// a pipeline, take of the host.
int64_t countStored(mlir::ModuleOp module);

/// How many sizes are tried. `Little` is for trials that cost as much as the
/// step itself: a direction ends at the first size that is no better.
enum class BucketEffort { Little, Thorough };

/// Of shares of `all` bytes, each half of the one before, that with which a
/// step is predicted to be shortest, in the order of gradients or the largest
/// first; of about equal ones, and those that exceed memory, the smallest one.
/// `weigh` fills in what a
/// trial leads to; where it fails nothing is chosen. Ends where a step does not
/// fit whatever buckets hold, and once `ends` says so.
std::optional<BucketChoice>
chooseBucket(int64_t all, BucketEffort effort,
             llvm::function_ref<mlir::LogicalResult(BucketTrial &)> weigh,
             llvm::function_ref<bool()> ends);

/// The bytes that two buckets, one after the other, of a Program's rank copy to
/// the device, the most of all.
int64_t countBuckets(const rt::Program &program);

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_BUCKETS_H
