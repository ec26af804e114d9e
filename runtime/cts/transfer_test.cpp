//===- transfer_test.cpp - values from one rank to another ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/registry.h"
#include "cts/fabrics.h"
#include "cts/support.h"
#ifdef TANDEM_GLOO
#include "comm/gloo/communicator.h"
#endif

#include <thread>

namespace tandem::rt::cts {
namespace {
using F = std::vector<float>;

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

Fabrics fabricsOf(const std::string &name) {
#ifdef TANDEM_CUDA
  if (name == "nccl")
    return ncclFabrics(2);
#endif
#ifdef TANDEM_GLOO
  if (name == "gloo")
    return glooFabrics(2, 2, true);
#endif
  return Fabrics(2, createLocalFabric());
}

class TransferTest : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (GetParam() == "nccl" && !std::getenv("TANDEM_CUDA_LIBRARIES"))
      GTEST_SKIP() << "TANDEM_CUDA_LIBRARIES names no emulated GPUs";
    fabrics = fabricsOf(GetParam());
  }
  std::unique_ptr<Communicator> connect(int64_t rank, unsigned channel) {
    auto made = fabrics[size_t(rank)]->connect({0, 1}, rank, channel);
    EXPECT_OK(made.status());
    return std::move(*made);
  }

  Watchdog watchdog{60};
  Fabrics fabrics;
};

/// Of less than a message, one, several; each on a channel of its own, so that
/// neither way waits for the other.
TEST_P(TransferTest, GoesBothWaysInOrder) {
  const std::vector<size_t> sizes = {1,       4096, 256 << 10, (256 << 10) + 1,
                                     3 << 20, 7};
  auto valueOf = [](size_t number, int64_t from) {
    return char(1 + number * 16 + size_t(from));
  };
  std::vector<std::thread> threads;
  for (int64_t from : {0, 1})
    for (int64_t rank : {0, 1})
      threads.emplace_back([&, from, rank,
                            end = connect(rank, unsigned(from))] {
        for (size_t number = 0; number < sizes.size(); ++number) {
          bool sends = rank == from;
          Bytes data(sizes[number], sends ? uint8_t(valueOf(number, from)) : 0);
          EXPECT_OK(end->transfer(sends, data.data(), data.size()));
          EXPECT_EQ(data, Bytes(sizes[number], uint8_t(valueOf(number, from))))
              << number;
        }
      });
  for (std::thread &thread : threads)
    thread.join();
}

/// A source may be written again once its transfer is done.
TEST_P(TransferTest, LeavesTheSourceFree) {
  auto sender = connect(0, 0), receiver = connect(1, 0);
  constexpr int kCount = 20;
  std::thread other([&] {
    for (int i = 0; i < kCount; ++i) {
      F got(100000);
      EXPECT_OK(receiver->transfer(false, got.data(), got.size() * 4));
      ASSERT_EQ(got, F(100000, float(i)));
    }
  });
  F source(100000);
  for (int i = 0; i < kCount; ++i) {
    source.assign(source.size(), float(i));
    EXPECT_OK(sender->transfer(true, source.data(), source.size() * 4));
  }
  other.join();
}

