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
#include <cstdlib>
#include <filesystem>
#include <fstream>
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

/// With a value of TANDEM_BIND, none if it is null.
class Cpus : public testing::Test {
protected:
  void SetUp() override {
    if (const char *text = std::getenv("TANDEM_BIND"))
      before = text;
    bind(nullptr);
  }
  void TearDown() override { bind(before ? before->c_str() : nullptr); }

  static void bind(const char *text) {
    ASSERT_EQ(text ? setenv("TANDEM_BIND", text, 1) : unsetenv("TANDEM_BIND"),
              0);
  }

private:
  std::optional<std::string> before;
};

TEST_F(Cpus, OfTwoRanksAreApart) {
  cpu_set_t usable = cpusOfCaller();
  if (CPU_COUNT(&usable) % 2)
    GTEST_SKIP() << "CPUs that do not divide by two";
  auto first = *cpu::cpusOf(0, 2), second = *cpu::cpusOf(1, 2);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(countCpus(*first, *second), std::pair(CPU_COUNT(&usable), 0));
}

TEST_F(Cpus, AreNotSharedUnevenly) {
  cpu_set_t usable = cpusOfCaller();
  auto count = size_t(CPU_COUNT(&usable));
  EXPECT_FALSE(*cpu::cpusOf(0, count + 1));
  EXPECT_FALSE(*cpu::cpusOf(0, 2 * count));
}

TEST_F(Cpus, AreNotChosenForOneRankOrByRequest) {
  EXPECT_FALSE(*cpu::cpusOf(0, 1));
  bind("0");
  EXPECT_FALSE(*cpu::cpusOf(0, 2));
  bind("off");
  EXPECT_EQ(cpu::cpusOf(0, 2).status().message(),
            "TANDEM_BIND is 'off', expected 0 or 1");
}

/// Two packages of two cores, each with two threads, whose numbers are as far
/// apart as on most machines; one CPU of which nothing is known.
TEST_F(Cpus, OfACoreAreNeighbours) {
  std::filesystem::path folder =
      testing::TempDir() + "topology-" + std::to_string(getpid());
  for (int cpu = 0; cpu < 8; ++cpu) {
    auto of = folder / ("cpu" + std::to_string(cpu)) / "topology";
    std::filesystem::create_directories(of);
    std::ofstream(of / "physical_package_id") << cpu % 4 / 2;
    std::ofstream(of / "core_id") << cpu % 2;
  }
  EXPECT_EQ(cpu::sortByCore({0, 1, 2, 3, 4, 5, 6, 7}, folder),
            (std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(cpu::sortByCore({3, 7, 9}, folder), (std::vector<int>{9, 3, 7}));
  std::filesystem::remove_all(folder);
}

TEST_F(Cpus, AreLeftAtTheEndOfAScope) {
  cpu_set_t before = cpusOfCaller();
  auto cpus = *cpu::cpusOf(1, 2);
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

constexpr int64_t kCpusOfTest = 64;

/// Those where both queues of `rank` of two run: a one for each.
std::vector<std::vector<float>> cpusOfQueues(const Session &session,
                                             size_t rank) {
  std::vector<std::vector<float>> queues;
  for (const char *name : {"compute", "comm"}) {
    auto all = valuesOf<float>(result(session, "output", name));
    auto begin = all.begin() + ptrdiff_t(rank) * kCpusOfTest;
    queues.emplace_back(begin, begin + kCpusOfTest);
  }
  return queues;
}

std::vector<float> flagsOf(const cpu_set_t &cpus) {
  std::vector<float> flags;
  for (size_t cpu = 0; cpu < kCpusOfTest; ++cpu)
    flags.push_back(CPU_ISSET(cpu, &cpus) ? 1 : 0);
  return flags;
}

TEST_F(Cpus, OfARankHaveAllItsQueues) {
  cpu_set_t before = cpusOfCaller();
  auto first = *cpu::cpusOf(0, 2), second = *cpu::cpusOf(1, 2);
  if (!first)
    GTEST_SKIP() << "CPUs that do not divide by two";
  ProgramBuilder b({{"data", 2}});
  uint32_t object = b.addCodeObject("kernels", kernelImage());
  addCommQueue(b);
  for (uint32_t queue : {0u, kComm}) {
    uint32_t y = b.addResult({.role = "output",
                              .name = queue ? "comm" : "compute",
                              .type = ElementType::F32,
                              .globalShape = {2 * kCpusOfTest},
                              .form = {{{1, {0}}}, {}}});
    b.launch({.name = "cpus", .queue = queue}, object, "cpus", {},
             {b.result(y)}, {kCpusOfTest});
  }
  auto session = start(b);
  EXPECT_OK(session->step());
  for (size_t rank : {size_t(0), size_t(1)})
    for (const std::vector<float> &of : cpusOfQueues(*session, rank))
      EXPECT_EQ(of, flagsOf(rank ? *second : *first)) << "rank " << rank;
  cpu_set_t after = cpusOfCaller();
  EXPECT_TRUE(CPU_EQUAL(&after, &before));
}

} // namespace
} // namespace tandem::rt::cts
