//===- processes_test.cpp - several processes, and their ends -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/socket.h"
#include "cts/small_step.h"
#include "tandem_rt/safetensors.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

using namespace std::chrono_literals;

/// A tandem-run that was started as one process of a job; killed with this.
class Child {
public:
  Child(const std::vector<std::string> &variables,
        const std::vector<std::string> &arguments,
        rlim_t memory = RLIM_INFINITY) {
    int ends[2];
    if (pipe(ends) != 0)
      return;
    std::vector<const char *> argv = {"env"};
    for (const std::string &variable : variables)
      argv.push_back(variable.c_str());
    argv.push_back(TANDEM_RUN);
    for (const std::string &argument : arguments)
      argv.push_back(argument.c_str());
    argv.push_back(nullptr);
    id = fork();
    if (id == 0) {
      dup2(ends[1], 1), dup2(ends[1], 2);
      close(ends[0]), close(ends[1]);
      rlimit limit{memory, memory};
      setrlimit(RLIMIT_AS, &limit);
      execvp("env", const_cast<char **>(argv.data()));
      _exit(127);
    }
    close(ends[1]);
    output = ends[0];
  }
  Child(Child &&other) noexcept
      : id(std::exchange(other.id, 0)), output(std::exchange(other.output, -1)),
        text(std::move(other.text)) {}
  ~Child() {
    if (id)
      finish(0s);
    if (output >= 0)
      close(output);
  }

  void signal(int number) const { kill(id, number); }

  /// Reads on until it has printed that.
  void readUntil(const std::string &word) {
    while (text.find(word) == std::string::npos && read(30s))
      ;
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }

  /// Its exit status, or -1 for a signal; killed after `limit`.
  int finish(std::chrono::milliseconds limit) {
    auto deadline = Clock::now() + limit;
    while (read(std::chrono::milliseconds(millisecondsUntil(deadline))))
      ;
    int status = 0;
    bool ended = false;
    while (!(ended = waitpid(id, &status, WNOHANG) == id) &&
           Clock::now() < deadline)
      std::this_thread::sleep_for(5ms);
    if (!ended) {
      signal(SIGKILL);
      waitpid(id, &status, 0);
    }
    id = 0;
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const std::string &getText() const { return text; }

private:
  bool read(std::chrono::milliseconds limit) {
    pollfd wait = {output, POLLIN, 0};
    char buffer[4096];
    if (poll(&wait, 1, int(limit.count())) != 1)
      return false;
    ssize_t count = ::read(output, buffer, sizeof buffer);
    if (count > 0)
      text.append(buffer, size_t(count));
    return count > 0;
  }

  pid_t id = 0;
  int output = -1;
  std::string text;
};

class ProcessesTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "processes-" + std::to_string(getpid());
    std::filesystem::create_directory(folder);
    for (int64_t ranks : {2, 4})
      write("p" + std::to_string(ranks), *smallStep(ranks).finish());
    Expected<Socket> free = Socket::listen(0);
    port = std::to_string(free->port());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string at(const std::string &name) const { return folder + "/" + name; }
  void write(const std::string &name, const Bytes &bytes) {
    std::ofstream(at(name), std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()),
               std::streamsize(bytes.size()));
  }

  Child start(int64_t process, int64_t processes,
              const std::vector<std::string> &arguments,
              rlim_t memory = RLIM_INFINITY) {
    return Child({"RANK=" + std::to_string(process),
                  "WORLD_SIZE=" + std::to_string(processes),
                  "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,
                  "TANDEM_TIMEOUT=" + timeout},
                 arguments, memory);
  }
  std::vector<Child> startAll(int64_t processes,
                              const std::vector<std::string> &arguments) {
    std::vector<Child> children;
    for (int64_t process = 0; process < processes; ++process)
      children.push_back(start(process, processes, arguments));
    return children;
  }

  /// What it says after "error: ", within the time that it has.
  std::string errorOfEnd(Child &child) {
    EXPECT_EQ(child.finish(25s), 1) << child.getText();
    const char *kError = "tandem-run: error: ";
    size_t at = child.getText().find(kError);
    EXPECT_NE(at, std::string::npos) << child.getText();
    return at == std::string::npos
               ? ""
               : child.getText().substr(at + std::strlen(kError));
  }

  Watchdog watchdog{120};
  std::string folder, port;
  // Seconds. Where a test is of what happens before, it is longer than a
  // machine that is busy makes a process wait.
  std::string timeout = "30";
};

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
    std::vector<Child> children = startAll(2, run);
    for (Child &child : children)
      EXPECT_EQ(child.finish(30s), 0) << child.getText();
    EXPECT_EQ(children[0].getText(), alone.getText());
    EXPECT_EQ(children[1].getText(), "");
    EXPECT_EQ(read("several"), read("one"));
  }
}

/// Which one dies, and what the others say of it.
TEST_F(ProcessesTest, AKilledProcessIsTheErrorOfAllOthers) {
  for (size_t victim : {1, 2, 0}) {
    std::vector<Child> children = startAll(4, {at("p4"), "--steps=1000000000"});
    children[0].readUntil("step 20 ");
    auto begin = Clock::now();
    children[victim].signal(SIGKILL);
    std::string first;
    for (size_t process = 0; process < 4; ++process) {
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

/// A loss that is no number ends all by the same words.
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
  for (Child &child : startAll(2, {at("p2"), "--data", at("d.safetensors")}))
    EXPECT_EQ(errorOfEnd(child),
              "step 1, command 2 'check loss': loss is nan, expected a finite "
              "value\n");
}

} // namespace
} // namespace tandem::rt::cts