/// Who waits for an end that never comes is woken by an abort.
TEST_P(TransferTest, IsWokenByAnAbort) {
  for (bool sends : {false, true}) {
    auto end = connect(0, unsigned(sends));
    std::thread waiting([&] {
      Bytes data(1 << 20);
      EXPECT_FALSE(end->transfer(sends, data.data(), data.size()).ok());
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    fabrics[1]->abort(Status::error("no more"));
    waiting.join();
    inProcesses(2, [&](int64_t rank) {
      if (rank == 0 || fabrics[1] != fabrics[0]) {
        EXPECT_FALSE(fabrics[size_t(rank)]->reason().ok());
        EXPECT_OK(fabrics[size_t(rank)]->recover());
      }
    });
    // As new.
    auto other = connect(1, unsigned(sends));
    inProcesses(2, [&](int64_t rank) {
      Bytes data(4, uint8_t(rank));
      bool isSender = sends == (rank == 0);
      EXPECT_OK((rank == 0 ? end : other)->transfer(isSender, data.data(), 4));
      EXPECT_EQ(data, Bytes(4, uint8_t(sends ? 0 : 1)));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransferTest,
                         testing::Values("local"
#ifdef TANDEM_GLOO
                                         ,
                                         "gloo"
#endif
#ifdef TANDEM_CUDA
                                         ,
                                         "nccl"
#endif
                                         ),
                         [](const auto &info) { return info.param; });

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Three points: rows of x go from point 0 to 1 and from there to 2, where they
/// are y, and straight back to 0, where they are z. Point 1 has room for two.
struct Pipeline {
  static constexpr int64_t kData = 2, kRows = 4;

  explicit Pipeline(int64_t width) : width(width), bytes(4 * width) {
    to1 = b.addQueue(QueueRole::Communication, "0 to 1");
    to2 = b.addQueue(QueueRole::Communication, "1 to 2");
    to0 = b.addQueue(QueueRole::Communication, "2 to 0");
    Shape shape = {kData * kRows, width};
    Form whole{{DimForm{1, {1}}, DimForm{}}}, term = whole;
    term.reduce = {0};
    x = b.addArgument({"input", "x", ElementType::F32, shape, {}, whole});
    y = b.addResult({"output", "y", ElementType::F32, shape, {}, term});
    z = b.addResult({"output", "z", ElementType::F32, shape, {}, term});
    addFirst();
    addSecond();
    addThird();
    for (int64_t rank = 0; rank < 3 * kData; ++rank)
      b.setRankProgram(rank, uint32_t(rank / kData));
  }

  BufferRef row(BufferRef whole, int64_t row) const {
    return ProgramBuilder::slice(whole, row * bytes, bytes);
  }
  void send(uint32_t queue, int64_t from, int64_t to, int64_t tag,
            BufferRef source) {
    b.add({.name = "send", .queue = queue},
          Transfer{0, from, to, ElementType::F32, {width}, tag, source, {}});
  }
  void receive(uint32_t queue, int64_t from, int64_t to, int64_t tag,
               BufferRef destination) {
    b.add(
        {.name = "receive", .queue = queue},
        Transfer{0, from, to, ElementType::F32, {width}, tag, {}, destination});
  }
  void fill(uint32_t result) {
    b.add({.name = "zero"}, Fill{b.result(result), {0, 0, 0, 0}});
  }

  /// All points come to their ends if each runs its list in order.
  void addFirst() {
    fill(y);
    for (int64_t i = 0; i < kRows + 2; ++i) {
      if (i >= 2)
        receive(to0, 2, 0, kRows + i - 2, row(b.result(z), i - 2));
      if (i < kRows)
        send(to1, 0, 1, i, row(b.argument(x), i));
    }
  }

  void addSecond() {
    b.addRankProgram();
    b.setArena(3 * bytes);
    fill(y);
    fill(z);
    BufferRef sent = b.arena(2 * bytes, bytes);
    std::vector<uint32_t> copied, left;
    for (int64_t i = 0; i < kRows; ++i) {
      BufferRef slot = b.arena(i % 2 * bytes, bytes);
      if (i >= 2)
        b.waitEvent(to1, copied[size_t(i - 2)]);
      receive(to1, 0, 1, i, slot);
      b.waitEvent(0, b.recordEvent(to1));
      if (i > 0)
        b.waitEvent(0, left.back());
      b.add({.name = "copy"}, Copy{slot, sent});
      copied.push_back(b.recordEvent(0));
      b.waitEvent(to2, copied.back());
      send(to2, 1, 2, i, sent);
      left.push_back(b.recordEvent(to2));
    }
  }

  void addThird() {
    b.addRankProgram();
    fill(z);
    for (int64_t i = 0; i < kRows; ++i) {
      receive(to2, 1, 2, i, row(b.result(y), i));
      b.waitEvent(to0, b.recordEvent(to2));
      send(to0, 2, 0, kRows + i, row(b.result(y), i));
    }
  }

  void check(Session &session, unsigned seed) const {
    Shape shape = {kData * kRows, width};
    F values = randomValues<float>(kData * kRows * width, seed);
    set(session, "input", "x", tensorOf(shape, values));
    EXPECT_OK(session.step());
    EXPECT_EQ(valuesOf<float>(result(session, "output", "y")), values);
    EXPECT_EQ(valuesOf<float>(result(session, "output", "z")), values);
  }

  /// The transfers of a rank program, in its order.
  std::vector<Command *> transfers(size_t rankProgram) {
    std::vector<Command *> list;
    for (Command &command :
         b.mutableProgram().rankPrograms[rankProgram].commands)
      if (std::holds_alternative<Transfer>(command.operation))
        list.push_back(&command);
    return list;
  }
  Transfer &transfer(size_t rankProgram, size_t number) {
    return std::get<Transfer>(transfers(rankProgram)[number]->operation);
  }
  void expect(const std::string &text) {
    expectError(verifyProgram(b.get()), text);
  }

  int64_t width, bytes;
  ProgramBuilder b{{{"pipe", 3}, {"data", kData}}};
  uint32_t to1 = 0, to2 = 0, to0 = 0, x = 0, y = 0, z = 0;
};

TEST(TransferProgram, RunsOnThreads) {
  Watchdog watchdog(60);
  for (int64_t width : {5, 100000})
    for (bool oneQueue : {false, true}) {
      Pipeline p(width);
      auto session = start(p.b, {.oneQueue = oneQueue});
      ASSERT_TRUE(session);
      for (unsigned step = 0; step < 3; ++step)
        p.check(*session, step);
    }
}

#ifdef TANDEM_GLOO
/// Each process has three ranks, of two points.
TEST(TransferProgram, RunsInProcesses) {
  Watchdog watchdog(60);
  Controls controls = joinAll(2);
  Registry::get().fabrics.add("transfers",
                              {[] { return Status::success(); },
                               [&](const Job &job) {
                                 return createGlooFabric(
                                     controls[size_t(job.ranks.front() / 3)],
                                     job.ranks, job.worldSize);
                               }});
  for (int64_t width : {5, 100000}) {
    Pipeline p(width);
    inProcesses(2, [&](int64_t process) {
      int64_t first = 3 * process;
      auto session =
          start(p.b, {.job = {6, {first, first + 1, first + 2}, "transfers"}});
      ASSERT_TRUE(session);
      for (unsigned step = 0; step < 3; ++step)
        p.check(*session, step);
    });
  }
}
#endif

TEST(TransferProgram, IsOneOfTheFile) {
  Pipeline p(5);
  Expected<Bytes> bytes = p.b.finish();
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  Expected<Program> loaded = loadProgram(*bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::string text = printProgram(*loaded);
  EXPECT_EQ(text, printProgram(p.b.get()));
  EXPECT_NE(text.find("{pipe} 0 to 1 tag 0 f32[5] from argument[0]"),
            std::string::npos)
      << text;
}

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

TEST(TransferVerify, NamesATransferThatIsMissing) {
  Pipeline p(5);
  p.transfers(1).back()->operation = Copy{};
  p.expect("rank program 2 waits in transfer of command");
  p.expect("for rank program 1, which has come to its end");
}

/// Of one shape, between the same points.
TEST(TransferVerify, FindsTransfersThatAreSwapped) {
  Pipeline p(5);
  std::swap(p.transfers(0)[0]->operation, p.transfers(0)[1]->operation);
  p.expect("rank program 1 runs transfer of command 2 'receive', expected "
           "transfer of command 1 'send' as in rank program 0");
}

TEST(TransferVerify, FindsAWrongPeer) {
  Pipeline p(5);
  for (Command *command : p.transfers(0))
    if (auto &op = std::get<Transfer>(command->operation); op.from == 0)
      op.to = 2;
  p.expect("rank programs wait for each other in a circle: rank program 0 in "
           "transfer of command 1 'send'");
  Pipeline q(5);
  q.transfer(0, 0).to = 2;
  q.expect("is on queue '0 to 1' with what waits for other ranks, expected a "
           "queue of its own");
  Pipeline r(5);
  r.transfer(1, 0).to = 2;
  r.expect("transfer from point 0 to point 2 is listed at point 1, which is "
           "none of them");
  Pipeline s(5);
  s.transfer(0, 0).to = 3;
  s.expect("transfer from point 0 to point 3, expected two of the 3 points of "
           "axis 'pipe'");
}

TEST(TransferVerify, KnowsItsEnd) {
  Pipeline p(5);
  p.transfer(0, 0).destination = p.row(p.b.result(p.y), 0);
  p.expect("transfer's destination has 20 bytes, expected 0");
  Pipeline q(5);
  q.transfer(1, 0).destination.bytes = 16;
  q.expect("transfer's destination has 16 bytes, expected 20");
}

/// A receive is a write of its queue.
TEST(TransferVerify, OrdersBuffers) {
  Pipeline p(5);
  auto &commands = p.b.mutableProgram().rankPrograms[1].commands;
  auto isWait = [](const Command &command) {
    return std::holds_alternative<WaitEvent>(command.operation) &&
           command.queue == 1;
  };
  commands.erase(std::find_if(commands.begin(), commands.end(), isWait));
  p.expect("'receive' of rank 2 writes arena 0 [0, 20), which command");
}

/// Points that each send before they receive, with one queue for all.
TEST(TransferVerify, NamesCircles) {
  ProgramBuilder b({{"pipe", 2}});
  uint32_t up = b.addQueue(QueueRole::Communication, "0 to 1");
  uint32_t down = b.addQueue(QueueRole::Communication, "1 to 0");
  for (int64_t point : {0, 1}) {
    if (point)
      b.addRankProgram();
    b.setArena(32);
    b.setRankProgram(point, uint32_t(point));
    b.add({.name = "zero"}, Fill{b.arena(0, 32), {0}});
    uint32_t filled = b.recordEvent(0);
    for (uint32_t queue : {up, down})
      b.waitEvent(queue, filled);
    b.add({.name = "send", .queue = point ? down : up},
          Transfer{
              0, point, 1 - point, ElementType::F32, {4}, 0, b.arena(0, 16)});
    b.add({.name = "receive", .queue = point ? up : down},
          Transfer{0,
                   1 - point,
                   point,
                   ElementType::F32,
                   {4},
                   0,
                   {},
                   b.arena(16, 16)});
  }
  expectError(verifyProgram(b.get()),
              "rank programs wait for each other in a circle: rank program 0 "
              "in transfer of command 4 'send', rank program 1 in transfer of "
              "command 4 'send'");
}

} // namespace
} // namespace tandem::rt::cts
