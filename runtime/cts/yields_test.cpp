//===- yields_test.cpp - sums behind transfers ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/local/communicator.h"
#include "core/registry.h"
#include "cts/sums.h"

#include <algorithm>
#include <map>
#include <thread>

namespace tandem::rt::cts {
namespace {
using namespace std::chrono_literals;

/// Takes time for what it moves, as a link does.
class SlowCommunicator final : public Communicator {
public:
  explicit SlowCommunicator(std::unique_ptr<Communicator> inner)
      : inner(std::move(inner)) {}
  Status run(const Collective &op, const void *source,
             void *destination) override {
    Status status = inner->run(op, source, destination);
    std::this_thread::sleep_for(2ms);
    return status;
  }
  Status transfer(bool sends, void *data, size_t bytes,
                  const std::function<void()> &moves) override {
    return inner->transfer(sends, data, bytes, [&] {
      if (moves)
        moves();
      std::this_thread::sleep_for(40ms);
    });
  }

private:
  const std::unique_ptr<Communicator> inner;
};

class SlowFabric final : public Fabric {
public:
  Expected<std::unique_ptr<Communicator>>
  connect(const std::vector<int64_t> &members, int64_t rank,
          unsigned channel) override {
    auto made = inner->connect(members, rank, channel);
    if (!made.ok())
      return made.status();
    return std::unique_ptr<Communicator>(
        std::make_unique<SlowCommunicator>(std::move(*made)));
  }
  Status move(int64_t from, std::optional<int64_t> to, void *data,
              size_t bytes) override {
    return inner->move(from, to, data, bytes);
  }
  Status agree(const std::string &what, const std::string &text) override {
    return inner->agree(what, text);
  }
  void abort(const Status &why) override { inner->abort(why); }
  Status conclude(const std::string &what, const Status &own) override {
    return inner->conclude(what, own);
  }
  void setStepping(bool stepping) override { inner->setStepping(stepping); }
  Status reason() const override { return inner->reason(); }
  bool isReasonKnown() const override { return inner->isReasonKnown(); }
  Status recover() override { return inner->recover(); }
  Expected<ClockReading> readClock() override { return inner->readClock(); }
  int64_t bytesSent() const override { return inner->bytesSent(); }

private:
  const std::shared_ptr<Fabric> inner = createLocalFabric();
};

constexpr int64_t kTransfers = 3, kPieces = 60;

ProgramBuilder makeProgram(bool yields) {
  return SumsBesideTransfers{.transfers = kTransfers,
                             .piecesBeside = kPieces,
                             .bothSum = true,
                             .yields = yields}
      .make();
}

/// The most pieces of a rank that end while one transfer moves.
int64_t countBeside(const ProgramBuilder &b) {
  Registry::get().fabrics.add("slow",
                              {[] { return Status::success(); },
                               [](const Job &) {
                                 return Expected<std::shared_ptr<Fabric>>(
                                     std::make_shared<SlowFabric>());
                               }});
  auto session = start(b, {.trace = true, .job = {4, {0, 1, 2, 3}, "slow"}});
  if (!session || !session->step().ok())
    return -1;
  TimelineHead head = headOf(b.get(), "");
  using Span = std::pair<int64_t, int64_t>;
  std::map<std::pair<int64_t, uint32_t>, Span> moving; // by sender
  std::map<int64_t, std::vector<int64_t>> ends;
  for (const TraceEvent &event : session->trace().events) {
    const TimelineCommand &command = head[event];
    if (command.name == "piece")
      ends[event.rank].push_back(event.end);
    if (!command.isTransfer())
      continue;
    auto [found, isNew] = moving.try_emplace({event.rank % 2, event.command},
                                             event.begin, event.end);
    Span &span = found->second;
    span = {std::max(span.first, event.begin),
            std::min(span.second, event.end)};
  }
  EXPECT_EQ(moving.size(), size_t(2 * kTransfers));
  int64_t most = 0;
  for (const auto &[key, span] : moving)
    for (const auto &[rank, all] : ends)
      most = std::max(most,
                      std::count_if(all.begin(), all.end(), [&](int64_t end) {
                        return end > span.first && end < span.second;
                      }));
  return most;
}

TEST(Yields, ATransferWaitsForOnePieceAtMost) {
  Watchdog watchdog(60);
  int64_t with = countBeside(makeProgram(true));
  EXPECT_GE(with, 0);
  EXPECT_LE(with, 1);
  // What the test would see otherwise.
  EXPECT_GT(countBeside(makeProgram(false)), 3);
}

TEST(Yields, IsOneOfTheFile) {
  ProgramBuilder b = makeProgram(true);
  Expected<Bytes> bytes = b.finish();
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  Expected<Program> loaded = loadProgram(*bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(loaded->queues[2].yields);
  EXPECT_NE(
      printProgram(*loaded).find("sums for communication, transfers first"),
      std::string::npos);
  b.mutableProgram().queues[0].yields = true;
  expectError(verifyProgram(b.get()),
              "queue 'compute' lets transfers go first, "
              "expected one that communicates");
}

} // namespace
} // namespace tandem::rt::cts
