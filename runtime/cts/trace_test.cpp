//===- trace_test.cpp - timelines -----------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"

#include <algorithm>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

TEST(Trace, HiddenShareCountsOverlapWithOwnComputation) {
  ProgramBuilder b({{"data", 2}});
  uint32_t x =
      b.addArgument({"input", "x", ElementType::F32, {4}, {}, {}, -1, {}});
  addCommQueue(b);
  b.setArena(64);
  b.add({.name = "compute"}, Copy{b.slice(b.argument(x), 0, 4), b.arena(0, 4)});
  b.add({.name = "sum", .queue = kComm}, Collective{CollectiveKind::AllReduce,
                                                    {0},
                                                    ElementType::F32,
                                                    {4},
                                                    -1,
                                                    -1,
                                                    b.argument(x),
                                                    b.arena(16, 16)});
  Trace trace;
  EXPECT_EQ(hiddenShare(b.get(), trace), 0);
  // Rank 0 computes until 100 and communicates from 50: half is hidden.
  // Rank 1's computation hides nothing of its own communication.
  trace.events = {{0, 0, 0, 0, 0, 100},
                  {0, 1, 0, 0, 50, 150},
                  {1, 0, 0, 0, 0, 10},
                  {1, 1, 0, 0, 50, 150}};
  EXPECT_DOUBLE_EQ(hiddenShare(b.get(), trace), 0.25);
  // Computation that begins and ends within the communication, twice.
  trace.events = {
      {0, 1, 0, 0, 100, 200}, {0, 0, 0, 0, 120, 130}, {0, 0, 0, 0, 150, 180}};
  EXPECT_DOUBLE_EQ(hiddenShare(b.get(), trace), 0.4);
  // A copy between device and host hides nothing; one that puts pieces of a sum
  // together communicates.
  Copy copy{b.slice(b.argument(x), 0, 4), b.arena(0, 4)};
  uint32_t host = b.addQueue(QueueRole::Copy, "copy");
  b.add({.name = "from_host", .queue = host}, copy);
  b.add({.name = "piece", .queue = kComm}, copy);
  trace.events.push_back({0, 2, 0, 0, 100, 200});
  EXPECT_DOUBLE_EQ(hiddenShare(b.get(), trace), 0.4);
  trace.events.push_back({0, 3, 0, 0, 200, 300});
  EXPECT_DOUBLE_EQ(hiddenShare(b.get(), trace), 0.2);
}

/// Most memory that this process ever had, in bytes.
int64_t peakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

/// Records and writes so many events; returns what that took per event.
int64_t bytesPerEvent(const Program &program, int64_t count) {
  int64_t before = peakMemory();
  Timeline timeline{headOf(program, "")};
  for (int64_t i = 0; i < count; ++i)
    timeline.events.push_back({0, 0, 0, i, i, i + 1});
  if (!writeTimeline(timeline, "/dev/null").ok())
    return -1;
  return (peakMemory() - before) / count;
}

TEST(Trace, TakesLittleMemoryPerEvent) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "ASan keeps freed memory and puts zones around what is held";
#endif
  ProgramBuilder b({});
  b.setArena(64);
  b.add({.name = "a command of a name that is long enough"},
        Fill{b.arena(0, 4), {0}});
  // In a process of its own, whose peak is not that of the tests before.
  malloc_trim(0); // what they have freed would be used again
  pid_t child = fork();
  if (child == 0)
    _exit(int(std::clamp<int64_t>(bytesPerEvent(b.get(), 200000), 0, 255)));
  int state = 0;
  waitpid(child, &state, 0);
  ASSERT_TRUE(WIFEXITED(state));
  EXPECT_GE(WEXITSTATUS(state), int(sizeof(TraceEvent)) / 2);
  EXPECT_LE(WEXITSTATUS(state), 200);
}

} // namespace
} // namespace tandem::rt::cts
