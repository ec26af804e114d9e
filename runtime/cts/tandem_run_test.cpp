//===- tandem_run_test.cpp - the command line tool ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/cache_folder.h"
#include "cts/small_step.h"
#include "cts/support.h"
#include "tandem_rt/safetensors.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

struct Outcome {
  int status;
  std::string text;
};

/// Output and errors together.
Outcome execute(const std::string &arguments) {
  std::string command = "timeout 60 " TANDEM_RUN " " + arguments + " 2>&1";
  FILE *pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer;
  while (size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), count);
  return {WEXITSTATUS(pclose(pipe)), text};
}

class TandemRunTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "tandem-run-" + std::to_string(getpid());
    std::filesystem::create_directory(folder);
    Bytes bytes = *smallStep(2).finish();
    std::ofstream(at("p.tdm"), std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()),
               std::streamsize(bytes.size()));
    writeData("d.safetensors", "w");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string at(const std::string &name) const { return folder + "/" + name; }

  /// `second` is the number of the second batch.
  void writeData(const std::string &name, const std::string &parameter,
                 int second = 1, float rate = 0.5f) {
    Tensor w = tensorOf<float>({4}, {1, 2, 3, 4});
    Tensor lr = tensorOf<float>({}, {rate});
    Tensor step = tensorOf<int64_t>({}, {0});
    Tensor x0 = tensorOf<float>({4}, {1, 1, 1, 1});
    Tensor x1 = tensorOf<float>({4}, {0, 2, 4, 6});
    EXPECT_OK(writeSafetensors(
        at(name), {{"parameter/" + parameter, w.view()},
                   {"learning_rate/0", lr.view()},
                   {"step/step", step.view()},
                   {"batch.0/x", x0.view()},
                   {"batch." + std::to_string(second) + "/x", x1.view()}}));
  }

  /// The error of a run that fails before its first step, and saves nothing.
  std::string failBeforeFirstStep(const std::string &arguments) {
    Outcome run = execute(at("p.tdm") + " " + arguments);
    EXPECT_EQ(run.status, 1);
    EXPECT_EQ(run.text.find("step 1"), std::string::npos) << run.text;
    EXPECT_EQ(run.text.find('\n'), run.text.size() - 1) << run.text;
    return run.text;
  }

  std::string folder;
};

TEST_F(TandemRunTest, TrainsAndSaves) {
  Outcome run = execute(at("p.tdm") + " --data " + at("d.safetensors") +
                        " --steps 3 --save " + at("s.safetensors"));
  EXPECT_EQ(run.text, "step 1 loss 2\nstep 2 loss 28\nstep 3 loss 2\n");
  EXPECT_EQ(run.status, 0);
  auto saved = SafetensorsFile::open(at("s.safetensors"));
  ASSERT_TRUE(saved.ok());
  Tensor w = tensorOf<float>({4}, {0, 0, 0, 0});
  EXPECT_EQ(std::memcmp(saved->find("parameter/w")->data, w.data.data(), 16),
            0);
  // The saved file goes on where the run ended: with the second batch.
  run = execute(at("p.tdm") + " --steps=1 --data=" + at("s.safetensors"));
  EXPECT_EQ(run.text, "step 4 loss 28\n");
}

TEST_F(TandemRunTest, RefusesDataThatWouldBeLeftOutOrRuin) {
  writeData("gap.safetensors", "w", /*second=*/2);
  EXPECT_NE(failBeforeFirstStep("--data " + at("gap.safetensors"))
                .find("'batch.2/x', but none of batch 1"),
            std::string::npos);
  writeData("nan.safetensors", "w", 1, std::nanf(""));
  EXPECT_NE(failBeforeFirstStep("--data " + at("nan.safetensors"))
                .find("expected a finite learning rate"),
            std::string::npos);
}

