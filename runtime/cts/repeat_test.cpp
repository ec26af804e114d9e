//===- repeat_test.cpp - Repeat commands ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"

#include <map>
#include <sstream>

namespace tandem::rt::cts {
namespace {

using F = std::vector<float>;
constexpr int64_t kRow = 4, kRowBytes = 16;
constexpr ElementType kF32 = ElementType::F32;

/// Row `iteration` of a buffer.
BufferRef rowOf(BufferRef whole) {
  whole.offset.perIteration = kRowBytes;
  whole.bytes = kRowBytes;
  return whole;
}

Collective allReduce(std::vector<uint32_t> axes, BufferRef from, BufferRef to) {
  return {CollectiveKind::AllReduce,
          std::move(axes),
          kF32,
          {kRow},
          -1,
          -1,
          from,
          to};
}

/// Per iteration: y = 2·x[i] + i, summed over the ranks by the other queue,
/// kept as row i of `rows`, and added to `sum`.
struct Accumulation {
  Accumulation(int64_t ranks, int64_t count) : b({{"data", ranks}}) {
    addCommQueue(b);
    uint32_t code = b.addCodeObject("kernels", kernelImage());
    x = b.addArgument({"input", "x", kF32, {count, kRow}});
    rows = b.addResult({"output", "rows", kF32, {count, kRow}});
    sum = b.addResult({"output", "sum", kF32, {kRow}});
    b.setArena(256);
    own = b.arena(0, kRowBytes), all = b.arena(64, kRowBytes);
    BufferRef total = b.arena(128, kRowBytes);
    b.add({.name = "zero"}, Fill{total, {0}});
    repeat = b.beginRepeat({.name = "microbatches"}, count);
    b.launch({.name = "forward"}, code, "affine", {rowOf(b.argument(x))}, {own},
             {kRow, 2, Affine::moving(0, 1)});
    produced = b.recordEvent(kCompute);
    b.waitEvent(kComm, produced);
    b.add({.name = "reduce", .queue = kComm}, allReduce({0}, own, all));
    reduced = b.recordEvent(kComm);
    b.waitEvent(kCompute, reduced);
    b.add({.name = "keep"}, Copy{all, rowOf(b.result(rows))});
    b.launch({.name = "accumulate"}, code, "add", {all, total}, {total},
             {kRow});
    b.endRepeat();
    b.add({.name = "copy"}, Copy{total, b.result(sum)});
  }

  std::vector<Command> &commands() {
    return b.mutableProgram().rankPrograms[0].commands;
  }
  Repeat &op() { return std::get<Repeat>(commands()[1].operation); }
  template <typename T> T &inBody(size_t index) {
    return std::get<T>(op().body[index].operation);
  }
  void erase(size_t index) {
    op().body.erase(op().body.begin() + int64_t(index));
  }
  void expect(const std::string &text) {
    expectError(verifyProgram(b.get()), text);
  }

