//===- communicator_test.cpp - conformance of communicators ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A backend adds itself to kBackends: a function that makes the fabric of each
// rank. Ranks are threads of this process; those with one fabric stand for
// ranks of one process.
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "cts/fabrics.h"
#include "cts/support.h"

#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <thread>

namespace tandem::rt::cts {
namespace {

struct Backend {
  const char *name;
  std::function<Fabrics(int64_t ranks)> create;
  /// Whether members that do different things are told so. NCCL knows nothing
  /// of it; the verifier of Programs has seen to it.
  bool compares = true;
};
const std::string kNccl = "nccl";
const Backend kBackends[] = {
    {"local",
     [](int64_t ranks) { return Fabrics(size_t(ranks), createLocalFabric()); }},
#ifdef TANDEM_CUDA
    {"nccl", ncclFabrics, false},
#endif
#ifdef TANDEM_GLOO
    // A process per rank; two with every second rank; two with neighbours.
    {"gloo", [](int64_t ranks) { return glooFabrics(ranks, ranks, false); }},
    {"gloo_mixed", [](int64_t ranks) { return glooFabrics(ranks, 2, false); }},
    {"gloo_hosts", [](int64_t ranks) { return glooFabrics(ranks, 2, true); }},
#endif
};

using Case = std::tuple<size_t, int64_t>; ///< Backend, number of ranks.

std::string caseName(const testing::TestParamInfo<Case> &info) {
  return std::string(kBackends[std::get<0>(info.param)].name) + "_" +
         std::to_string(std::get<1>(info.param));
}

class CommunicatorTest : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    bool needsGpus = kBackends[std::get<0>(GetParam())].name == kNccl;
    if (needsGpus && !std::getenv("TANDEM_CUDA_LIBRARIES"))
      GTEST_SKIP() << "TANDEM_CUDA_LIBRARIES names no emulated GPUs";
    fabrics = kBackends[std::get<0>(GetParam())].create(ranks());
    ASSERT_EQ(fabrics.size(), size_t(ranks()));
    for (int64_t rank = 0; rank < ranks(); ++rank)
      members.push_back(rank);
    for (int64_t rank = 0; rank < ranks(); ++rank) {
      auto communicator = fabrics[size_t(rank)]->connect(members, rank, 0);
      ASSERT_TRUE(communicator.ok()) << communicator.status().message();
      communicators.push_back(std::move(*communicator));
    }
  }
  int64_t ranks() const { return std::get<1>(GetParam()); }

  /// Runs `body` once per rank, each in a thread.
  void parallel(const std::function<void(int64_t)> &body) {
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < ranks(); ++rank)
      threads.emplace_back(body, rank);
    for (std::thread &thread : threads)
      thread.join();
  }

  /// Each rank contributes values; returns what each one gets.
  template <typename T>
  std::vector<std::vector<T>> run(const Collective &op,
                                  const std::vector<std::vector<T>> &sources) {
    size_t count = size_t(numElements(destinationShape(op, ranks())));
    std::vector<std::vector<T>> results(sources.size(), std::vector<T>(count));
    parallel([&](int64_t rank) {
      EXPECT_OK(communicators[size_t(rank)]->run(
          op, sources[size_t(rank)].data(), results[size_t(rank)].data()));
    });
    return results;
  }

  template <typename T>
  std::vector<std::vector<T>> randomSources(const Shape &shape) {
    std::vector<std::vector<T>> sources;
    for (int64_t rank = 0; rank < ranks(); ++rank)
      sources.push_back(
          randomValues<T>(numElements(shape), unsigned(17 + rank)));
    return sources;
  }

  Watchdog watchdog{60};
  Fabrics fabrics; ///< By rank.
  std::vector<int64_t> members;
  std::vector<std::unique_ptr<Communicator>> communicators;
};

Collective collective(CollectiveKind kind, ElementType type, Shape shape,
                      int32_t split = -1, int32_t concat = -1) {
  return {kind, {0}, type, std::move(shape), split, concat, {}, {}};
}

