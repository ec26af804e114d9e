//===- threads_test.cpp - cores that libraries use ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/blas_threads.h"
#include "cpu/crew.h"
#include "cts/support.h"

#include <atomic>
#include <cblas.h>
#include <thread>

namespace tandem::rt::cts {
namespace {

/// A product in float64, beside a queue for collectives.
std::unique_ptr<Session> productSession(int threads) {
  ProgramBuilder b({});
  uint32_t x =
      b.addArgument({"input", "x", ElementType::F64, {2, 2}, {}, {}, -1, {}});
  addCommQueue(b);
  uint32_t y =
      b.addResult({"output", "y", ElementType::F64, {2, 2}, {}, {}, {}});
  uint32_t z =
      b.addResult({"output", "z", ElementType::F64, {2, 2}, {}, {}, {}});
  Gemm gemm = contiguousGemm(ElementType::F64, 2, 2, 2);
  gemm.a = b.argument(x), gemm.b = b.argument(x), gemm.c = b.result(y);
  b.add({.name = "product"}, gemm);
  b.add({.name = "copy", .queue = kComm}, Copy{b.argument(x), b.result(z)});
  return start(b, {.threads = threads});
}

TEST(Threads, AProductUsesThoseOfItsSession) {
  auto two = productSession(2), one = productSession(1);
  EXPECT_OK(two->step());
  EXPECT_EQ(openblas_get_num_threads(), 2);
  EXPECT_OK(one->step());
  EXPECT_EQ(openblas_get_num_threads(), 1);
  EXPECT_OK(two->step());
  EXPECT_EQ(openblas_get_num_threads(), 2);
}

TEST(Threads, NobodyChangesTheNumberUnderAnother) {
  Watchdog watchdog(60);
  std::atomic<int> wrong = 0;
  auto use = [&](int threads) {
    for (int round = 0; round < 200; ++round) {
      cpu::BlasThreads hold(threads);
      std::this_thread::yield();
      wrong += openblas_get_num_threads() != threads;
    }
  };
  std::thread a(use, 1), b(use, 2), c(use, 1);
  a.join(), b.join(), c.join();
  EXPECT_EQ(wrong, 0);
}

/// What `symbol` writes with so many threads.
std::vector<float> numbersOfParts(int threads, int64_t count, int64_t bytes,
                                  const char *symbol = "number") {
  ProgramBuilder b({});
  uint32_t object = b.addCodeObject("kernels", kernelImage());
  uint32_t y =
      b.addResult({"output", "y", ElementType::F32, {count}, {}, {}, {}});
  uint32_t arena = b.addArena(64, /*memorySpace=*/0);
  b.launch({.name = symbol, .bytes = bytes, .workspace = b.arena(0, 64, arena)},
           object, symbol, {}, {b.result(y)}, {count});
  auto session = start(b, {.threads = threads});
  EXPECT_OK(session->step());
  EXPECT_OK(session->step());
  return valuesOf<float>(result(*session, "output", "y"));
}

TEST(Threads, SharePartsOfAKernel) {
  Watchdog watchdog(60);
  constexpr int64_t large = 1 << 20;
  EXPECT_EQ(numbersOfParts(3, 6, large),
            (std::vector<float>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(numbersOfParts(1, 3, large), (std::vector<float>{-1, -1, -1}));
}

TEST(Threads, ShareThePhasesThatCanBe) {
  Watchdog watchdog(60);
  constexpr int64_t large = 1 << 20;
  EXPECT_EQ(numbersOfParts(3, 3, large, "counted"),
            (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(numbersOfParts(1, 3, large, "counted"),
            (std::vector<float>{-1, -1, -1}));
}

TEST(Threads, AreNotWokenForLittle) {
  EXPECT_EQ(numbersOfParts(3, 3, 1000), (std::vector<float>{-1, -1, -1}));
}

TEST(Threads, TellWhatOneOfThemThrows) {
  Watchdog watchdog(60);
  cpu::Crew crew(3);
  std::atomic<int> calls = 0;
  auto work = [&](int part) {
    ++calls;
    if (part == 2)
      throw std::runtime_error("part 2");
  };
  EXPECT_THROW(crew.run(3, work), std::runtime_error);
  crew.run(2, work);
  EXPECT_EQ(calls, 5);
}

//===----------------------------------------------------------------------===//
// CPUs of ranks
//===----------------------------------------------------------------------===//

cpu_set_t cpusOfCaller() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

/// The places of the two sets together, and those of both.
std::pair<int, int> countCpus(const cpu_set_t &a, const cpu_set_t &b) {
  cpu_set_t any, both;
  CPU_OR(&any, &a, &b);
  CPU_AND(&both, &a, &b);
  return {CPU_COUNT(&any), CPU_COUNT(&both)};
}

TEST(Cpus, OfTwoRanksAreApart) {
  cpu_set_t usable = cpusOfCaller();
  if (CPU_COUNT(&usable) % 2)
    GTEST_SKIP() << "CPUs that do not divide by two";
  auto first = cpu::cpusOf(0, 2), second = cpu::cpusOf(1, 2);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(countCpus(*first, *second), std::pair(CPU_COUNT(&usable), 0));
}

TEST(Cpus, AreNotSharedUnevenly) {
  cpu_set_t usable = cpusOfCaller();
  auto count = size_t(CPU_COUNT(&usable));
  EXPECT_FALSE(cpu::cpusOf(0, count + 1));
  EXPECT_FALSE(cpu::cpusOf(0, 2 * count));
}

TEST(Cpus, AreNotChosenForOneRankOrByRequest) {
  EXPECT_FALSE(cpu::cpusOf(0, 1));
  ASSERT_EQ(setenv("TANDEM_BIND", "0", 1), 0);
  EXPECT_FALSE(cpu::cpusOf(0, 2));
  ASSERT_EQ(unsetenv("TANDEM_BIND"), 0);
}

TEST(Cpus, AreLeftAtTheEndOfAScope) {
  cpu_set_t before = cpusOfCaller();
  auto cpus = cpu::cpusOf(1, 2);
  if (!cpus)
    GTEST_SKIP() << "CPUs that do not divide by two";
  {
    cpu::OnCpus here(cpus);
    cpu_set_t now = cpusOfCaller();
    EXPECT_TRUE(CPU_EQUAL(&now, &*cpus));
  }
  cpu_set_t after = cpusOfCaller();
  EXPECT_TRUE(CPU_EQUAL(&after, &before));
}

} // namespace
} // namespace tandem::rt::cts
