//===- emitted_test.cpp - mistakes in a compiled pipeline -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of the file TANDEM_PIPELINE: two points, with a loss that is checked. The
// runtime alone has no compiler, so test/Integration/pipeline-mistakes.test
// runs these.
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"
#include "tandem_rt/program.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

namespace tandem::rt::cts {
namespace {
using Commands = std::vector<Command>;

class EmittedTest : public testing::Test {
protected:
  void SetUp() override {
    const char *path = std::getenv("TANDEM_PIPELINE");
    if (!path)
      GTEST_SKIP() << "TANDEM_PIPELINE names no Program";
    std::ifstream file(path, std::ios::binary);
    Bytes bytes{std::istreambuf_iterator<char>(file), {}};
    Expected<Program> loaded = loadProgram(bytes);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    program = std::move(*loaded);
    ASSERT_EQ(program.rankPrograms.size(), 2u);
  }

  Commands &of(size_t point) { return program.rankPrograms[point].commands; }

  /// The n-th command of a point that `holds`.
  Commands::iterator find(size_t point,
                          const std::function<bool(const Command &)> &holds,
                          size_t number = 0) {
    auto it = of(point).begin();
    while (it = std::find_if(it, of(point).end(), holds),
           it != of(point).end() && number-- > 0)
      ++it;
    EXPECT_NE(it, of(point).end());
    return it;
  }
  Commands::iterator transfer(size_t point, int64_t from, size_t number = 0) {
    return find(
        point,
        [from](const Command &command) {
          auto *op = std::get_if<Transfer>(&command.operation);
          return op && op->from == from;
        },
        number);
  }
  static bool isCheck(const Command &command) {
    return std::holds_alternative<Check>(command.operation);
  }

  void expect(const std::string &words) {
    Status status = verifyProgram(program);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find(words), std::string::npos)
        << status.message();
  }

  Program program;
};

TEST_F(EmittedTest, IsRight) { EXPECT_OK(verifyProgram(program)); }

TEST_F(EmittedTest, FindsSwappedTransfers) {
  std::swap(transfer(0, 0, 0)->operation, transfer(0, 0, 1)->operation);
  expect("expected transfer of command");
}

TEST_F(EmittedTest, FindsADroppedTransfer) {
  for (size_t point : {0, 1}) {
    Program whole = program;
    of(point).erase(transfer(point, 0));
    expect("rank program");
    program = std::move(whole);
  }
}

TEST_F(EmittedTest, FindsAWrongPeer) {
  auto &op = std::get<Transfer>(transfer(0, 0)->operation);
  std::swap(op.from, op.to);
  expect("transfer");
}

/// The gradient of a microbatch before its activation was sent.
TEST_F(EmittedTest, FindsACircle) {
  auto received = transfer(0, 1);
  std::rotate(of(0).begin(), received, received + 1);
  expect("rank programs wait for each other in a circle");
}

/// Passes that do not wait for what they read.
TEST_F(EmittedTest, FindsAPassBeforeItsInput) {
  uint32_t queue = transfer(1, 0)->queue;
  std::set<uint32_t> events;
  for (const Command &command : of(1))
    if (auto *record = std::get_if<RecordEvent>(&command.operation);
        record && command.queue == queue)
      events.insert(record->event);
  std::erase_if(of(1), [&](const Command &command) {
    auto *wait = std::get_if<WaitEvent>(&command.operation);
    return wait && events.contains(wait->event);
  });
  expect("which command");
}

TEST_F(EmittedTest, FindsAVerdictThatMissesAPoint) {
  for (size_t point : {0, 1}) {
    Program whole = program;
    of(point).erase(find(point, isCheck));
    expect("check");
    program = whole;
    std::get<Check>(find(point, isCheck)->operation).axes.clear();
    expect("check");
    program = std::move(whole);
  }
}

/// An update before the verdict.
TEST_F(EmittedTest, FindsAnEarlyUpdate) {
  for (size_t point : {0, 1}) {
    Program whole = program;
    auto check = find(point, isCheck);
    std::rotate(check, check + 1, of(point).end());
    expect("check");
    program = std::move(whole);
  }
}

} // namespace
} // namespace tandem::rt::cts