/// The sum in the order of ranks, which must be met to the bit.
template <typename T>
std::vector<T> sumOf(const std::vector<std::vector<T>> &sources) {
  std::vector<T> sum = sources[0];
  for (size_t rank = 1; rank < sources.size(); ++rank)
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] += sources[rank][i];
  return sum;
}

TEST_P(CommunicatorTest, AllReduceAddsInTheOrderOfRanks) {
  for (int64_t count : {1, 3, 63, 64, 1000, 70001, 1500007}) {
    Collective op =
        collective(CollectiveKind::AllReduce, ElementType::F32, {count});
    auto sources = randomSources<float>({count});
    std::vector<float> expected = sumOf(sources);
    for (const auto &values : run(op, sources))
      ASSERT_EQ(values, expected) << count;
  }
}

TEST_P(CommunicatorTest, AllReduceOfOtherTypes) {
  auto doubles = randomSources<double>({100});
  for (const auto &values :
       run(collective(CollectiveKind::AllReduce, ElementType::F64, {100}),
           doubles))
    EXPECT_EQ(values, sumOf(doubles));
  std::vector<std::vector<int64_t>> integers;
  for (int64_t rank = 0; rank < ranks(); ++rank)
    integers.push_back({rank, -rank, int64_t(1) << 40, 7});
  for (const auto &values :
       run(collective(CollectiveKind::AllReduce, ElementType::I64, {2, 2}),
           integers))
    EXPECT_EQ(values, sumOf(integers));
}

/// 1 and many terms of 2^-9: rounded one by one, bf16 sums would stay at 1. The
/// last place of 1 is 2^-7; halves of it go to even.
TEST_P(CommunicatorTest, Bf16IsAddedInF32) {
  constexpr uint16_t kOne = 0x3f80, kTerm = 0x3b00, kOneAndHalf = 0x3fc0;
  const std::map<int64_t, std::pair<uint16_t, uint16_t>> kSums = {
      {1, {0x3f80, 0x3fc0}}, // 1 and 1.5
      {2, {0x3f80, 0x4040}}, // 1 + 2^-9: down; 3
      {3, {0x3f80, 0x4090}}, // 1 + 2^-8, a half: down, to even; 4.5
      {4, {0x3f81, 0x40c0}}, // 1 + 3 2^-9: up; 6
      {8, {0x3f82, 0x4140}}, // 1 + 7 2^-9: up; 12
  };
  std::vector<std::vector<uint16_t>> sources(size_t(ranks()),
                                             {kTerm, kOneAndHalf});
  sources[0][0] = kOne;
  for (const auto &values :
       run(collective(CollectiveKind::AllReduce, ElementType::BF16, {2}),
           sources)) {
    EXPECT_EQ(values[0], kSums.at(ranks()).first);
    EXPECT_EQ(values[1], kSums.at(ranks()).second);
  }
}

TEST_P(CommunicatorTest, AllReduceWorksInPlace) {
  auto sources = randomSources<float>({5000});
  auto expected = sumOf(sources);
  Collective op =
      collective(CollectiveKind::AllReduce, ElementType::F32, {5000});
  parallel([&](int64_t rank) {
    float *data = sources[size_t(rank)].data();
    EXPECT_OK(communicators[size_t(rank)]->run(op, data, data));
  });
  for (const auto &values : sources)
    EXPECT_EQ(values, expected);
}

TEST_P(CommunicatorTest, AllGatherAlongEveryDimension) {
  // The second shape is too large for what communicators do with small ones.
  for (Shape shape : {Shape{2, 3, 5}, Shape{2, 3, 5003}}) {
    auto sources = randomSources<float>(shape);
    for (int32_t dim = 0; dim < 3; ++dim) {
      Collective op = collective(CollectiveKind::AllGather, ElementType::F32,
                                 shape, -1, dim);
      Shape whole = destinationShape(op, ranks());
      for (const auto &values : run(op, sources))
        for (int64_t i = 0; i < numElements(whole); ++i) {
          auto index = unflatten(i, whole);
          int64_t from = index[size_t(dim)] / shape[size_t(dim)];
          index[size_t(dim)] %= shape[size_t(dim)];
          ASSERT_EQ(values[size_t(i)],
                    sources[size_t(from)][size_t(flatten(index, shape))]);
        }
    }
  }
}

