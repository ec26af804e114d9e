//===- check_test.cpp - checks that refuse a step -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/stages.h"

#include <cmath>

namespace tandem::rt::cts {
namespace {

using F = std::vector<float>;
constexpr ElementType kF32 = ElementType::F32;

/// Each rank has four elements of x and one of `flags`; both are checked before
/// w becomes x.
struct Checked {
  explicit Checked(std::vector<Axis> mesh) : b(std::move(mesh)) {
    int64_t ranks = b.get().numRanks();
    std::vector<uint32_t> all;
    for (uint32_t axis = 0; axis < b.get().mesh.size(); ++axis)
      all.push_back(axis);
    Form split{{{1, all}}, {}};
    x = b.addArgument({"input", "x", kF32, {4 * ranks}, {}, split});
    flags =
        b.addArgument({"input", "flags", ElementType::I1, {ranks}, {}, split});
    w = b.addArgument({"parameter", "w", kF32, {4 * ranks}, {}, split});
    b.addUpdate(w);
    b.add({.name = "finite"},
          Check{CheckKind::Finite, kF32, b.argument(x), "x", all});
    b.add({.name = "truth"},
          Check{CheckKind::Truth, ElementType::I1, b.argument(flags),
                "labels are below 10", all});
    b.add({.name = "update"}, Copy{b.argument(x), b.argument(w)});
  }

  template <typename T> T &op(size_t index) {
    return std::get<T>(
        b.mutableProgram().rankPrograms[0].commands[index].operation);
  }
  void expect(const std::string &text) {
    expectError(verifyProgram(b.get()), text);
  }

  ProgramBuilder b;
  uint32_t x, flags, w;
};

class CheckTest : public testing::TestWithParam<std::vector<int64_t>> {
protected:
  void SetUp() override {
    std::vector<Axis> mesh;
    for (size_t axis = 0; axis < GetParam().size(); ++axis)
      mesh.push_back({"axis" + std::to_string(axis), GetParam()[axis]});
    program = std::make_unique<Checked>(mesh);
    ranks = program->b.get().numRanks();
    session = startTwin(program->b);
    ASSERT_TRUE(session);
    x.resize(size_t(4 * ranks), 1.5f);
  }

  Status step() {
    Tensor flagTensor(ElementType::I1, {ranks});
    flagTensor.data.assign(size_t(ranks), 1);
    if (untrue >= 0)
      flagTensor.data[size_t(untrue)] = 0;
    set(*session, "input", "flags", flagTensor);
    set(*session, "input", "x", tensorOf({4 * ranks}, x));
    return session->step();
  }
  F updated() { return valuesOf<float>(argument(*session, "parameter", "w")); }

