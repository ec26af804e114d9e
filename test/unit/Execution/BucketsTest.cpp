//===- BucketsTest.cpp - sizes of buckets ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Buckets.h"
#include "gtest/gtest.h"
#include <map>

using namespace tandem;

static constexpr int64_t kAll = 1024;

namespace {
/// Seconds of a step by the size of a bucket, in the order of gradients; the
/// largest first is slower.
struct Steps {
  std::map<int64_t, double> seconds;
  int64_t room = kAll;
  /// What no bucket changes.
  int64_t others = 0;
  std::map<int64_t, unsigned> numTried;

  BucketTrial choose(BucketEffort effort = BucketEffort::Thorough) {
    auto choice = chooseBucket(
        kAll, effort,
        [&](BucketTrial &trial) {
          ++numTried[trial.bytes];
          auto known = seconds.find(trial.bytes);
          trial.seconds = (known == seconds.end() ? 2 : known->second) +
                          (trial.largestFirst ? 0.5 : 0);
          trial.held = 2 * trial.bytes;
          trial.excess = std::max<int64_t>(0, others + trial.bytes - room);
          return mlir::success();
        },
        [] { return false; });
    return choice ? choice->best : BucketTrial();
  }
};
} // namespace

/// A smaller bucket helps a little, and a larger one much.
TEST(Buckets, LooksAtLargerOnesWhereSmallerOnesHelp) {
  Steps steps{{{16, 1.03}, {32, 1.05}, {64, 1.02}, {128, 1}}};
  EXPECT_EQ(steps.choose().bytes, 128);
}

/// Whole tensors fill buckets, so that a size may be worse than its neighbours.
TEST(Buckets, LooksBehindASizeThatIsWorse) {
  Steps steps{{{64, 1.2}, {32, 1.05}, {128, 1}}};
  EXPECT_EQ(steps.choose().bytes, 128);
  Steps smaller{{{16, 1.2}, {32, 1.05}, {8, 1}}};
  EXPECT_EQ(smaller.choose().bytes, 8);
}

TEST(Buckets, EndsWhereTwoSizesInTurnAreMuchWorse) {
  Steps steps{{{32, 1}}};
  EXPECT_EQ(steps.choose().bytes, 32);
  EXPECT_EQ(steps.numTried.count(1024), 0u);
  EXPECT_EQ(steps.numTried.count(1), 0u);
}

/// A larger one takes memory.
TEST(Buckets, TakesTheSmallestOfAboutEqualOnes) {
  Steps steps{{{128, 1}, {64, 1.001}, {32, 1.004}, {16, 1.02}}};
  EXPECT_EQ(steps.choose().bytes, 32);
}

TEST(Buckets, EndsWithLittleEffortWhereNoneIsBetter) {
  Steps steps{{{16, 1.2}, {32, 1.1}, {64, 1}, {128, 1.01}}};
  EXPECT_EQ(steps.choose(BucketEffort::Little).bytes, 64);
  EXPECT_EQ(steps.numTried.size(), 4u);
}

TEST(Buckets, TakesTheSmallestWhereNoneFits) {
  Steps steps{{{32, 1}, {1, 3}}, /*room=*/0};
  BucketTrial best = steps.choose();
  EXPECT_EQ(best.bytes, 1);
  EXPECT_EQ(best.excess, 1);
}

/// Whatever is tried, the step is planned again.
TEST(Buckets, EndsWhereAllElseIsTooLarge) {
  Steps steps{{{32, 1}, {16, 0.5}}, /*room=*/0, /*others=*/100};
  EXPECT_EQ(steps.choose().bytes, 32);
  EXPECT_EQ(steps.numTried.size(), 1u);
}

TEST(Buckets, TakesWhatFits) {
  Steps steps{{{32, 1}, {4, 1.5}}, /*room=*/5};
  EXPECT_EQ(steps.choose().bytes, 4);
}
