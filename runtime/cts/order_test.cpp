//===- order_test.cpp - missing waits -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ten Programs, in each of which each wait of the streams, and each edge of the
// graph, is left out once. The emulated GPU has to report exactly those without
// which two accesses to the same bytes lose their order: that is seen here by
// comparing all pairs.
//
//===----------------------------------------------------------------------===//

#include "cts/emulator/order.h"
#include "cts/random_program.h"
#include "cts/stages.h"
#include "cts/sums.h"
#include "cuda/driver/gpu.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>

namespace tandem::rt::cts {
namespace {
using cuda::emulated::Order;
using cuda::emulated::Piece;
using cuda::emulated::Run;

/// Of the emulated driver that the runtime has loaded.
template <typename Function> Function *find(const char *name) {
  std::string path =
      std::string(std::getenv("TANDEM_CUDA_LIBRARIES")) + "/libcuda.so.1";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function *>(dlsym(library, name));
}

bool conflict(const Piece &a, const Piece &b) {
  for (const Run &x : a.runs)
    for (const Run &y : b.runs)
      if ((x.writes || y.writes) && x.begin < y.end && y.begin < x.end)
        return true;
  return false;
}

/// Whether two conflicting pieces have no way from the one to the other.
bool isDisordered(const std::vector<Piece> &pieces) {
  size_t count = pieces.size();
  std::vector<std::vector<bool>> reaches(count, std::vector<bool>(count));
  for (size_t last = 0; last < count; ++last) {
    std::vector<size_t> open = pieces[last].before;
    while (!open.empty()) {
      size_t first = open.back();
      open.pop_back();
      if (reaches[first][last])
        continue;
      reaches[first][last] = true;
      open.insert(open.end(), pieces[first].before.begin(),
                  pieces[first].before.end());
    }
  }
  for (size_t b = 0; b < count; ++b)
    for (size_t a = 0; a < b; ++a)
      if (!reaches[a][b] && !reaches[b][a] && conflict(pieces[a], pieces[b]))
        return true;
  return false;
}

class OrderTest : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    if (!std::getenv("TANDEM_CTS_DEVICE"))
      GTEST_SKIP() << "TANDEM_CTS_DEVICE names no device with GPUs";
    watch = find<Order *(bool, int64_t)>("tandemWatchOrder");
    countWaits = find<int64_t()>("tandemCountWaits");
    ASSERT_TRUE(watch && countWaits);
  }
  void TearDown() override {
    if (watch)
      watch(false, 0);
  }

  /// A step in which one wait is left out; 0: none. What it is found to be.
  bool isReported(Session &session, int64_t leftOut) {
    Order *order = watch(true, leftOut);
    Status status = session.step();
    if (leftOut == 0) // else anything may be computed
      EXPECT_OK(status);
    bool isFound = !order->getReports().empty();
    EXPECT_EQ(isFound, isDisordered(order->getPieces())) << leftOut;
    return isFound;
  }

  /// All streams are empty then.
  static void settle() {
    auto gpu = *cuda::Gpu::open(0);
    cuda::Present present(*gpu);
    EXPECT_OK(gpu->check(gpu->driver.contextSynchronize(), "go on"));
  }

  Watchdog watchdog{280};
  Order *(*watch)(bool, int64_t) = nullptr;
  int64_t (*countWaits)() = nullptr;
};

TEST_P(OrderTest, IsReportedIfAndOnlyIfAccessesLoseIt) {
  int64_t needed = 0, spare = 0, numPrograms = 0;
  constexpr int64_t kMaxWaits = 100; // those of small Programs, to be quick
  for (unsigned seed = 0; numPrograms < 10; ++seed) {
    ProgramBuilder b = randomProgram(seed);
    auto begin = [&] {
      auto session = start(b, {.graph = GetParam()});
      int64_t ranks = b.get().numRanks();
      Tensor flags(ElementType::I1, {ranks});
      flags.data.assign(size_t(ranks), 1);
      set(*session, "input", "flags", flags);
      return session;
    };
    auto session = begin();
    ASSERT_TRUE(session);
    EXPECT_FALSE(isReported(*session, 0)) << "program " << seed;
    int64_t waits = countWaits();
    if (waits > kMaxWaits)
      continue;
    ++numPrograms;
    for (int64_t wait = 1; wait <= waits; ++wait) {
      watch(false, 0);
      session = begin(); // a graph is made with the first step
      ++(isReported(*session, wait) ? needed : spare);
    }
  }
  // Both kinds are there, or nothing was tried.
  EXPECT_GT(needed, 20);
  EXPECT_GT(spare, 20);
}

/// What both ends of a transfer wait for, and what comes behind it.
TEST_P(OrderTest, TransfersLoseIt) {
  Stages p(1);
  auto session = start(p.b, {.graph = GetParam()});
  ASSERT_TRUE(session);
  EXPECT_FALSE(isReported(*session, 0));
  int64_t waits = countWaits(), needed = 0;
  for (int64_t wait = 1; wait <= waits; ++wait) {
    watch(false, 0);
    session = start(p.b, {.graph = GetParam()});
    needed += isReported(*session, wait);
  }
  // Of each transfer and check at least one.
  EXPECT_GE(needed, 2 * p.kRows + 1);
}