TEST_P(CommunicatorTest, AllGatherOfBooleans) {
  std::vector<std::vector<uint8_t>> sources;
  std::vector<uint8_t> expected;
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    sources.push_back({uint8_t(rank % 2), 1});
    expected.insert(expected.end(), {uint8_t(rank % 2), 1});
  }
  for (const auto &values :
       run(collective(CollectiveKind::AllGather, ElementType::I1, {2}, -1, 0),
           sources))
    EXPECT_EQ(values, expected);
}

TEST_P(CommunicatorTest, ReduceScatterAlongEveryDimension) {
  int64_t n = ranks();
  Shape shape = {2 * n, 3 * n, 64 * n}; // small for some n, large for others
  auto sources = randomSources<float>(shape);
  auto sum = sumOf(sources);
  for (int32_t dim = 0; dim < 3; ++dim) {
    Collective op =
        collective(CollectiveKind::ReduceScatter, ElementType::F32, shape, dim);
    Shape part = destinationShape(op, n);
    auto results = run(op, sources);
    for (int64_t rank = 0; rank < n; ++rank)
      for (int64_t i = 0; i < numElements(part); ++i) {
        auto index = unflatten(i, part);
        index[size_t(dim)] += rank * part[size_t(dim)];
        ASSERT_EQ(results[size_t(rank)][size_t(i)],
                  sum[size_t(flatten(index, shape))]);
      }
  }
}

TEST_P(CommunicatorTest, AllToAllBetweenAnyTwoDimensions) {
  int64_t n = ranks();
  Shape shape = {2 * n, n, 12 * n}; // small for some n, large for others
  auto sources = randomSources<float>(shape);
  for (int32_t split = 0; split < 3; ++split)
    for (int32_t join = 0; join < 3; ++join) {
      Collective op = collective(CollectiveKind::AllToAll, ElementType::F32,
                                 shape, split, join);
      Shape block = shape;
      block[size_t(split)] /= n;
      Shape out = destinationShape(op, n);
      auto results = run(op, sources);
      for (int64_t rank = 0; rank < n; ++rank)
        for (int64_t i = 0; i < numElements(out); ++i) {
          auto index = unflatten(i, out);
          int64_t from = index[size_t(join)] / block[size_t(join)];
          index[size_t(join)] %= block[size_t(join)];
          index[size_t(split)] += rank * block[size_t(split)];
          ASSERT_EQ(results[size_t(rank)][size_t(i)],
                    sources[size_t(from)][size_t(flatten(index, shape))])
              << "split " << split << " concat " << join;
        }
    }
}

TEST_P(CommunicatorTest, EmptyTensorsPass) {
  std::vector<std::vector<float>> sources{size_t(ranks())};
  run(collective(CollectiveKind::AllReduce, ElementType::F32, {0}), sources);
  run(collective(CollectiveKind::AllGather, ElementType::F32, {0, 2}, -1, 1),
      sources);
}

TEST_P(CommunicatorTest, MembersThatDisagreeAreTold) {
  if (ranks() == 1)
    GTEST_SKIP() << "one member agrees with itself";
  if (!kBackends[std::get<0>(GetParam())].compares)
    GTEST_SKIP() << "members are not compared";
  std::vector<float> source(8), destination(8);
  std::vector<Status> statuses(size_t(ranks()), Status::success());
  std::vector<std::vector<float>> buffers(size_t(ranks()),
                                          std::vector<float>(16));
  parallel([&](int64_t rank) {
    Collective op = collective(CollectiveKind::AllReduce, ElementType::F32,
                               {rank == 1 ? 4 : 8});
    float *data = buffers[size_t(rank)].data();
    statuses[size_t(rank)] =
        communicators[size_t(rank)]->run(op, data, data + 8);
  });
  expectError(statuses[0], "member 0 of the group runs all_reduce of f32[8], "
                           "but member 1 runs all_reduce of f32[4]");
  expectError(statuses[1], "but member 1 runs all_reduce of f32[4]");
}

