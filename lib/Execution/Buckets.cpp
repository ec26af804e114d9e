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

/// Shares of all bytes that are tried: from the first one up and down by
/// halves, to all and to the last.
static constexpr int64_t kFirstShare = 32, kLastShare = 1024;
/// A direction ends where as many sizes in turn are worse by as much than the
/// best: a size between may be worse than both neighbours, as whole tensors
/// fill buckets.
static constexpr int kMaxFar = 2;
static constexpr double kFar = 1.03;
/// What is shorter by less is not worth the memory of a larger bucket.
static constexpr double kWorth = 1.005;

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

/// What fits is better, then what is shorter.
static bool isBetter(const BucketTrial &trial, const BucketTrial &best) {
  if (trial.excess > 0 || best.excess > 0)
    return trial.excess < best.excess;
  return trial.seconds < best.seconds;
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
  auto isLess = [](const BucketTrial &a, const BucketTrial &b) {
    return a.seconds < b.seconds;
  };
  std::vector<BucketTrial> others;
  for (const BucketTrial &other : all)
    if (other.excess <= best.excess &&
        (other.bytes != best.bytes || other.largestFirst != best.largestFirst))
      others.push_back(other);
  if (!others.empty()) {
    auto [least, most] =
        std::minmax_element(others.begin(), others.end(), isLess);
    text += "; with those " + describe(*least) + " " +
            cost::printSeconds(least->seconds);
    if (others.size() > 1)
      text += ", and up to " + cost::printSeconds(most->seconds) +
              " with those " + describe(*most);
  }
  if (size_t full = all.size() - 1 - others.size())
    text += "; " + std::to_string(full) + " that were tried do not fit";
  return text;
}

namespace {
/// Tries sizes one after the other.
class BucketSearch {
public:
  using Weigh = llvm::function_ref<LogicalResult(BucketTrial &)>;
  BucketSearch(int64_t all, BucketEffort effort, Weigh weigh,
               llvm::function_ref<bool()> ends)
      : all(all), effort(effort), weigh(weigh), ends(ends) {}
  std::optional<BucketChoice> run();

private:
  bool take(int64_t share, bool largestFirst);
  void walk(bool isSmaller, bool largestFirst);
  BucketTrial getSmallest() const;

  int64_t all;
  BucketEffort effort;
  Weigh weigh;
  llvm::function_ref<bool()> ends;
  BucketTrial best;
  std::vector<BucketTrial> tried;
};
} // namespace

/// Whether a share may be on the way to a better one than the best so far.
bool BucketSearch::take(int64_t share, bool largestFirst) {
  BucketTrial trial{.bytes = std::max<int64_t>(1, all / share),
                    .largestFirst = largestFirst};
  if (failed(weigh(trial)))
    return false;
  tried.push_back(trial);
  bool takes = tried.size() == 1 || isBetter(trial, best);
  bool isNear =
      takes || (effort == BucketEffort::Thorough && trial.excess == 0 &&
                best.excess == 0 && trial.seconds < best.seconds * kFar);
  if (takes)
    best = trial;
  return isNear;
}

void BucketSearch::walk(bool isSmaller, bool largestFirst) {
  int numFar = 0, maxFar = effort == BucketEffort::Thorough ? kMaxFar : 1;
  auto getNext = [&](int64_t share) {
    return isSmaller ? share * 2 : share / 2;
  };
  for (int64_t share = getNext(kFirstShare);
       share >= 1 && share <= kLastShare && numFar < maxFar && !ends();
       share = getNext(share))
    numFar = take(share, largestFirst) ? 0 : numFar + 1;
}

/// Of those that are about as good as the best.
BucketTrial BucketSearch::getSmallest() const {
  BucketTrial found = best;
  for (const BucketTrial &trial : tried)
    if (trial.excess == best.excess && trial.bytes < found.bytes &&
        trial.seconds <= best.seconds * kWorth)
      found = trial;
  return found;
}

std::optional<BucketChoice> BucketSearch::run() {
  for (bool largestFirst : {false, true}) {
    if (tried.empty() || !ends())
      take(kFirstShare, largestFirst);
    if (tried.empty())
      return std::nullopt;
    if (best.excess > best.held)
      break;
    if (largestFirst && effort == BucketEffort::Little)
      break;
    walk(/*isSmaller=*/true, largestFirst);
    walk(/*isSmaller=*/false, largestFirst);
  }
  best = getSmallest();
  return BucketChoice{best, describe(best, tried)};
}

std::optional<BucketChoice> chooseBucket(int64_t all, BucketEffort effort,
                                         BucketSearch::Weigh weigh,
                                         llvm::function_ref<bool()> ends) {
  return BucketSearch(all, effort, weigh, ends).run();
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
