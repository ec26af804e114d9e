//===- Buckets.cpp - sizes of buckets of updates on the host --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Buckets.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Cost/Plan.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem_rt/pinned.h"
#include <algorithm>
#include <map>
#include <set>

using namespace mlir;

namespace tandem {

/// The search begins with this share of all bytes, and ends with the last.
static constexpr int64_t kFirstShare = 32, kLastShare = 1024;

int64_t countStored(ModuleOp module) {
  int64_t most = 0;
  module.walk([&](func::FuncOp function) {
    if (function.getName() == "step" && !function.isExternal())
      most = std::max(most, countStored(function));
  });
  return most;
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

/// What fits is better, then what is shorter by so much that it is worth it.
static bool isBetter(const BucketTrial &trial, const BucketTrial &best) {
  constexpr double kWorth = 1e-4;
  if (trial.excess > 0 || best.excess > 0)
    return trial.excess < best.excess;
  return trial.seconds < best.seconds * (1 - kWorth);
}

static std::string describe(const BucketTrial &trial) {
  return "of at most " + printByteSize(trial.bytes) +
         (trial.largestFirst ? ", the largest first" : "");
}

static std::string describe(const BucketTrial &best,
                            const std::vector<BucketTrial> &all) {
  std::string text = "updates on the host walk over buckets " + describe(best) +
                     ": a step is predicted to take " +
                     cost::printSeconds(best.seconds);
  for (const BucketTrial &other : all)
    if (other.bytes != best.bytes || other.largestFirst != best.largestFirst)
      text += "; with those " + describe(other) + " " +
              cost::printSeconds(other.seconds) +
              (other.excess > 0 ? ", which do not fit" : "");
  return text;
}

namespace {
/// Tries sizes one after the other.
class BucketSearch {
public:
  using Weigh = llvm::function_ref<LogicalResult(BucketTrial &)>;
  BucketSearch(int64_t all, Weigh weigh, llvm::function_ref<bool()> ends)
      : all(all), weigh(weigh), ends(ends) {}
  std::optional<BucketChoice> run();

private:
  bool take(int64_t share, bool largestFirst);
  void walk(bool isSmaller);

  int64_t all;
  Weigh weigh;
  llvm::function_ref<bool()> ends;
  BucketTrial best;
  int64_t bestShare = 0;
  std::vector<BucketTrial> tried;
};
} // namespace

/// Whether a share is better than those before.
bool BucketSearch::take(int64_t share, bool largestFirst) {
  BucketTrial trial{.bytes = std::max<int64_t>(1, all / share),
                    .largestFirst = largestFirst};
  if (failed(weigh(trial)))
    return false;
  tried.push_back(trial);
  bool takes = tried.size() == 1 || isBetter(trial, best);
  if (takes) {
    best = trial;
    bestShare = share;
  }
  return takes;
}

/// As long as it helps.
void BucketSearch::walk(bool isSmaller) {
  auto getNext = [&] { return isSmaller ? bestShare * 2 : bestShare / 2; };
  while (!ends() && getNext() >= 1 && getNext() <= kLastShare &&
         take(getNext(), best.largestFirst)) {
  }
}

std::optional<BucketChoice> BucketSearch::run() {
  take(kFirstShare, /*largestFirst=*/false);
  if (tried.empty())
    return std::nullopt;
  if (!ends())
    take(kFirstShare, /*largestFirst=*/true);
  walk(/*isSmaller=*/true);
  if (bestShare == kFirstShare)
    walk(/*isSmaller=*/false);
  return BucketChoice{best, describe(best, tried)};
}

std::optional<BucketChoice> chooseBucket(int64_t all, BucketSearch::Weigh weigh,
                                         llvm::function_ref<bool()> ends) {
  return BucketSearch(all, weigh, ends).run();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static bool isOnHost(const rt::Program &program, const rt::BufferRef &buffer) {
  return buffer.space == rt::Space::Argument &&
         rt::isPinned(program, program.arguments[buffer.index].memorySpace);
}

/// What is copied for two stages that follow each other, from arguments on the
/// host that they write: passes that only read parameters have no buckets. Runs
/// of actions share their numbers of stages.
static int64_t countBuckets(const rt::Program &program,
                            const rt::RankProgram &own) {
  std::set<std::pair<int32_t, uint32_t>> written;
  std::map<int32_t, std::map<uint32_t, int64_t>> fetched;
  for (const rt::Command *command : own.listing())
    if (auto *copy = std::get_if<rt::Copy>(&command->operation)) {
      if (isOnHost(program, copy->destination))
        written.insert({command->stage, copy->destination.index});
      if (isOnHost(program, copy->source))
        fetched[command->stage][copy->source.index] = copy->source.bytes;
    }
  int64_t most = 0, before = 0;
  for (const auto &[stage, arguments] : fetched) {
    int64_t bytes = 0;
    for (auto [argument, size] : arguments)
      bytes += written.count({stage, argument}) ? size : 0;
    most = std::max(most, before + bytes);
    before = bytes > 0 ? bytes : before;
  }
  return most;
}

int64_t countBuckets(const rt::Program &program) {
  int64_t most = 0;
  for (const rt::RankProgram &own : program.rankPrograms)
    most = std::max(most, countBuckets(program, own));
  return most;
}

} // namespace tandem
