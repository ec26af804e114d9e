//===- executor_test.cpp - conformance of executors -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/training_step.h"
#include "tandem_rt/recorder.h"

#include <chrono>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

namespace tandem::rt::cts {
namespace {

using F = std::vector<float>;

/// The same on one device, in double precision.
struct Expectation {
  double loss = 0;
  std::vector<double> w;
};

Expectation trainOneStep(const F &x, std::vector<double> w, double lr) {
  constexpr int64_t B = TrainingStep::kBatch, I = TrainingStep::kIn,
                    O = TrainingStep::kOut;
  std::vector<double> y(B * O), dw(I * O);
  Expectation e;
  for (int64_t r = 0; r < B; ++r)
    for (int64_t o = 0; o < O; ++o) {
      for (int64_t i = 0; i < I; ++i)
        y[r * O + o] += double(x[r * I + i]) * w[i * O + o];
      e.loss += y[r * O + o] * y[r * O + o] / 2;
    }
  for (int64_t r = 0; r < B; ++r)
    for (int64_t i = 0; i < I; ++i)
      for (int64_t o = 0; o < O; ++o)
        w[i * O + o] -= lr * double(x[r * I + i]) * y[r * O + o];
  e.w = std::move(w);
  return e;
}

class ExecutorTest : public testing::TestWithParam<int64_t> {
  Watchdog watchdog{60};
};

TEST_P(ExecutorTest, TrainsAsOneDeviceDoes) {
  TrainingStep model(GetParam());
  auto session = startTwin(model.b);
  ASSERT_TRUE(session);
  F w = randomValues<float>(12, 1);
  std::vector<double> expected(w.begin(), w.end());
  set(*session, "parameter", "w", tensorOf({4, 3}, w));
  set(*session, "learning_rate", "0", tensorOf<float>({}, {0.1f}));
  for (unsigned step = 0; step < 5; ++step) {
    F x = randomValues<float>(32, 10 + step);
    Tensor input = tensorOf({8, 4}, x);
    std::vector<TensorView> inputs = {input.view()};
    EXPECT_OK(session->step(inputs));
    Expectation e = trainOneStep(x, expected, 0.1f);
    expected = e.w;
    EXPECT_NEAR(valuesOf<float>(result(*session, "loss", "loss"))[0], e.loss,
                1e-5);
  }
  F trained = valuesOf<float>(argument(*session, "parameter", "w"));
  for (size_t i = 0; i < trained.size(); ++i)
    EXPECT_NEAR(trained[i], expected[i], 1e-5);
  EXPECT_EQ(valuesOf<int64_t>(argument(*session, "step", "step"))[0], 5);
}

TEST_P(ExecutorTest, RefusesALossThatIsNotFiniteAndGoesOn) {
  TrainingStep model(GetParam());
  auto session = startTwin(model.b);
  ASSERT_TRUE(session);
  F w = randomValues<float>(12, 1);
  set(*session, "parameter", "w", tensorOf({4, 3}, w));
  set(*session, "step", "step", tensorOf<int64_t>({}, {41}));
  F x = randomValues<float>(32, 2);
  Tensor good = tensorOf({8, 4}, x);
  x[5] = NAN;
  Tensor bad = tensorOf({8, 4}, x);
  std::vector<TensorView> inputs = {bad.view()};
  Status status = session->step(inputs);
  expectError(status, "loss is nan, expected a finite value");
  expectError(status, "step 42");
  EXPECT_TRUE(status.isRefusal());
  EXPECT_EQ(valuesOf<float>(argument(*session, "parameter", "w")), w);
  EXPECT_EQ(valuesOf<int64_t>(argument(*session, "step", "step"))[0], 41);
  inputs = {good.view()};
  EXPECT_OK(session->step(inputs));
  EXPECT_EQ(valuesOf<int64_t>(argument(*session, "step", "step"))[0], 42);
}

TEST_P(ExecutorTest, TellsWhatCommandsWrote) {
  int64_t ranks = GetParam();
  ProgramBuilder b({{"data", ranks}});
  uint32_t x = b.addArgument(
      {"input", "x", ElementType::F32, {ranks}, {}, split(1, 0, 0), -1, {}});
  uint32_t y = b.addResult({"output", "y", ElementType::F32, {}, {}, {}, {}});
  Collective sum{CollectiveKind::AllReduce,
                 {0},
                 ElementType::F32,
                 {1},
                 -1,
                 -1,
                 b.argument(x),
                 b.result(y)};
  b.add({.name = "sum", .location = "m.py:3", .origins = {{4, 1}}}, sum);
  SessionOptions options;
  options.recorder = std::make_shared<ValueRecorder>();
  auto session = startTwin(b, options);
  ASSERT_TRUE(session);
  set(*session, "input", "x", tensorOf({ranks}, F(size_t(ranks), 2)));
  EXPECT_OK(session->step());
  auto told = options.recorder->tensors();
  ASSERT_EQ(told.size(), size_t(ranks));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::string key =
        "00000000|4|0|0|1|command 0 'sum'||m.py:3||" + std::to_string(rank);
    ASSERT_TRUE(told.count(key)) << told.begin()->first;
    EXPECT_EQ(*static_cast<const float *>(told.at(key).data), 2.0f * ranks);
  }
  options.recorder->clear();
  EXPECT_TRUE(options.recorder->tensors().empty());
}

TEST_P(ExecutorTest, AnErrorOfOneRankStopsAll) {
  int64_t ranks = GetParam();
  ProgramBuilder b({{"data", ranks}});
  uint32_t code = b.addCodeObject("kernels", kernelImage());
  uint32_t x = b.addArgument(
      {"input", "x", ElementType::F32, {ranks}, {}, split(1, 0, 0), -1, {}});
  uint32_t y = b.addResult({"output", "y", ElementType::F32, {}, {}, {}, {}});
  b.setArena(4);
  b.add({.name = "lookup+add", .location = "model.py:8"},
        Launch{.codeObject = code,
               .symbol = "failAt",
               .inputs = {b.argument(x)},
               .outputs = {b.arena(0, 4)},
               .scalars = {ranks - 1},
               .sites = {"lookup (model.py:7)"}});
  b.add({.name = "sum"}, Collective{CollectiveKind::AllReduce,
                                    {0},
                                    ElementType::F32,
                                    {1},
                                    -1,
                                    -1,
                                    b.argument(x),
                                    b.result(y)});
  auto session = startTwin(b);
  ASSERT_TRUE(session);
  F values;
  for (int64_t rank = 0; rank < ranks; ++rank)
    values.push_back(float(rank));
  set(*session, "input", "x", tensorOf({ranks}, values));
  auto begin = std::chrono::steady_clock::now();
  Status status = session->step();
  auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took, std::chrono::seconds(30));
  expectError(status, "step 1, rank " + std::to_string(ranks - 1) +
                          ", command 0 'lookup+add' (model.py:8): lookup "
                          "(model.py:7): index 7 is out of range, expected 0 "
                          "to 3");
  EXPECT_FALSE(status.isRefusal());
  EXPECT_EQ(valuesOf<float>(argument(*session, "input", "x")), values);
  // Nothing was stored: the next step starts as new.
  values.assign(size_t(ranks), -1);
  set(*session, "input", "x", tensorOf({ranks}, values));
  EXPECT_OK(session->step());
  EXPECT_EQ(valuesOf<float>(result(*session, "output", "y"))[0], float(-ranks));
}