/// It is code: --print runs none, and whose it is is said before it runs.
TEST_F(TandemRunTest, SaysWhoseCodeItRuns) {
  Variable loaded("TANDEM_CTS_LOADED", at("loaded"));
  std::filesystem::permissions(at("p.tdm"), std::filesystem::perms(0666));
  Outcome printed = execute(at("p.tdm") + " --print");
  EXPECT_EQ(printed.status, 0);
  EXPECT_EQ(printed.text.find("warning"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(at("loaded")));
  std::string warning = "tandem-run: warning: '" + at("p.tdm") + "' ";
  std::string runs = ": the machine code in it runs now (--print runs none)\n";
  Outcome run = execute(at("p.tdm") + " --steps 1");
  EXPECT_EQ(run.text.find(warning + "can be written by all users" + runs), 0u)
      << run.text;
  EXPECT_TRUE(std::filesystem::exists(at("loaded")));
  std::filesystem::permissions(at("p.tdm"), std::filesystem::perms(0600));
  EXPECT_EQ(execute(at("p.tdm") + " --steps 1").text.find("warning"),
            std::string::npos);
  if (geteuid() != 0)
    return;
  ASSERT_EQ(chown(at("p.tdm").c_str(), 12345, 12345), 0);
  run = execute(at("p.tdm") + " --steps 1");
  EXPECT_EQ(run.text.find(warning +
                          "is a file of user 12345, not of yours (0)" + runs),
            0u)
      << run.text;
}

TEST_F(TandemRunTest, TriesItsFilesBeforeTheFirstStep) {
  for (const char *option :
       {"--save ", "--trace ", "--save-times ", "--stats "})
    EXPECT_NE(failBeforeFirstStep("--data " + at("d.safetensors") + " " +
                                  option + at("none/file"))
                  .find("cannot write '" + at("none/file") + "'"),
              std::string::npos);
  EXPECT_EQ(execute(at("p.tdm") + " --data none --save " + at("s")).status, 1);
  EXPECT_FALSE(std::filesystem::exists(at("s")));
}

/// A run with the times of another: no losses, and it says why.
TEST_F(TandemRunTest, TakesTheTimesThatItHasSaved) {
  std::string run = at("p.tdm") + " --data " + at("d.safetensors");
  Outcome real = execute(run + " --one-queue --save-times " + at("t.json") +
                         " --stats " + at("s.json"));
  EXPECT_EQ(real.text, "step 1 loss 2\nstep 2 loss 28\n");
  auto stats = [&] {
    std::ifstream file(at("s.json"));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_TRUE(stats().starts_with(
      R"({"ranks": [0, 1], "timed": false, "bytes_planned": )"))
      << stats();
  EXPECT_NE(stats().find(R"("bytes_sent": 0})"), std::string::npos);
  Outcome timed =
      execute(run + " --times " + at("t.json") + " --stats " + at("s.json"));
  EXPECT_TRUE(timed.text.starts_with("values are not computed: commands take "
                                     "the times of '" +
                                     at("t.json") +
                                     "' (measured in 2 steps)\nstep 1 timed "))
      << timed.text;
  EXPECT_EQ(timed.text.find("loss"), std::string::npos) << timed.text;
  EXPECT_NE(stats().find(R"("timed": true)"), std::string::npos);
  std::string refused = "--times " + at("t.json");
  EXPECT_NE(failBeforeFirstStep(refused + " --save " + at("x"))
                .find("--save beside --times"),
            std::string::npos);
  std::ofstream(at("t.json")) << "{}";
  EXPECT_NE(failBeforeFirstStep(refused).find("cannot read times of"),
            std::string::npos);
}

TEST_F(TandemRunTest, SaysWhatItDoesNotUse) {
  writeData("more.safetensors", "w");
  auto file = SafetensorsFile::open(at("more.safetensors"));
  ASSERT_TRUE(file.ok());
  auto tensors = file->tensors();
  tensors["parameter/wo"] = tensors["parameter/w"];
  ASSERT_TRUE(writeSafetensors(at("wo.safetensors"), tensors).ok());
  Outcome run =
      execute(at("p.tdm") + " --steps 1 --data " + at("wo.safetensors"));
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.text.find("note: the program does not use 'parameter/wo'\n"),
            std::string::npos)
      << run.text;
}

TEST_F(TandemRunTest, WritesATimeline) {
  Outcome run = execute(at("p.tdm") + " --steps 2 --trace " + at("t.json"));
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_NE(run.text.find("communication hidden behind computation: "),
            std::string::npos);
  std::ifstream file(at("t.json"));
  std::string json(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(json.find("{\"displayTimeUnit\":\"ms\",\"tandem\":{"), 0u);
  EXPECT_NE(json.find("\"name\":\"rank 1\""), std::string::npos);
  EXPECT_NE(json.find("\"sum loss\""), std::string::npos);
}

TEST_F(TandemRunTest, MakesUpValues) {
  Outcome first = execute(at("p.tdm") + " --steps 2");
  EXPECT_EQ(first.text.find("no --data: values are seeded\nstep 1 loss "), 0u)
      << first.text;
  EXPECT_EQ(execute(at("p.tdm") + " --steps 2").text, first.text);
}

TEST_F(TandemRunTest, ListsPrograms) {
  Outcome run = execute(at("p.tdm") + " --print");
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.text.find("all_reduce 'sum loss' stage 0 strand 0 {data} f32"),
            std::string::npos)
      << run.text;
}

TEST_F(TandemRunTest, SaysWhatIsWrong) {
  auto expect = [&](const std::string &arguments, const std::string &text) {
    Outcome run = execute(arguments);
    EXPECT_EQ(run.status, 1) << arguments;
    EXPECT_NE(run.text.find("tandem-run: error: "), std::string::npos)
        << run.text;
    EXPECT_NE(run.text.find(text), std::string::npos) << run.text;
    EXPECT_EQ(std::count(run.text.begin(), run.text.end(), '\n'), 1)
        << run.text;
  };
  expect("", "no program given, see --help");
  expect("--stepz 3", "unknown option '--stepz', see --help");
  expect(at("p.tdm") + " --steps -1", "--steps is '-1', expected a number");
  expect(at("p.tdm") + " --data", "--data needs a value");
  expect(at("none.tdm"), "cannot read");
  expect(at("d.safetensors"), "not a Tandem program");
  writeData("other.safetensors", "v");
  expect(at("p.tdm") + " --data " + at("other.safetensors"),
         "data has no tensor 'parameter/w', which the program needs");
  expect("env", "cannot read 'env'");
}

TEST_F(TandemRunTest, ANanEndsTheRunWithTheStep) {
  Tensor bad = tensorOf<float>({4}, {1, NAN, 1, 1});
  auto data = SafetensorsFile::open(at("d.safetensors"));
  ASSERT_TRUE(data.ok());
  auto tensors = data->tensors();
  tensors["batch.1/x"] = bad.view();
  EXPECT_OK(writeSafetensors(at("bad.safetensors"), tensors));
  Outcome run = execute(at("p.tdm") + " --data " + at("bad.safetensors"));
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.text.find("step 1 loss 2\ntandem-run: error: step 2, command "
                          "2 'check loss': loss is nan"),
            std::string::npos)
      << run.text;
}

} // namespace
} // namespace tandem::rt::cts