TEST_P(CommunicatorTest, AbortWakesAllAndRecoverStartsAnew) {
  if (ranks() == 1)
    GTEST_SKIP() << "one member waits for nobody";
  Collective op = collective(CollectiveKind::AllReduce, ElementType::F32, {4});
  std::vector<std::vector<float>> buffers(size_t(ranks()),
                                          std::vector<float>(4, 1));
  auto begin = std::chrono::steady_clock::now();
  parallel([&](int64_t rank) {
    if (rank == ranks() - 1) { // never joins the others
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return fabrics[size_t(rank)]->abort(Status::error("rank is missing"));
    }
    float *data = buffers[size_t(rank)].data();
    expectError(communicators[size_t(rank)]->run(op, data, data),
                "stopped by an error on another rank");
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  std::set<Fabric *> processes;
  for (const std::shared_ptr<Fabric> &fabric : fabrics)
    processes.insert(fabric.get());
  std::vector<std::thread> threads;
  for (Fabric *fabric : processes)
    threads.emplace_back([fabric] {
      EXPECT_EQ(fabric->reason().message(), "rank is missing");
      EXPECT_OK(fabric->recover());
      EXPECT_OK(fabric->reason());
    });
  for (std::thread &thread : threads)
    thread.join();
  auto sources = randomSources<float>({4});
  for (const auto &values : run(op, sources))
    EXPECT_EQ(values, sumOf(sources));
}

/// Many small ones, one after the other: no member may run ahead into the
/// posts of the next.
TEST_P(CommunicatorTest, ManyInARow) {
  parallel([&](int64_t rank) {
    Collective op =
        collective(CollectiveKind::AllReduce, ElementType::I64, {1});
    for (int64_t round = 0; round < 500; ++round) {
      int64_t mine = rank + round, sum = 0;
      EXPECT_OK(communicators[size_t(rank)]->run(op, &mine, &sum));
      ASSERT_EQ(sum, ranks() * round + ranks() * (ranks() - 1) / 2);
    }
  });
}

TEST_P(CommunicatorTest, ChannelsAndGroupsAreApart) {
  std::vector<std::unique_ptr<Communicator>> alone, other;
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    auto self = fabrics[size_t(rank)]->connect({rank}, rank, 0);
    auto second = fabrics[size_t(rank)]->connect(members, rank, 1);
    ASSERT_TRUE(self.ok() && second.ok());
    alone.push_back(std::move(*self));
    other.push_back(std::move(*second));
  }
  Collective op = collective(CollectiveKind::AllReduce, ElementType::I64, {1});
  parallel([&](int64_t rank) {
    int64_t one = 1, sum = 0;
    // Half of the ranks begin with the one channel, half with the other, from
    // two threads each: only a mix-up could give wrong sums or hang.
    std::thread second([&] {
      int64_t ten = 10, tens = 0;
      EXPECT_OK(other[size_t(rank)]->run(op, &ten, &tens));
      EXPECT_EQ(tens, 10 * ranks());
    });
    EXPECT_OK(alone[size_t(rank)]->run(op, &one, &sum));
    EXPECT_EQ(sum, 1);
    EXPECT_OK(communicators[size_t(rank)]->run(op, &one, &sum));
    EXPECT_EQ(sum, ranks());
    second.join();
  });
}

TEST_P(CommunicatorTest, RefusesARankThatIsNoMember) {
  expectError(fabrics[0]->connect(members, ranks(), 0).status(),
              "is not a member of its group");
}

INSTANTIATE_TEST_SUITE_P(All, CommunicatorTest,
                         testing::Combine(testing::Range(size_t(0),
                                                         std::size(kBackends)),
                                          testing::Values(1, 2, 3, 4, 8)),
                         caseName);

} // namespace
} // namespace tandem::rt::cts
