//===- SearchEndTest.cpp - time limits of a search ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/SearchEnd.h"
#include "gtest/gtest.h"
#include <cmath>
#include <tuple>

using namespace tandem::search;

TEST(SearchEnd, whoWatchesIsAskedUntilTheFirstNo) {
  unsigned calls = 0;
  SearchEnd end(0, [&](double done, double best, double bound) {
    EXPECT_EQ(std::tuple(done, best, bound), std::tuple(0.5, 3, 2));
    return ++calls < 3;
  });
  EXPECT_TRUE(end.proceeds(0.5, 3, 2));
  EXPECT_TRUE(end.proceeds(0.5, 3, 2));
  EXPECT_FALSE(end.isOver());
  EXPECT_FALSE(end.proceeds(0.5, 3, 2));
  EXPECT_TRUE(end.isOver());
  EXPECT_FALSE(end.proceeds());
  EXPECT_EQ(calls, 3u);
}

TEST(SearchEnd, theLimitIsForGood) {
  SearchEnd never(0), soon(1e-9), late(1e9);
  EXPECT_TRUE(never.proceeds() && std::isinf(never.getSecondsLeft()));
  while (soon.getSecondsLeft() > 0)
    continue;
  EXPECT_TRUE(soon.isOver() && !soon.proceeds());
  EXPECT_TRUE(late.proceeds() && late.getSecondsLeft() > 1e8);
}
