//===- axes_test.cpp - collectives over sets of axes ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every kind of collective over every set of axes of a mesh whose axes have
// different sizes, as a Program. What a rank must have is written down from the
// meaning of a mesh, without the runtime's groups.
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"

namespace tandem::rt::cts {
namespace {

using F = std::vector<float>;
using Axes = std::vector<uint32_t>;

constexpr int64_t kSizes[] = {2, 3, 2};
constexpr int64_t kRanks = 12;

/// Where a rank is: the last axis is the fastest.
std::array<int64_t, 3> place(int64_t rank) {
  return {rank / 6, rank / 2 % 3, rank % 2};
}

/// The ranks that differ from `rank` along `axes` only, in their order, and
/// where it is among them.
struct Peers {
  Peers(const Axes &axes, int64_t rank) {
    auto mine = place(rank);
    for (int64_t other = 0; other < kRanks; ++other) {
      auto theirs = place(other);
      for (uint32_t axis : axes)
        theirs[axis] = mine[axis];
      if (theirs != mine)
        continue;
      if (other == rank)
        position = int64_t(ranks.size());
      ranks.push_back(other);
    }
  }
  std::vector<int64_t> ranks;
  int64_t position = 0;
};

/// One block of elements per rank.
Form perRank() {
  Form form;
  form.dims.push_back({1, {0, 1, 2}});
  return form;
}

/// Runs one collective on what each rank holds; returns what each one gets.
std::vector<F> run(CollectiveKind kind, const Axes &axes,
                   const std::vector<F> &values, int32_t split,
                   int32_t concat) {
  ProgramBuilder b({{"pipe", 2}, {"data", 3}, {"model", 2}});
  int64_t members = 1;
  for (uint32_t axis : axes)
    members *= kSizes[axis];
  int64_t count = int64_t(values[0].size()), got = count;
  if (kind == CollectiveKind::AllGather)
    got *= members;
  if (kind == CollectiveKind::ReduceScatter)
    got /= members;
  uint32_t x = b.addArgument({.role = "input",
                              .name = "x",
                              .type = ElementType::F32,
                              .globalShape = {kRanks * count},
                              .form = perRank()});
  uint32_t y = b.addResult({.role = "output",
                            .name = "y",
                            .type = ElementType::F32,
                            .globalShape = {kRanks * got},
                            .form = perRank()});
  b.add({.name = "collective"}, Collective{.kind = kind,
                                           .axes = axes,
                                           .type = ElementType::F32,
                                           .shape = {count},
                                           .splitDim = split,
                                           .concatDim = concat,
                                           .source = b.argument(x),
                                           .destination = b.result(y)});
  auto session = startTwin(b);
  F flat;
  for (const F &part : values)
    flat.insert(flat.end(), part.begin(), part.end());
  set(*session, "input", "x", tensorOf({kRanks * count}, flat));
  EXPECT_OK(session->step());
  F all = valuesOf<float>(result(*session, "output", "y"));
  std::vector<F> parts;
  for (int64_t rank = 0; rank < kRanks; ++rank)
    parts.emplace_back(all.begin() + rank * got,
                       all.begin() + (rank + 1) * got);
  return parts;
}

class AxesTest : public testing::TestWithParam<Axes> {
protected:
  Watchdog watchdog{60};
};

/// Rank r brings 2^r: a sum tells who was added.
TEST_P(AxesTest, AllReduceAddsThePeers) {
  std::vector<F> values;
  for (int64_t rank = 0; rank < kRanks; ++rank)
    values.push_back({float(1 << rank)});
  auto got = run(CollectiveKind::AllReduce, GetParam(), values, -1, -1);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    int64_t sum = 0;
    for (int64_t peer : Peers(GetParam(), rank).ranks)
      sum += int64_t(1) << peer;
    EXPECT_EQ(got[size_t(rank)], F{float(sum)}) << "rank " << rank;
  }
}

TEST_P(AxesTest, AllGatherPutsPeersInOrder) {
  std::vector<F> values;
  for (int64_t rank = 0; rank < kRanks; ++rank)
    values.push_back({float(rank), float(100 + rank)});
  auto got = run(CollectiveKind::AllGather, GetParam(), values, -1, 0);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    F expected;
    for (int64_t peer : Peers(GetParam(), rank).ranks)
      expected.insert(expected.end(), {float(peer), float(100 + peer)});
    EXPECT_EQ(got[size_t(rank)], expected) << "rank " << rank;
  }
}

/// Element i of rank r is 2^r + i / 16: sums tell who was added, and which
/// slice a rank got.
TEST_P(AxesTest, ReduceScatterGivesEachPeerItsSlice) {
  std::vector<F> values(kRanks);
  for (int64_t rank = 0; rank < kRanks; ++rank)
    for (int64_t i = 0; i < kRanks; ++i)
      values[size_t(rank)].push_back(float(1 << rank) + float(i) / 16);
  auto got = run(CollectiveKind::ReduceScatter, GetParam(), values, 0, -1);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    Peers peers(GetParam(), rank);
    int64_t slice = kRanks / int64_t(peers.ranks.size());
    F expected(size_t(slice), 0);
    for (int64_t i = 0; i < slice; ++i)
      for (int64_t peer : peers.ranks)
        expected[size_t(i)] +=
            float(1 << peer) + float(peers.position * slice + i) / 16;
    EXPECT_EQ(got[size_t(rank)], expected) << "rank " << rank;
  }
}

TEST_P(AxesTest, AllToAllTakesOneSliceOfEachPeer) {
  std::vector<F> values(kRanks);
  for (int64_t rank = 0; rank < kRanks; ++rank)
    for (int64_t i = 0; i < kRanks; ++i)
      values[size_t(rank)].push_back(float(100 * rank + i));
  auto got = run(CollectiveKind::AllToAll, GetParam(), values, 0, 0);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    Peers peers(GetParam(), rank);
    int64_t slice = kRanks / int64_t(peers.ranks.size());
    F expected;
    for (int64_t peer : peers.ranks)
      for (int64_t i = 0; i < slice; ++i)
        expected.push_back(float(100 * peer + peers.position * slice + i));
    EXPECT_EQ(got[size_t(rank)], expected) << "rank " << rank;
  }
}

std::string axesName(const testing::TestParamInfo<Axes> &info) {
  std::string name = "over";
  for (uint32_t axis : info.param)
    name += "_" + std::to_string(axis);
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cpu, AxesTest,
                         testing::Values(Axes{0}, Axes{1}, Axes{2}, Axes{0, 1},
                                         Axes{0, 2}, Axes{1, 2}, Axes{0, 1, 2}),
                         axesName);

} // namespace
} // namespace tandem::rt::cts