TEST_P(ExecutorTest, ScalarsAndOffsetsFollowTheCoordinate) {
  int64_t ranks = GetParam();
  ProgramBuilder b({{"data", ranks}});
  uint32_t code = b.addCodeObject("kernels", kernelImage());
  uint32_t x = b.addArgument(
      {"input", "x", ElementType::F32, {2 * ranks}, {}, {}, -1, {}});
  uint32_t y = b.addResult(
      {"output", "y", ElementType::F32, {2 * ranks}, {}, split(1, 0, 0), {}});
  BufferRef mine = b.argument(x);
  mine.offset = Affine(0, {{0, 8}});
  mine.bytes = 8;
  b.launch({.name = "local slice"}, code, "affine", {mine}, {b.result(y)},
           {2, 1, Affine(100, {{0, 10}})});
  auto session = startTwin(b);
  ASSERT_TRUE(session);
  F values, expected;
  for (int64_t i = 0; i < 2 * ranks; ++i) {
    values.push_back(float(i));
    expected.push_back(float(i + 100 + i / 2 * 10));
  }
  set(*session, "input", "x", tensorOf({2 * ranks}, values));
  EXPECT_OK(session->step());
  EXPECT_EQ(valuesOf<float>(result(*session, "output", "y")), expected);
}

TEST_P(ExecutorTest, CopiesAndFills) {
  ProgramBuilder b({{"data", GetParam()}});
  Bytes constant(12);
  float values[3] = {1, 2, 3};
  std::memcpy(constant.data(), values, 12);
  BufferRef c = b.addConstant(constant);
  uint32_t y = b.addResult({"output", "y", ElementType::F32, {5}, {}, {}, {}});
  b.add({.name = "copy"}, Copy{c, b.slice(b.result(y), 0, 12)});
  b.add({.name = "fill"},
        Fill{b.slice(b.result(y), 12, 8), {0, 0, 0x80, 0x3f}});
  auto session = startTwin(b);
  ASSERT_TRUE(session);
  EXPECT_OK(session->step());
  EXPECT_EQ(valuesOf<float>(result(*session, "output", "y")),
            (F{1, 2, 3, 1, 1}));
}