constexpr int64_t kPieces = 12, kBefore = 4, kTransfers = 4;

ProgramBuilder makeBusyProgram() {
  return SumsBesideTransfers{.transfers = kTransfers,
                             .piecesBefore = kBefore,
                             .piecesBeside = kPieces - kBefore}
      .make();
}

/// How many pieces of the sum have ended when the last transfer ends. Of copies
/// and fills a transfer alone reads and writes the device.
double countBeforeTransfers(const Order &order) {
  double sums = 0, before = 0, transfers = 0;
  for (size_t ended : order.getEnded()) {
    const Piece &piece = order.getPieces()[ended];
    if (piece.name.starts_with("tandem_sum_"))
      ++sums;
    auto writes = std::ranges::count_if(piece.runs, &Run::writes);
    bool isTransfer = piece.name == "a copy or fill" && writes > 0 &&
                      writes < std::ssize(piece.runs);
    if (isTransfer)
      ++transfers, before = sums;
  }
  EXPECT_EQ(transfers, 2 * kTransfers);
  return kPieces * before / sums;
}

/// A transfer waits for the piece that runs, and for no other.
TEST_P(OrderTest, TransfersComeBeforePiecesOfSums) {
  auto count = [&](const char *priorities) {
    setenv("TANDEM_EMULATED_PRIORITIES", priorities, 1);
    auto session = start(makeBusyProgram(), {.graph = GetParam()});
    Order *order = watch(true, 0);
    EXPECT_TRUE(session && session->step().ok());
    double before = countBeforeTransfers(*order);
    unsetenv("TANDEM_EMULATED_PRIORITIES");
    watch(false, 0);
    return before;
  };
  double with = count("1");
  EXPECT_GE(with, kBefore);
  EXPECT_LE(with, kBefore + 1);
  // What the test would see otherwise.
  EXPECT_GT(count("0"), kBefore + 1);
}

/// All that a step leaves; nothing where it ends by an error.
std::optional<std::vector<Bytes>> valuesBehind(Session &session,
                                               unsigned seed) {
  auto numbers = [&](int64_t count, unsigned from) {
    std::vector<float> values;
    std::mt19937 random(from);
    for (int64_t i = 0; i < count; ++i)
      values.push_back(float(random() % 17));
    return tensorOf({count}, values);
  };
  int64_t ranks = session.program().numRanks();
  set(session, "parameter", "w", numbers(16 * ranks, seed));
  set(session, "input", "x", numbers(64 * ranks, seed + 1));
  Tensor flags(ElementType::I1, {ranks});
  flags.data.assign(size_t(ranks), 1);
  set(session, "input", "flags", flags);
  if (!session.step().ok())
    return std::nullopt;
  std::vector<Bytes> values = {argument(session, "parameter", "w").data};
  for (uint32_t i = 0; i < session.results().size(); ++i)
    values.push_back(session.getResult(i)->data);
  return values;
}

/// What is reported shows in values by one of some orders, unless nothing that
/// the step leaves depends on it; what is not does so by none. Each step comes
/// behind one of other numbers, as what memory has from the last one would be
/// right.
TEST_P(OrderTest, RemovalsThatAreRun) {
  if (GetParam())
    GTEST_SKIP() << "a graph is made with the first step";
  constexpr int kOrders = 40, kOfEach = 20, kOfAProgram = 4;
  int needed = 0, shown = 0, spare = 0;
  for (unsigned seed = 0; needed < kOfEach || spare < kOfEach; ++seed) {
    auto session = start(randomProgram(seed), {.graph = false});
    ASSERT_TRUE(session);
    auto expected = valuesBehind(*session, 1);
    ASSERT_TRUE(expected) << "program " << seed;
    watch(true, 0);
    EXPECT_EQ(valuesBehind(*session, 1), expected);
    settle();
    int64_t waits = countWaits();
    std::mt19937 random(seed);
    for (int sample = 0; sample < kOfAProgram && waits; ++sample) {
      int64_t wait = 1 + int64_t(random() % uint64_t(waits));
      bool isReported = false, isShown = false;
      for (int order = 0; order < kOrders && !isShown; ++order) {
        watch(false, 0);
        valuesBehind(*session, 2);
        Order *found = watch(true, wait);
        isShown = valuesBehind(*session, 1) != expected;
        settle(); // what the step's end does not wait for any more
        isReported |= !found->getReports().empty();
      }
      EXPECT_TRUE(isReported || !isShown)
          << "program " << seed << ", wait " << wait;
      if (!isReported && spare < kOfEach)
        ++spare;
      else if (isReported && needed < kOfEach)
        ++needed, shown += isShown;
    }
    watch(false, 0);
  }
  std::printf("%d of %d removals show in values\n", shown, needed);
  EXPECT_GE(shown, kOfEach / 4);
}

INSTANTIATE_TEST_SUITE_P(All, OrderTest, testing::Bool(), [](const auto &info) {
  return info.param ? "graph" : "streams";
});

} // namespace
} // namespace tandem::rt::cts