  Watchdog watchdog{60};
  std::unique_ptr<Checked> program;
  std::unique_ptr<TwinSession> session;
  int64_t ranks = 0, untrue = -1;
  F x;
};

TEST_P(CheckTest, OneRankThatRefusesStopsAllBeforeTheFirstWrite) {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    x[size_t(4 * rank + 3)] = rank % 2 ? NAN : -INFINITY;
    Status status = step();
    expectError(status, rank % 2 ? "command 0 'finite': x is nan, expected a "
                                   "finite value"
                                 : "command 0 'finite': x is inf, expected a "
                                   "finite value");
    EXPECT_EQ(status.kind(), ErrorKind::NotFinite);
    EXPECT_EQ(updated(), F(size_t(4 * ranks), 0.0f));
    x[size_t(4 * rank + 3)] = 1.5f;
    untrue = rank;
    status = step();
    expectError(status, "step 1, command 1 'truth': labels are below 10");
    EXPECT_EQ(status.kind(), ErrorKind::NotTrue);
    EXPECT_EQ(updated(), F(size_t(4 * ranks), 0.0f));
    untrue = -1;
  }
  EXPECT_OK(step());
  EXPECT_EQ(updated(), x);
}

/// The lowest rank of those that refuse gives the error, each time anew.
TEST_P(CheckTest, AllSayTheSame) {
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = i < 4 ? -INFINITY : NAN;
  for (int round = 0; round < 20; ++round)
    expectError(step(), "step 1, command 0 'finite': x is inf");
}

INSTANTIATE_TEST_SUITE_P(Cpu, CheckTest,
                         testing::Values(std::vector<int64_t>{},
                                         std::vector<int64_t>{1},
                                         std::vector<int64_t>{4},
                                         std::vector<int64_t>{2, 2},
                                         std::vector<int64_t>{2, 1, 3}));

/// Each type, each value that is not finite, at the first and the last element.
TEST(Check, FindsWhatIsNotFinite) {
  for (ElementType type :
       {ElementType::F64, ElementType::F32, ElementType::BF16})
    for (int64_t at : {int64_t(0), int64_t(6)})
      for (double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
        ProgramBuilder b({});
        uint32_t x = b.addArgument({"input", "x", type, {7}});
        b.add({.name = "check"},
              Check{CheckKind::Finite, type, b.argument(x), "value", {}});
        auto session = startTwin(b);
        ASSERT_TRUE(session);
        Tensor value(type, {7});
        for (int64_t i = 0; i < 7; ++i)
          storeNumber(type, value.data.data(), i, 3e38);
        set(*session, "input", "x", value);
        EXPECT_OK(session->step());
        storeNumber(type, value.data.data(), at, bad);
        set(*session, "input", "x", value);
        EXPECT_EQ(session->step().kind(), ErrorKind::NotFinite);
      }
}

/// A guard of each microbatch: the third one's is not met.
TEST(Check, StandsInARepeat) {
  ProgramBuilder b({{"data", 2}});
  Form split{{{1, {0}}}, {}};
  uint32_t flags =
      b.addArgument({"input", "flags", ElementType::I1, {8}, {}, split});
  uint32_t step = b.addArgument({"step", "step", ElementType::I64, {}, {}, {}});
  b.addUpdate(step);
  uint32_t code = b.addCodeObject("kernels", kernelImage());
  BufferRef flag = b.slice(b.argument(flags), 0, 1);
  flag.offset.perIteration = 1;
  b.beginRepeat({.name = "microbatches"}, 4);
  b.add({.name = "guard"},
        Check{CheckKind::Truth, ElementType::I1, flag, "mask is full", {0}});
  b.endRepeat();
  b.launch({.name = "count"}, code, "increment", {b.argument(step)},
           {b.argument(step)});
  auto session = startTwin(b);
  ASSERT_TRUE(session);
  Tensor value(ElementType::I1, {8});
  value.data.assign(8, 1);
  value.data[6] = 0; // rank 1, iteration 2
  set(*session, "input", "flags", value);
  Status status = session->step();
  expectError(status, "step 1, command 1 'guard': mask is full");
  EXPECT_EQ(status.kind(), ErrorKind::NotTrue);
  EXPECT_EQ(valuesOf<int64_t>(argument(*session, "step", "step"))[0], 0);
  value.data[6] = 1;
  set(*session, "input", "flags", value);
  EXPECT_OK(session->step());
  EXPECT_EQ(valuesOf<int64_t>(argument(*session, "step", "step"))[0], 1);
}

TEST(CheckVerify, Operands) {
  Checked p({{"data", 2}});
  p.op<Check>(0).type = ElementType::I64;
  p.expect("command 0 'finite' of rank 0: check of i64, expected f64, f32 or "
           "bf16");
  Checked q({{"data", 2}});
  q.op<Check>(1).type = kF32;
  q.expect("command 1 'truth' of rank 0: check of f32, expected i1");
  Checked r({{"data", 2}});
  r.op<Check>(0).source->bytes = 6;
  r.expect("check of 6 bytes of f32");
  Checked s({{"data", 2}});
  s.op<Check>(0).axes = {3};
  s.expect("a group names axis 3 of a mesh with 1 axes");
  Checked t({{"data", 2}, {"model", 2}});
  t.op<Check>(0).axes = {1, 0};
  t.expect("axes of a group are not a set in mesh order");
}

TEST(CheckVerify, ComesBeforeUpdates) {
  Checked p({{"data", 2}});
  auto &commands = p.b.mutableProgram().rankPrograms[0].commands;
  std::swap(commands[1], commands[2]);
  p.expect("command 2 'update' of rank 0 writes argument 'parameter/w' [0, 16) "
           "before command 1 'truth' has checked the step");
  // On another queue, without an event.
  Checked q({{"data", 2}});
  addCommQueue(q.b);
  q.b.mutableProgram().rankPrograms[0].commands[1].queue = kComm;
  q.expect("command 2 'update' of rank 0 writes argument 'parameter/w' [0, 16) "
           "before command 1 'truth' has checked the step");
}

/// The first iteration would write before the second has checked.
TEST(CheckVerify, ComesBeforeUpdatesInAllIterations) {
  Checked p({{"data", 2}});
  auto &commands = p.b.mutableProgram().rankPrograms[0].commands;
  Command repeat{.id = 100, .name = "repeat", .operation = Repeat(2)};
  std::get<Repeat>(repeat.operation).body = commands;
  commands = {repeat};
  p.expect("command 2 'update' of rank 0 writes argument 'parameter/w' [0, 16) "
           "before command 0 'finite' has checked the step");
  std::get<Repeat>(commands[0].operation).count = 1;
  EXPECT_OK(verifyProgram(p.b.get()));
}

TEST(CheckVerify, AgreesBetweenRanks) {
  Checked p({{"data", 2}});
  Program &program = p.b.mutableProgram();
  program.rankPrograms.push_back(program.rankPrograms[0]);
  program.rankToProgram = {0, 1};
  EXPECT_OK(verifyProgram(program));
  std::swap(program.rankPrograms[1].commands[0],
            program.rankPrograms[1].commands[1]);
  p.expect("rank program 1 runs check_truth of command 1 'truth', expected "
           "check_finite of command 0 'finite' as in rank program 0");
}

/// Point 0 has no loss, and learns of that of point 1 before it updates.
TEST(CheckStages, ReachAllPoints) {
  Watchdog watchdog(60);
  Stages p;
  auto session = startTwin(p.b);
  ASSERT_TRUE(session);
  F good = p.randomInput(1), bad = p.randomInput(2);
  set(*session, "input", "x", p.input(good));
  EXPECT_OK(session->step());
  bad.back() = NAN; // of the second rank of point 1
  set(*session, "input", "x", p.input(bad));
  Status status = session->step();
  expectError(status, "step 2, command");
  expectError(status, "'loss': loss is nan, expected a finite value");
  EXPECT_EQ(status.kind(), ErrorKind::NotFinite);
  for (const char *name : {"first", "second"})
    EXPECT_EQ(valuesOf<float>(argument(*session, "parameter", name)),
              p.updated(good, name[0] == 'f' ? p.kRows - 1 : 0));
}

TEST(CheckStages, VerdictsMissNoPoint) {
  Stages p;
  for (size_t i = 0; i < 2; ++i)
    p.check(i).axes = {1};
  expectError(verifyProgram(p.b.get()),
              "does not reach rank program 1, expected a group that has ranks "
              "of all rank programs");
  Stages q;
  q.check(1).source.reset();
  expectError(verifyProgram(q.b.get()),
              "'loss' has no source on any rank of its group, expected one "
              "that has the value");
  Stages r;
  std::erase_if(r.b.mutableProgram().rankPrograms[0].commands,
                [](const Command &command) { return command.name == "loss"; });
  expectError(verifyProgram(r.b.get()),
              "rank program 1 waits in check_finite of command");
  Stages s;
  auto &commands = s.b.mutableProgram().rankPrograms[0].commands;
  std::swap(commands.end()[-1], commands.end()[-2]);
  expectError(verifyProgram(s.b.get()),
              "of rank 0 writes argument 'parameter/first' [0, 24) before");
  // A value that all have, which no group has to combine, is combined too.
  Stages t;
  for (size_t i = 0; i < 2; ++i)
    t.check(i).axes = {};
  expectError(verifyProgram(t.b.get()), "does not reach rank program 1");
}

TEST(CheckStages, AreThoseOfTheFile) {
  Stages p;
  Expected<Bytes> bytes = p.b.finish();
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  Expected<Program> loaded = loadProgram(*bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::string text = printProgram(*loaded);
  EXPECT_EQ(text, printProgram(p.b.get()));
  EXPECT_NE(text.find("{pipe,data} loss f32 of other ranks"), text.npos)
      << text;
  EXPECT_NE(text.find("form data: gather(0), pipe: at(1)"), text.npos) << text;
}

} // namespace
} // namespace tandem::rt::cts
