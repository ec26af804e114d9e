//===- meetings_test.cpp - rank programs that meet ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"

#include <algorithm>
#include <random>

namespace tandem::rt::cts {
namespace {
constexpr int64_t kBytes = 16;

/// A rank program that is a list of all-reduces, each over some axes.
using Groups = std::vector<std::vector<uint32_t>>;

/// Rank programs on a mesh of `pipe` and `data`, one per point of `pipe`.
Program programOf(int64_t pipe, int64_t data,
                  const std::vector<Groups> &rankPrograms) {
  ProgramBuilder b({{"pipe", pipe}, {"data", data}});
  for (size_t i = 1; i < rankPrograms.size(); ++i)
    b.addRankProgram();
  Program program = b.get();
  for (int64_t rank = 0; rank < pipe * data; ++rank)
    program.rankToProgram[size_t(rank)] = uint32_t(rank / data);
  for (size_t i = 0; i < rankPrograms.size(); ++i) {
    RankProgram &rankProgram = program.rankPrograms[i];
    rankProgram.arenas = {{2 * kBytes, 0}};
    BufferRef to{Space::Arena, 0, kBytes, kBytes};
    rankProgram.commands.push_back(
        {.id = 0, .name = "fill", .operation = Fill{to, {0}}});
    for (const std::vector<uint32_t> &axes : rankPrograms[i])
      rankProgram.commands.push_back(
          {.id = uint32_t(rankProgram.commands.size()),
           .name = "sum",
           .operation = Collective{.axes = axes,
                                   .shape = {kBytes / 4},
                                   .source = to,
                                   .destination = to}});
  }
  return program;
}

const std::vector<uint32_t> kPipe = {0}, kData = {1}, kBoth = {0, 1};

/// A section has sums of its own; all meet where the group has all of them.
TEST(Meetings, AreThoseOfAGroup) {
  EXPECT_OK(
      verifyProgram(programOf(2, 2, {{kData, kData, kPipe}, {kPipe, kData}})));
  EXPECT_OK(verifyProgram(programOf(2, 2, {{kData}, {}})));
  EXPECT_OK(verifyProgram(
      programOf(2, 2, {{kData, kBoth, kPipe}, {kBoth, kData, kPipe}})));
}

TEST(Meetings, NameWhoEndedTooSoon) {
  expectError(verifyProgram(programOf(2, 2, {{kData, kPipe}, {kData}})),
              "rank program 0 waits in all_reduce of command 2 'sum' for rank "
              "program 1, which has come to its end");
}

TEST(Meetings, NameCircles) {
  expectError(
      verifyProgram(programOf(2, 2, {{kPipe, kBoth}, {kBoth, kPipe}})),
      "rank programs wait for each other in a circle: rank program 0 in "
      "all_reduce of command 1 'sum', rank program 1 in all_reduce of command "
      "1 'sum'");
}

TEST(Meetings, AgreeOnWhatIsDone) {
  Program program = programOf(2, 1, {{kPipe}, {kPipe}});
  std::get<Collective>(program.rankPrograms[1].commands[1].operation).type =
      ElementType::I32;
  expectError(verifyProgram(program),
              "rank program 1 runs all_reduce of command 1 'sum', expected "
              "all_reduce of command 1 'sum' as in rank program 0");
}

/// Takes each rank through its list, in the plainest way: whether all end.
bool allEnd(const Program &program) {
  std::vector<std::vector<const Collective *>> lists;
  for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
    lists.emplace_back();
    uint32_t number = program.rankToProgram[size_t(rank)];
    for (const Command &command : program.rankPrograms[number].commands)
      if (const auto *op = std::get_if<Collective>(&command.operation))
        lists.back().push_back(op);
  }
  std::vector<size_t> next(lists.size());
  for (bool isMoved = true; isMoved;) {
    isMoved = false;
    for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
      if (next[size_t(rank)] == lists[size_t(rank)].size())
        continue;
      const auto &axes = lists[size_t(rank)][next[size_t(rank)]]->axes;
      std::vector<int64_t> group = program.group(axes, rank);
      bool areThere =
          std::all_of(group.begin(), group.end(), [&](int64_t each) {
            size_t at = next[size_t(each)];
            return at < lists[size_t(each)].size() &&
                   lists[size_t(each)][at]->axes == axes;
          });
      if (!areThere)
        continue;
      for (int64_t each : group)
        ++next[size_t(each)];
      isMoved = true;
    }
  }
  for (size_t rank = 0; rank < lists.size(); ++rank)
    if (next[rank] < lists[rank].size())
      return false;
  return true;
}

/// Rank by rank, with no rank program that stands for its ranks.
TEST(Meetings, AgreeWithAWalkOfAllRanks) {
  std::mt19937 random(11);
  int fine = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    int64_t pipe = 1 + int64_t(random() % 3), data = 1 + int64_t(random() % 2);
    std::vector<Groups> lists(static_cast<size_t>(pipe));
    for (Groups &list : lists)
      for (unsigned j = 0, count = random() % 4; j < count; ++j)
        list.push_back(std::vector{kPipe, kData, kBoth}[random() % 3]);
    Program program = programOf(pipe, data, lists);
    Status status = verifyProgram(program);
    ASSERT_EQ(status.ok(), allEnd(program)) << status.message();
    ++(status.ok() ? fine : refused);
  }
  EXPECT_GT(fine, 200);
  EXPECT_GT(refused, 200);
}

} // namespace
} // namespace tandem::rt::cts
