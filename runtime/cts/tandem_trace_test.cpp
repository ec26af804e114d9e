//===- tandem_trace_test.cpp - the tool that reads timelines --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/small_step.h"
#include "cts/timelines.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

struct Outcome {
  int status;
  std::string text;
};

/// Output and errors together.
Outcome execute(const std::string &command) {
  FILE *pipe = popen(("timeout 60 " + command + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer;
  while (size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), count);
  return {WEXITSTATUS(pclose(pipe)), text};
}

class TandemTraceTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "tandem-trace-" + std::to_string(getpid());
    std::filesystem::create_directory(folder);
    Bytes bytes = *smallStep(2).finish();
    std::ofstream(at("p.tdm"), std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()),
               std::streamsize(bytes.size()));
    Outcome run = execute(TANDEM_RUN " " + at("p.tdm") + " --steps 4 --trace " +
                          at("t.json"));
    ASSERT_EQ(run.status, 0) << run.text;
    std::ofstream(at("table.json"))
        << R"({"program": ")" << programHash(bytes)
        << R"(", "from": "a guess", "seconds": [{"0": 1, "2": 1, "3": 2, "4": 0}],
               "collectives": [{"1": 3}]})";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string at(const std::string &name) const { return folder + "/" + name; }
  Outcome trace(const std::string &arguments) {
    return execute(TANDEM_TRACE " " + arguments);
  }

  std::string folder;
};

TEST_F(TandemTraceTest, Reports) {
  Outcome run = trace("report " + at("t.json") + " --skip 1");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.text.find("3 steps of program "), 0u) << run.text;
  EXPECT_NE(run.text.find("all_reduce over data 'sum loss'"), std::string::npos)
      << run.text;
  run = trace("report --json --predicted=" + at("table.json") + " " +
              at("t.json"));
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.text.find("\"predicted_from\": \"a guess\""),
            std::string::npos);
}

TEST_F(TandemTraceTest, PredictsFromAProgramAsFromItsTimeline) {
  auto read = [&](const std::string &name) {
    std::ifstream file(at(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (const char *input : {"p.tdm", "t.json"}) {
    Outcome run =
        trace("predict " + at(input) + " --times " + at("table.json") + " -o " +
              at(std::string(input) + ".predicted"));
    EXPECT_EQ(run.status, 0) << run.text;
  }
  EXPECT_EQ(read("p.tdm.predicted"), read("t.json.predicted"));
  Expected<Report> report = makeReport(*readTimeline(at("p.tdm.predicted")));
  ASSERT_TRUE(report.ok());
  EXPECT_DOUBLE_EQ(report->total.seconds, 1 + 3 + 1 + 2);
}

TEST_F(TandemTraceTest, Draws) {
  Outcome run = trace("picture " + at("t.json") + " -o " + at("t.svg") +
                      " --step 2 --ranks 0,1 --width 800");
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_GT(std::filesystem::file_size(at("t.svg")), 500u);
}

TEST_F(TandemTraceTest, SaysWhatIsWrong) {
  auto expect = [&](const std::string &arguments, const std::string &text) {
    Outcome run = trace(arguments);
    EXPECT_EQ(run.status, 1) << arguments;
    EXPECT_EQ(run.text.find("tandem-trace: error: "), 0u) << run.text;
    EXPECT_NE(run.text.find(text), std::string::npos) << run.text;
    EXPECT_EQ(std::count(run.text.begin(), run.text.end(), '\n'), 1)
        << run.text;
  };
  std::string t = at("t.json");
  expect("", "no file given, see --help");
  expect("weep " + t,
         "unknown command 'weep', expected report, predict or picture");
  expect("report " + t + " u", "found a second file 'u', expected one");
  expect("report " + t + " --step 3", "option --step is not for report");
  expect("report " + t + " --stepz 3", "unknown option '--stepz'");
  expect("report " + t + " --skip 4",
         "skip is 4, expected less than the 4 steps");
  expect("report " + at("p.tdm"), "is no whole timeline");
  expect("report " + at("none"), "cannot read '" + at("none") + "'");
  expect("report " + t + " --predicted " + at("none"), "cannot read '");
  expect("picture " + t, "picture needs -o FILE");
  expect("picture " + t + " -o " + at("a.svg") + " --ranks 0,x",
         "--ranks is '0,x', expected numbers divided by commas");
  expect("picture " + t + " -o /none/a.svg", "cannot write '/none/a.svg'");
  expect("predict " + t + " -o " + at("o.json"), "predict needs --times");
  expect("predict " + t + " --times " + t + " -o " + at("o.json"),
         "cannot read times of '");
  Bytes other = *smallStep(1).finish();
  std::ofstream(at("other.tdm"), std::ios::binary)
      .write(reinterpret_cast<const char *>(other.data()),
             std::streamsize(other.size()));
  expect("predict " + at("other.tdm") + " --times " + at("table.json") +
             " -o " + at("o.json"),
         "is for program ");
  EXPECT_FALSE(std::filesystem::exists(at("o.json")));
  EXPECT_EQ(trace("--help").status, 0);
}

} // namespace
} // namespace tandem::rt::cts