/// Every rank and queue runs its commands in their order, step after step, one
/// at a time; a wait ends after the event that it waits for was recorded.
void expectInOrder(const Session &session) {
  const std::vector<Command> &commands =
      session.program().rankPrograms[0].commands;
  std::map<std::pair<int64_t, uint32_t>, TraceEvent> last;
  std::map<std::tuple<int64_t, int64_t, uint32_t>, int64_t> recorded;
  for (const TraceEvent &event : session.trace().events)
    if (auto *op = std::get_if<RecordEvent>(&commands[event.command].operation))
      recorded[{event.rank, event.step, op->event}] = event.begin;
  for (const TraceEvent &event : session.trace().events) {
    const Command &command = commands[event.command];
    if (auto *op = std::get_if<WaitEvent>(&command.operation))
      EXPECT_GE(event.end, recorded.at({event.rank, event.step, op->event}));
    auto [place, isFirst] = last.insert({{event.rank, command.queue}, event});
    const TraceEvent before = std::exchange(place->second, event);
    if (isFirst)
      continue;
    EXPECT_GE(event.begin, before.end);
    EXPECT_GT(std::pair(event.step, event.command),
              std::pair(before.step, before.command));
  }
}

TEST_P(ExecutorTest, TracesEveryCommandOfEveryRank) {
  TrainingStep model(GetParam());
  auto session = startTwin(model.b, {.threads = 1, .trace = true});
  ASSERT_TRUE(session);
  EXPECT_OK(session->step());
  EXPECT_OK(session->step());
  const Program &program = session->plain().program();
  const Trace &trace = session->plain().trace();
  size_t commands = program.rankPrograms[0].commands.size();
  EXPECT_EQ(trace.events.size(), 2 * size_t(GetParam()) * commands);
  expectInOrder(session->plain());
  std::ostringstream text;
  writeTimeline({headOf(program, ""), trace.events}, text);
  std::string json = text.str();
  EXPECT_NE(json.find("\"all_reduce dw\""), std::string::npos);
  EXPECT_NE(json.find("\"source\":\"model.py:3\""), std::string::npos);
  session->plain().stopTrace();
  EXPECT_OK(session->step());
  EXPECT_EQ(session->plain().trace().events.size(),
            2 * size_t(GetParam()) * commands);
}

INSTANTIATE_TEST_SUITE_P(Cpu, ExecutorTest, testing::Values(1, 2, 4),
                         testing::PrintToStringParamName());

TEST(Session, SaysWhatIsWrongWithValues) {
  TrainingStep model(2);
  auto session = startTwin(model.b);
  ASSERT_TRUE(session);
  Tensor wrong(ElementType::F64, {8, 4});
  std::vector<TensorView> inputs = {wrong.view()};
  expectError(session->step(inputs),
              "argument 'input/x' is f64[8, 4], expected f32[8, 4]");
  inputs.clear();
  expectError(session->step(inputs), "step got 0 inputs, expected 1");
  EXPECT_EQ(session->plain().findArgument("input", "y"), -1);
}

TEST(Session, NamesMissingCpuFeatures) {
  TrainingStep model(1);
  model.b.setTarget({"x86_64-unknown-linux-gnu", "none", {"sse2", "warp9"}});
  Expected<Bytes> bytes = model.b.finish();
  ASSERT_TRUE(bytes.ok());
  expectError(Session::create(*bytes).status(),
              "program needs CPU features that this machine lacks: warp9");
}

TEST(Session, NamesWhatCodeObjectsLack) {
  ProgramBuilder b({});
  uint32_t good = b.addCodeObject("kernels", kernelImage());
  b.setArena(4);
  b.launch({.name = "x"}, good, "no_such_kernel", {}, {b.arena(0, 4)});
  Expected<Bytes> bytes = b.finish();
  ASSERT_TRUE(bytes.ok());
  expectError(Session::create(*bytes).status(),
              "code object 'kernels' has no symbol 'no_such_kernel'");
  ProgramBuilder c({});
  c.addCodeObject("broken", {1, 2, 3});
  bytes = c.finish();
  ASSERT_TRUE(bytes.ok());
  expectError(Session::create(*bytes).status(),
              "code object 'broken' does not load");
}

} // namespace
} // namespace tandem::rt::cts
