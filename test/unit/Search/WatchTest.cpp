//===- WatchTest.cpp - interrupts -----------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Watch.h"
#include "gtest/gtest.h"
#include <csignal>
#include <thread>

using namespace tandem::search;

TEST(Watch, theFirstInterruptIsRemembered) {
  InterruptGuard guard;
  Watch watch(InterruptGuard::isInterrupted);
  EXPECT_TRUE(watch.show(0, 1, 0));
  raise(SIGINT);
  EXPECT_FALSE(watch.show(0, 1, 0));
}

TEST(Watch, anInterruptThatIsSentTwiceIsOne) {
  InterruptGuard guard;
  raise(SIGINT);
  raise(SIGINT);
  EXPECT_TRUE(InterruptGuard::isInterrupted());
}

TEST(Watch, aLaterInterruptEndsTheProcess) {
  auto interruptTwice = [] {
    InterruptGuard guard;
    raise(SIGINT);
    std::this_thread::sleep_for(
        std::chrono::duration<double>(1.1 * InterruptGuard::kSameInterrupt));
    raise(SIGINT);
  };
  EXPECT_EXIT(interruptTwice(), ::testing::KilledBySignal(SIGINT), "");
}

TEST(Watch, theHandlerOfBeforeComesBack) {
  static int count = 0;
  signal(SIGINT, [](int) { ++count; });
  {
    InterruptGuard guard;
    raise(SIGINT);
    EXPECT_TRUE(InterruptGuard::isInterrupted());
  }
  EXPECT_EQ(count, 0);
  raise(SIGINT);
  EXPECT_EQ(count, 1);
  signal(SIGINT, SIG_DFL);
  EXPECT_FALSE((InterruptGuard(), InterruptGuard::isInterrupted()));
}

TEST(Watch, aGuardWithinAnotherOneChangesNothing) {
  InterruptGuard guard;
  raise(SIGINT);
  {
    InterruptGuard inner;
    EXPECT_TRUE(InterruptGuard::isInterrupted());
  }
  EXPECT_TRUE(InterruptGuard::isInterrupted());
  raise(SIGINT); // so soon the same one, which the outer guard has still taken
}
