//===- hosts_test.cpp - bytes and rates between processes -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/communicator.h"
#include "core/access.h"
#include "cts/fabrics.h"
#include "cts/support.h"

#include <map>
#include <thread>

namespace tandem::rt::cts {
namespace {

/// Processes and ranks of each.
class HostsTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {
protected:
  void SetUp() override {
    fabrics = glooFabrics(ranks(), processes(), true);
    for (int64_t rank = 0; rank < ranks(); ++rank)
      members.push_back(rank);
    for (int64_t rank : members)
      communicators.push_back(
          std::move(*fabrics[size_t(rank)]->connect(members, rank, 0)));
  }
  int64_t processes() const { return GetParam().first; }
  int64_t ranks() const { return GetParam().first * GetParam().second; }

  /// What each process sends in a collective, at most.
  int64_t bytesOf(const Collective &op) {
    int64_t bytes = numElements(op.shape) * elementBytes(op.type);
    std::map<Fabric *, int64_t> before;
    for (auto &fabric : fabrics)
      before[fabric.get()] = fabric->bytesSent();
    inProcesses(ranks(), [&](int64_t rank) {
      std::vector<char> source(size_t(bytes), 1),
          result(size_t(bytes * ranks()));
      EXPECT_OK(
          communicators[size_t(rank)]->run(op, source.data(), result.data()));
    });
    int64_t most = 0;
    for (auto &[fabric, sent] : before)
      most = std::max(most, fabric->bytesSent() - sent);
    return most;
  }

  Watchdog watchdog{60};
  Fabrics fabrics;
  std::vector<int64_t> members;
  std::vector<std::unique_ptr<Communicator>> communicators;
};

/// A rank of a ring sends (n-1)/n of the whole, and an all-reduce twice that.
TEST_P(HostsTest, NoMoreIsSentThanByRings) {
  int64_t n = ranks(), each = n / processes(), side = 128 * n;
  Shape whole = {side, side};
  int64_t bytes = side * side * 4, ring = bytes / n * (n - 1);
  auto expect = [&](CollectiveKind kind, int32_t split, int32_t concat,
                    int64_t limit) {
    Shape shape = whole;
    if (kind == CollectiveKind::AllGather)
      shape[0] /= n;
    Collective op{kind, {0}, ElementType::F32, shape, split, concat, {}, {}};
    EXPECT_LE(bytesOf(op), each * limit) << int(kind);
  };
  expect(CollectiveKind::AllReduce, -1, -1, 2 * ring);
  expect(CollectiveKind::ReduceScatter, 1, -1, ring);
  expect(CollectiveKind::AllGather, -1, 1, ring);
  expect(CollectiveKind::AllToAll, 1, 0, ring);
}

INSTANTIATE_TEST_SUITE_P(All, HostsTest,
                         testing::Values(std::pair(2, 1), std::pair(2, 2),
                                         std::pair(3, 1), std::pair(4, 2)),
                         [](const auto &info) {
                           return std::to_string(info.param.first) + "x" +
                                  std::to_string(info.param.second);
                         });

/// Any subset of ranks, whoever has them, gives the bits of one process.
TEST(Hosts, GroupsOfSomeRanksAddAsOneProcessDoes) {
  Watchdog watchdog(60);
  Fabrics fabrics = glooFabrics(6, 3, false);
  std::shared_ptr<Fabric> local = createLocalFabric();
  for (std::vector<int64_t> members :
       {std::vector<int64_t>{0, 3}, {1, 2, 4}, {0, 1, 3, 4}, {1, 2, 3, 4, 5}}) {
    int64_t n = int64_t(members.size());
    for (CollectiveKind kind :
         {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter})
      for (ElementType type : {ElementType::F32, ElementType::BF16}) {
        Collective op{kind, {0}, type, {n * 8, n, 1000}, 1, -1, {}, {}};
        size_t count = size_t(numElements(op.shape));
        auto run = [&](auto fabricOf) {
          std::vector<Bytes> results(size_t(n), Bytes(count * 4));
          inProcesses(n, [&](int64_t place) {
            int64_t rank = members[size_t(place)];
            std::vector<float> floats =
                randomValues<float>(int64_t(count), unsigned(rank));
            std::vector<uint16_t> halves;
            for (float value : floats)
              halves.push_back(floatToBf16(value));
            auto communicator = fabricOf(rank)->connect(members, rank, 0);
            const void *source = floats.data();
            if (type == ElementType::BF16)
              source = halves.data();
            EXPECT_OK((*communicator)
                          ->run(op, source, results[size_t(place)].data()));
          });
          return results;
        };
        EXPECT_EQ(run([&](int64_t rank) { return fabrics[size_t(rank)]; }),
                  run([&](int64_t) { return local; }));
      }
  }
}

/// A process that is done takes nothing away that another one still reads.
TEST(Hosts, WhoLeavesEarlyTakesNothingAway) {
  Watchdog watchdog(60);
  Controls controls = joinAll(2);
  constexpr int64_t kCount = 1 << 10;
  Collective op{CollectiveKind::AllToAll,
                {0},
                ElementType::F32,
                {2, kCount},
                0,
                1,
                {},
                {}};
  for (int round = 0; round < 50; ++round)
    inProcesses(2, [&](int64_t rank) {
      auto fabric = createGlooFabric(controls[size_t(rank)], {rank}, 2);
      ASSERT_TRUE(fabric.ok()) << fabric.status().message();
      auto communicator = (*fabric)->connect({0, 1}, rank, 0);
      std::vector<float> source(2 * kCount, float(rank + 1)),
          result(2 * kCount);
      for (int i = 0; i < 5; ++i)
        EXPECT_OK((*communicator)->run(op, source.data(), result.data()));
      EXPECT_EQ(result[kCount - 1], 1);
      EXPECT_EQ(result[kCount], 2);
    });
}

TEST(Hosts, RanksThatDoNotFitAreOneError) {
  Watchdog watchdog(60);
  Controls controls = joinAll(2);
  inProcesses(2, [&](int64_t process) {
    expectError(
        createGlooFabric(controls[size_t(process)], {process}, 3).status(),
        "no process has rank 2, expected all below 3");
    expectError(createGlooFabric(controls[size_t(process)], {0}, 2).status(),
                "rank 0 of process 1 is that of process 0");
    expectError(
        createGlooFabric(controls[size_t(process)], {process}, 2 + process)
            .status(),
        process ? "process 0 has 2 ranks in all, expected 3"
                : "process 1 has 3 ranks in all, expected 2");
  });
}

TEST(Hosts, WhoIsLostWhileAllConnectIsTheCause) {
  Watchdog watchdog(60);
  Controls controls = joinAll(3);
  inProcesses(3, [&](int64_t process) {
    Control &own = *controls[size_t(process)];
    if (process == 1) {
      std::string ranks = Packer().number(3).number(1).text();
      EXPECT_OK(own.exchange("ranks", ranks).status());
      return own.leave("error: no more");
    }
    Status status =
        createGlooFabric(controls[size_t(process)], {process}, 3).status();
    EXPECT_EQ(status.message().find("process 1 (pid "), 0u) << status.message();
    expectError(status, ") ended with error: no more");
  });
}

} // namespace
} // namespace tandem::rt::cts