  ProgramBuilder b;
  uint32_t x, rows, sum, repeat, produced, reduced;
  BufferRef own, all;
};

constexpr size_t kForward = 0, kProduced = 1, kWaitProduced = 2, kReduce = 3,
                 kReduced = 4, kWaitReduced = 5, kKeep = 6, kAccumulate = 7;

class RepeatTest : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {
protected:
  int64_t ranks() const { return std::get<0>(GetParam()); }
  int64_t count() const { return std::get<1>(GetParam()); }
  Watchdog watchdog{60};
};

TEST_P(RepeatTest, AccumulatesWhatTwoQueuesDo) {
  Accumulation p(ranks(), count());
  auto session = startTwin(p.b);
  ASSERT_TRUE(session);
  F x = randomValues<float>(count() * kRow, 3), rows, sum(kRow);
  for (int64_t i = 0; i < count() * kRow; ++i) {
    float y = 2 * x[size_t(i)] + float(i / kRow);
    rows.push_back(y);
    for (int64_t rank = 1; rank < ranks(); ++rank)
      rows.back() += y;
    sum[size_t(i % kRow)] += rows.back();
  }
  set(*session, "input", "x", tensorOf({count(), kRow}, x));
  for (int step = 0; step < 2; ++step) {
    EXPECT_OK(session->step());
    EXPECT_EQ(valuesOf<float>(result(*session, "output", "rows")), rows);
    EXPECT_EQ(valuesOf<float>(result(*session, "output", "sum")), sum);
  }
}

TEST_P(RepeatTest, TracesEveryIteration) {
  Accumulation p(ranks(), count());
  auto session = startTwin(p.b, {.threads = 1, .trace = true});
  ASSERT_TRUE(session);
  EXPECT_OK(session->step());
  const Program &program = session->plain().program();
  auto listing = program.rankPrograms[0].listing();
  std::map<std::tuple<int64_t, std::string, int64_t>, int> seen;
  for (const TraceEvent &event : session->plain().trace().events)
    ++seen[{event.rank, listing[event.command]->name, event.iteration}];
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ((seen[{rank, "zero", 0}]), 1);
    EXPECT_EQ((seen[{rank, "copy", 0}]), 1);
    for (int64_t i = 0; i < count(); ++i)
      for (const char *name : {"forward", "reduce", "accumulate"})
        EXPECT_EQ((seen[{rank, name, i}]), 1) << name << " in iteration " << i;
  }
  std::ostringstream text;
  writeTimeline({headOf(program, ""), session->plain().trace().events}, text);
  std::string json = text.str();
  std::string last = "\"iteration\":" + std::to_string(count() - 1);
  EXPECT_NE(json.find(last), std::string::npos);
}

/// dw += x[i]ᵀ·y[i], by the product itself, in every type that it has.
TEST_P(RepeatTest, ProductsAccumulate) {
  using Types = std::pair<ElementType, ElementType>;
  for (auto [in, out] : {Types{kF32, kF32}, Types{ElementType::BF16, kF32},
                         Types{ElementType::BF16, ElementType::BF16},
                         Types{ElementType::F64, ElementType::F64}}) {
    ProgramBuilder b({{"data", ranks()}});
    int64_t m = 3, n = 5, k = 4, width = elementBytes(in);
    Form split{{{1, {0}}, {}, {}}, {}};
    auto add = [&](const char *name, int64_t columns) {
      return b.addArgument(
          {"input", name, in, {count() * ranks(), k, columns}, {}, split});
    };
    uint32_t x = add("x", m), y = add("y", n);
    uint32_t dw =
        b.addResult({"gradient", "w", out, {m, n}, {}, Form{{{}, {}}, {0}}});
    Gemm gemm = contiguousGemm(in, m, n, k);
    gemm.outputType = out;
    gemm.stridesA = {1, m};
    gemm.accumulate = true;
    auto slice = [&](uint32_t argument, int64_t columns) {
      BufferRef ref = b.argument(argument);
      ref.bytes = ref.offset.perIteration = k * columns * width;
      return ref;
    };
    gemm.a = slice(x, m), gemm.b = slice(y, n), gemm.c = b.result(dw);
    b.add({.name = "zero"}, Fill{gemm.c, {0}});
    b.setArena(4096);
    b.beginRepeat({.name = "microbatches"}, count());
    b.add({.name = "x^T @ y", .workspace = b.arena(0, 4096)}, gemm);
    b.endRepeat();
    auto session = startTwin(b); // which compares with three loops
    ASSERT_TRUE(session);
    for (auto [name, columns] : {std::pair{"x", m}, std::pair{"y", n}}) {
      Tensor value(in, {count() * ranks(), k, columns});
      auto numbers = randomValues<double>(numElements(value.shape), 5);
      for (size_t i = 0; i < numbers.size(); ++i)
        storeNumber(in, value.data.data(), int64_t(i), numbers[i]);
      set(*session, "input", name, value);
    }
    EXPECT_OK(session->step());
    Tensor found = result(*session, "gradient", "w");
    EXPECT_NE(loadNumber(out, found.data.data(), 0), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, RepeatTest,
                         testing::Combine(testing::Values(1, 2, 4),
                                          testing::Values(1, 3, 8)));

/// Iterations run ahead of each other only as far as events let them.
TEST(Repeat, EventsTellIterationsApart) {
  constexpr int64_t kCount = 200;
  Accumulation p(2, kCount);
  auto session = startTwin(p.b);
  ASSERT_TRUE(session);
  set(*session, "input", "x",
      tensorOf({kCount, kRow}, randomValues<float>(kCount * kRow, 1)));
  EXPECT_OK(session->step());
}

TEST(Repeat, IsListed) {
  Accumulation p(2, 3);
  std::string text = printProgram(p.b.get());
  for (const char *line :
       {"1 repeat 'microbatches' stage 0 strand 0 3 times\n    2 compute "
        "launch",
        "argument[0][0 + 16*iteration, +16]", "(4, 2, 0 + 1*iteration)",
        "    5 comm all_reduce 'reduce'", "\n  10 compute copy 'copy'"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(RepeatVerify, AcceptsAnAccumulation) {
  for (int64_t count : {int64_t(1), int64_t(2), int64_t(5), int64_t(1) << 20})
    EXPECT_OK(verifyProgram(Accumulation(2, count).b.get()));
}

TEST(RepeatVerify, HazardsInOneIteration) {
  Accumulation p(1, 3);
  p.erase(kWaitReduced);
  p.expect("command 8 'keep' of rank 0 reads arena 0 [64, 80), which command 5 "
           "'reduce' writes on queue 'comm', with no event between them");
}

TEST(RepeatVerify, HazardsFromOneIterationToTheNext) {
  // What the other queue reads is waited for only where it is used.
  Accumulation p(1, 3);
  auto &body = p.op().body;
  body.erase(body.begin() + kReduced, body.end());
  p.commands().erase(p.commands().begin() + 2);
  p.b.mutableProgram().results.clear();
  p.expect(
      "command 2 'forward' of rank 0 writes arena 0 [0, 16), which command "
      "5 'reduce' reads on queue 'comm' in the iteration before, with no "
      "event between them");
  p.op().count = 1;
  EXPECT_OK(verifyProgram(p.b.get()));
}

TEST(RepeatVerify, ReadsBeforeWrites) {
  // Written at the end of an iteration, read at the begin of the next.
  Accumulation p(1, 3);
  p.inBody<Launch>(kForward).inputs = {p.b.arena(192, kRowBytes)};
  Command late = p.op().body[kKeep];
  late.id = 100;
  std::get<Copy>(late.operation).destination = p.b.arena(192, kRowBytes);
  p.op().body.push_back(late);
  p.expect("command 2 'forward' of rank 0 reads arena 0 [192, 208), which "
           "nothing wrote before");
  Accumulation q(1, 3);
  q.commands().erase(q.commands().begin());
  std::get<Repeat>(q.commands()[0].operation).body[kAccumulate].id = 100;
  q.expect("command 100 'accumulate' of rank 0 reads arena 0 [128, 144)");
}

TEST(RepeatVerify, EventsBelongToOneIteration) {
  Accumulation p(1, 3);
  Command wait = p.op().body[kWaitReduced];
  wait.id = 100;
  p.commands().push_back(wait);
  p.expect("command 100 'event 1' of rank 0 waits for event 1, which command 6 "
           "'event 1' records in command 1 'microbatches': an event belongs to "
           "one iteration");
  Accumulation q(1, 3);
  Command record = q.op().body[kReduced];
  q.erase(kReduced);
  q.commands().insert(q.commands().begin(), record);
  expectError(verifyProgram(q.b.get()),
              "waits for event 1, which command 6 'event 1' records outside of "
              "command 1 'microbatches'");
  Accumulation r(1, 3);
  std::swap(r.op().body[kProduced], r.op().body[kWaitProduced]);
  r.expect("waits for event 0, which nothing recorded before");
  Accumulation s(1, 3);
  record.id = 100;
  s.op().body.push_back(record);
  s.expect("records event 1 a second time");
}

TEST(RepeatVerify, Bodies) {
  Accumulation p(1, 3);
  p.op().count = 0;
  p.expect("command 1 'microbatches' of rank 0: repeats 0 times, expected 1 to "
           "1048576");
  p.op().count = int64_t(1) << 40;
  p.expect("repeats 1099511627776 times");
  Accumulation q(1, 3);
  q.op().body.clear();
  q.expect("repeat has no body");
  Accumulation r(1, 3);
  Command inner = r.commands()[1];
  inner.id = 100;
  r.op().body.push_back(inner);
  r.expect("command 100 'microbatches' of rank 0: repeat within a repeat: "
           "repeats do not nest");
  Accumulation s(1, 3);
  s.commands()[1].queue = kComm;
  s.expect("is on queue 1, expected 0: a repeat is on the queues of its body");
  Accumulation t(1, 3);
  t.op().body[kKeep].id = 0;
  t.expect("command 0 'keep' of rank 0: id is taken by another command");
}

TEST(RepeatVerify, BuffersInEveryIteration) {
  Accumulation p(1, 3);
  p.inBody<Copy>(kKeep).destination.offset.perIteration = 17;
  p.expect(
      "command 8 'keep' of rank 0: buffer is result 'output/rows' [34, 50) "
      "in iteration 2, expected to lie within 48 bytes");
  p.inBody<Copy>(kKeep).destination.offset.perIteration = int64_t(1) << 62;
  p.expect("is too large for 64 bits");
  Accumulation q(1, 3);
  std::get<Copy>(q.commands()[2].operation).source.offset.perIteration = 4;
  q.expect("moves by 4 per iteration outside of a repeat");
}

TEST(RepeatVerify, WhatMovesAndIsWrittenBelongsToOneIteration) {
  // Two rows are written, one is moved on.
  Accumulation p(1, 3);
  p.op().count = 2;
  auto &keep = p.inBody<Copy>(kKeep);
  keep.source = p.b.arena(64, kRowBytes - 4);
  keep.destination.bytes = kRowBytes - 4;
  Command second = p.op().body[kKeep];
  second.id = 100;
  std::get<Copy>(second.operation).destination.offset.base = kRowBytes - 2;
  p.op().body.push_back(second);
  p.expect("command 8 'keep' of rank 0 writes result 'output/rows' [0, 12), "
           "which moves by 16 bytes per iteration of command 1 'microbatches', "
           "and command 100 'keep' writes result 'output/rows' [14, 26)");
  Accumulation q(1, 3);
  Command whole = q.op().body[kKeep];
  whole.id = 100;
  whole.operation = Fill{q.b.result(q.rows), {0}};
  q.op().body.push_back(whole);
  q.expect("command 8 'keep' of rank 0 writes result 'output/rows' [0, 16), "
           "which moves by 16 bytes per iteration of command 1 'microbatches', "
           "and command 100 'keep' writes result 'output/rows' [0, 48): bytes "
           "that move and are written belong to one iteration");
}

/// Only two of three rows.
TEST(RepeatVerify, ResultsAreWrittenInAllIterations) {
  Accumulation p(1, 3);
  p.op().count = 2;
  p.expect("result 'output/rows' of rank 0 is not written from byte 32 of 48");
  Accumulation q(1, 3);
  q.inBody<Copy>(kKeep).source.bytes = 12;
  q.inBody<Copy>(kKeep).destination.bytes = 12;
  q.expect("result 'output/rows' of rank 0 is not written from byte 12 of 48");
}

/// A slice that was written moves with the one that reads it; what reads all of
/// it comes behind.
TEST(RepeatVerify, SlicesArePassedBetweenQueues) {
  ProgramBuilder b({});
  addCommQueue(b);
  uint32_t x = b.addArgument({"input", "x", kF32, {kRow}});
  uint32_t y = b.addResult({"output", "y", kF32, {3, kRow}});
  b.setArena(3 * 64);
  BufferRef slot = b.arena(Affine::moving(0, 64), kRowBytes);
  b.beginRepeat({.name = "slices"}, 3);
  b.add({.name = "write"}, Copy{b.argument(x), slot});
  uint32_t written = b.recordEvent(kCompute);
  b.waitEvent(kComm, written);
  b.add({.name = "read", .queue = kComm}, Copy{slot, rowOf(b.result(y))});
  b.endRepeat();
  EXPECT_OK(verifyProgram(b.get())); // the writer need not wait for the reader
  auto session = startTwin(b);
  ASSERT_TRUE(session);
  set(*session, "input", "x", tensorOf<float>({kRow}, {1, 2, 3, 4}));
  EXPECT_OK(session->step());
  Program &program = b.mutableProgram();
  auto &body =
      std::get<Repeat>(program.rankPrograms[0].commands[0].operation).body;
  body.erase(body.begin() + 2);
  expectError(verifyProgram(program),
              "'read' of rank 0 reads arena 0 [0, 16), which command 1 'write' "
              "writes on queue 'compute', with no event between them");
}

TEST(RepeatVerify, CollectivesAgreeBetweenRanks) {
  Accumulation p(2, 3);
  Program &program = p.b.mutableProgram();
  program.rankPrograms.push_back(program.rankPrograms[0]);
  program.rankToProgram = {0, 1};
  EXPECT_OK(verifyProgram(program));
  auto &other = std::get<Repeat>(program.rankPrograms[1].commands[1].operation);
  other.count = 2;
  p.expect("rank program 1 runs repeat of command 1 'microbatches', expected "
           "repeat of command 1 'microbatches' as in rank program 0");
  other.count = 3;
  other.body[kReduce].operation = Copy{p.own, p.all};
  p.expect("rank program 0 waits in repeat of command 1 'microbatches' for "
           "rank program 1, which has come to its end");
}

} // namespace
} // namespace tandem::rt::cts
