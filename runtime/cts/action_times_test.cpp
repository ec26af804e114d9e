//===- action_times_test.cpp - what actions of a pipeline took ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/timelines.h"
#include "tandem_rt/action_times.h"

#include <gtest/gtest.h>

using namespace tandem::rt;
using namespace tandem::rt::cts;

static int64_t takenBy(const ActionTimes &times, ActionName name) {
  auto found = times.taken.find({name, 0, 1});
  return found == times.taken.end() ? -1 : found->second;
}

/// An action waits within, a sum does not: between its pieces its queue does
/// other things.
TEST(ActionTimes, OfASumOnlyItsPiecesCount) {
  TimelineBuilder builder(1);
  uint32_t first = builder.compute("0F0 matmul"),
           reduce = builder.collective("0F0 all_reduce"),
           second = builder.compute("0F0 add"),
           one = builder.collective("0S all_reduce 1/2"),
           other = builder.collective("1S all_reduce"),
           two = builder.collective("0S all_reduce 2/2");
  builder.ran(0, first, 0, 10);
  builder.ran(0, reduce, 10, 40);
  builder.ran(0, second, 50, 60);
  builder.ran(0, one, 60, 65);
  builder.ran(0, other, 70, 90);
  builder.ran(0, two, 100, 103);
  ActionTimes times = actionTimesOf(builder.timeline, 0);
  EXPECT_EQ(takenBy(times, {0, 'F', 0}), 60'000);
  EXPECT_EQ(takenBy(times, {0, 'S', 0}), 8'000);
  EXPECT_EQ(takenBy(times, {1, 'S', 0}), 20'000);
}
