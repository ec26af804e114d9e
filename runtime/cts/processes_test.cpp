//===- processes_test.cpp - processes and their ends ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/children.h"
#include "cts/stages.h"
#include "tandem_rt/safetensors.h"

namespace tandem::rt::cts {
namespace {

TEST_F(ProcessesTest, TrainAndSaveAsOneProcessDoes) {
  Tensor w = tensorOf<float>({4}, {1, 2, 3, 4}),
         lr = tensorOf<float>({}, {.5f});
  Tensor step = tensorOf<int64_t>({}, {0}),
         x = tensorOf<float>({4}, {1, 2, 3, 4});
  EXPECT_OK(
      writeSafetensors(at("d.safetensors"), {{"parameter/w", w.view()},
                                             {"learning_rate/0", lr.view()},
                                             {"step/step", step.view()},
                                             {"batch.0/x", x.view()}}));
  auto read = [&](const std::string &name) {
    std::ifstream file(at(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (int64_t ranks : {2, 4}) {
    std::vector<std::string> run = {at("p" + std::to_string(ranks)),
                                    "--data",
                                    at("d.safetensors"),
                                    "--steps=5",
                                    "--save",
                                    at("one")};
    Child alone({}, run);
    ASSERT_EQ(alone.finish(30s), 0) << alone.getText();
    run.back() = at("several");
    std::vector<Child> children = startAll(processesFor(ranks), run);
    for (Child &child : children)
      EXPECT_EQ(child.finish(30s), 0) << child.getText();
    EXPECT_EQ(children[0].getText(), alone.getText());
    for (size_t other = 1; other < children.size(); ++other)
      EXPECT_EQ(children[other].getText(), "");
    EXPECT_EQ(read("several"), read("one"));
  }
}

/// Which one dies, and what the others say of it.
TEST_F(ProcessesTest, AKilledProcessIsTheErrorOfAllOthers) {
  size_t processes = isJoint() ? 2 : 4;
  for (size_t victim : {1, 2, 0}) {
    if (victim >= processes)
      continue;
    std::vector<Child> children =
        startAll(int64_t(processes), {at("p4"), "--steps=1000000000"});
    children[0].readUntil("step 20 ");
    auto begin = Clock::now();
    children[victim].signal(SIGKILL);
    std::string first;
    for (size_t process = 0; process < processes; ++process) {
      if (process == victim)
        continue;
      std::string error = errorOfEnd(children[process]);
      EXPECT_EQ(error.find("process " + std::to_string(victim) + " ("), 0u)
          << error;
      EXPECT_NE(error.find("ended without a word"), std::string::npos) << error;
      if (first.empty())
        first = error;
      if (victim != 0) // who keeps the connection tells all the same
        EXPECT_EQ(error, first);
    }
    EXPECT_LT(Clock::now() - begin, 20s);
  }
}

TEST_F(ProcessesTest, AProcessThatStandsStillIsFound) {
  timeout = "3";
  std::vector<Child> children = startAll(2, {at("p2"), "--steps=1000000000"});
  children[0].readUntil("step 20 ");
  auto begin = Clock::now();
  children[1].signal(SIGSTOP);
  std::string error = errorOfEnd(children[0]);
  EXPECT_NE(error.find("has not been heard of for 2000 ms"), std::string::npos)
      << error;
  EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
  EXPECT_LT(Clock::now() - begin, 20s);
}

TEST_F(ProcessesTest, OtherProgramsAreRefusedBeforeTheFirstStep) {
  ProgramBuilder other = smallStep(2);
  other.addConstant({1, 2, 3, 4});
  write("other", *other.finish());
  Child first = start(0, 2, {at("p2")}), second = start(1, 2, {at("other")});
  std::string error = errorOfEnd(first);
  EXPECT_EQ(error.find("process 1 has program "), 0u) << error;
  EXPECT_EQ(errorOfEnd(second), error);
}

TEST_F(ProcessesTest, AProcessThatNeverComesIsFound) {
  timeout = "3";
  Child first = start(0, 3, {at("p2")}), third = start(2, 3, {at("p2")});
  auto begin = Clock::now();
  // 2 ranks for 3 processes are found before they meet.
  EXPECT_NE(errorOfEnd(first).find("expected a multiple of the 3 processes"),
            std::string::npos);
  Child alone = start(0, 2, {at("p2")});
  EXPECT_NE(errorOfEnd(alone).find(
                "1 of 2 processes came within 3000 ms, missing: 1"),
            std::string::npos);
  EXPECT_LT(Clock::now() - begin, 20s);
}

TEST_F(ProcessesTest, HaveOneTimeline) {
  for (Child &child :
       startAll(2, {at("p4"), "--steps=3", "--trace", at("t.json")})) {
    EXPECT_EQ(child.finish(30s), 0) << child.getText();
    bool isFirst = child.getText().find("step 1") != std::string::npos;
    EXPECT_EQ(child.getText().find("clocks of 2 processes within ") !=
                  std::string::npos,
              isFirst)
        << child.getText();
  }
  EXPECT_FALSE(std::filesystem::exists(at("t.2.json")));
  Expected<Timeline> timeline = readTimeline(at("t.json"));
  ASSERT_TRUE(timeline.ok()) << timeline.status().message();
  ASSERT_EQ(timeline->head.clocks.size(), 2u);
  EXPECT_EQ(timeline->head.clocks[1].ranks, (std::vector<int64_t>{2, 3}));
  // All of it is there, and the ranks are on one clock: each begins its sum
  // before any has it.
  std::map<std::pair<int64_t, std::string>, std::vector<const TraceEvent *>>
      ran;
  for (const TraceEvent &event : timeline->events)
    ran[{event.step, timeline->head[event].name}].push_back(&event);
  EXPECT_EQ(ran.size(), 3 * 5u);
  int64_t error = timeline->head.clocks[1].error;
  EXPECT_GT(error, 0);
  for (int64_t step : {1, 2, 3}) {
    auto &sums = ran[{step, "sum loss"}];
    ASSERT_EQ(sums.size(), 4u);
    for (const TraceEvent *a : sums)
      for (const TraceEvent *b : sums)
        EXPECT_LE(a->begin, b->end + 2 * error);
  }
}

TEST_F(ProcessesTest, AKilledProcessLeavesTheTimelineOfTheOthers) {
  std::vector<Child> children =
      startAll(2, {at("p2"), "--steps=1000000000", "--trace", at("t.json")});
  children[0].readUntil("step 20 ");
  children[1].signal(SIGKILL);
  EXPECT_EQ(errorOfEnd(children[0]).find("process 1 ("), 0u);
  EXPECT_NE(
      children[0].getText().find("note: timeline '" + at("t.json") +
                                 "' lacks the events of rank 1: process "),
      std::string::npos)
      << children[0].getText();
  Expected<Timeline> timeline = readTimeline(at("t.json"));
  ASSERT_TRUE(timeline.ok()) << timeline.status().message();
  ASSERT_EQ(timeline->missing.size(), 1u);
  EXPECT_EQ(timeline->missing[0].rank, 1);
  EXPECT_GE(timeline->events.size(), 20 * 4u);
}

/// Its command does not end, so its step does not; the process does.
TEST_F(ProcessesTest, AProcessThatIsStuckIsNotLeft) {
  timeout = "3";
  ProgramBuilder b({{"data", 2}});
  uint32_t code = b.addCodeObject("kernels", kernelImage());
  uint32_t x = b.addArgument({"input", "x", ElementType::F32, {1}});
  uint32_t y = b.addResult({"loss", "loss", ElementType::F32, {1}});
  b.setArena(4);
  b.launch({.name = "stuck"}, code, "stay", {}, {b.arena(0, 4)},
           {Affine(0, {{0, 1}})});
  b.add({.name = "sum"}, Collective{CollectiveKind::AllReduce,
                                    {0},
                                    ElementType::F32,
                                    {1},
                                    -1,
                                    -1,
                                    b.argument(x),
                                    b.result(y)});
  Expected<Bytes> program = b.finish();
  EXPECT_OK(program.status());
  write("stuck", *program);
  std::vector<Child> children = startAll(2, {at("stuck")});
  std::string error = errorOfEnd(children[0]);
  EXPECT_NE(error.find("rank 1 did not come within 3000 ms"), error.npos)
      << error;
  EXPECT_EQ(children[1].finish(25s), 1) << children[1].getText();
  EXPECT_NE(children[1].getText().find(
                "process 1 ends: a command of its step goes on 6000 ms after "
                "the job has failed: step 1, rank 0, command 1 'sum'"),
            std::string::npos)
      << children[1].getText();
}

/// What one process cannot write is an error of all, also of those that are
/// ready.
TEST_F(ProcessesTest, AFullDiskIsTheErrorOfAll) {
  std::filesystem::create_symlink("/dev/full", at("full"));
  std::vector<Child> children = startAll(2, {at("p2"), "--trace", at("full")});
  std::string error = errorOfEnd(children[0]), other = errorOfEnd(children[1]);
  EXPECT_EQ(error,
            "cannot write '" + at("full") + "': No space left on device\n");
  EXPECT_EQ(other, "process 0 ended with error: " + error);
}

/// Buffers for which there is no room.
TEST_F(ProcessesTest, AProcessWithoutMemoryIsTheErrorOfAll) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers need more addresses than there are then";
#endif
#endif
  ProgramBuilder b = smallStep(2);
  b.addArgument({"parameter", "big", ElementType::F32, {1 << 28}});
  write("big", *b.finish());
  std::vector<Child> children;
  children.push_back(start(0, 2, {at("big")}));
  children.push_back(start(1, 2, {at("big")}, 1 << 30));
  std::string error = errorOfEnd(children[1]);
  EXPECT_NE(error.find("cannot allocate"), error.npos) << error;
  EXPECT_EQ(errorOfEnd(children[0]), "process 1 ended with error: " + error);
}

/// A loss that is no number ends all by the same words, and leaves no file.
TEST_F(ProcessesTest, ARefusalIsThatOfAll) {
  Tensor w = tensorOf<float>({4}, {1, 2, 3, 4}),
         lr = tensorOf<float>({}, {.5f});
  Tensor step = tensorOf<int64_t>({}, {0});
  Tensor x = tensorOf<float>({4}, {1, 2, 3, NAN});
  EXPECT_OK(
      writeSafetensors(at("d.safetensors"), {{"parameter/w", w.view()},
                                             {"learning_rate/0", lr.view()},
                                             {"step/step", step.view()},
                                             {"batch.0/x", x.view()}}));
  std::string program = at(isJoint() ? "p4" : "p2");
  for (Child &child : startAll(
           2, {program, "--data", at("d.safetensors"), "--save", at("saved")}))
    EXPECT_EQ(errorOfEnd(child),
              "step 1, command 2 'check loss': loss is nan, expected a finite "
              "value\n");
  EXPECT_FALSE(std::filesystem::exists(at("saved")));
}

/// A stage that ends, or that is not heard of any more, in its transfers.
TEST_F(ProcessesTest, AStageThatIsLostIsTheErrorOfTheOther) {
  timeout = "3";
  write("stages", *finish(Stages(1).b));
  for (size_t victim : {1, 0})
    for (int signal : {SIGKILL, SIGSTOP}) {
      std::vector<Child> children =
          startAll(2, {at("stages"), "--steps=1000000000"});
      children[0].readUntil("step 20");
      auto begin = Clock::now();
      children[victim].signal(signal);
      std::string error = errorOfEnd(children[1 - victim]);
      EXPECT_EQ(error.find("process " + std::to_string(victim) + " ("), 0u)
          << error;
      EXPECT_NE(error.find(signal == SIGKILL ? "ended without a word"
                                             : "has not been heard of for"),
                error.npos)
          << error;
      EXPECT_LT(Clock::now() - begin, 20s);
    }
}

/// It is heard of, but never comes to its transfer.
TEST_F(ProcessesTest, AStageThatNeverSendsIsFound) {
  timeout = "3";
  ProgramBuilder b({{"pipe", 2}});
  uint32_t code = b.addCodeObject("kernels", kernelImage());
  uint32_t other = b.addRankProgram();
  b.setRankPrograms(0, std::vector<uint32_t>{0, other});
  Transfer op{0, 1, 0, ElementType::F32, {1}};
  b.setArena(4);
  b.launch({.name = "1F0 stuck"}, code, "stay", {}, {b.arena(0, 4)}, {1});
  b.waitEvent(b.transferQueue(1, 0), b.recordEvent(0));
  b.send({.name = "send"}, op, b.arena(0, 4));
  b.setCurrent(0);
  b.setArena(4);
  b.receive({.name = "receive"}, op, b.arena(0, 4));
  Expected<Bytes> program = b.finish();
  EXPECT_OK(program.status());
  write("stuck", *program);
  std::vector<Child> children = startAll(2, {at("stuck")});
  std::string error = errorOfEnd(children[0]);
  EXPECT_NE(error.find("rank 1 did not come within 3000 ms"), error.npos)
      << error;
  EXPECT_NE(error.find("'receive'"), error.npos) << error;
  EXPECT_EQ(children[1].finish(25s), 1) << children[1].getText();
  EXPECT_NE(children[1].getText().find("process 1 ends: a command of its step "
                                       "goes on 6000 ms after the job has "
                                       "failed"),
            std::string::npos)
      << children[1].getText();
}

} // namespace
} // namespace tandem::rt::cts
