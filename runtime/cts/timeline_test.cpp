//===- timeline_test.cpp - timelines as files -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/timelines.h"
#include "tandem_rt/new_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

Timeline smallTimeline() {
  TimelineBuilder b(2);
  uint32_t a = b.compute("a \"quoted\" \xff name");
  uint32_t wait = b.sync(kCompute, kComm);
  uint32_t c = b.collective("c");
  for (int64_t rank : {0, 1}) {
    b.ran(rank, a, 0, 10 + rank);
    b.ran(rank, wait, 0, 10 + rank);
    b.ran(rank, c, 10 + rank, 20);
  }
  b.timeline.head.clocks = {{0, {0}, 0, 0}, {1, {1}, -2500, 1250}};
  return b.timeline;
}

TEST(TimelineFile, IsReadAsItWasWritten) {
  Timeline written = smallTimeline();
  written.missing = {{1, "its disk burnt"}};
  Expected<Timeline> read = parse(textOf(written));
  ASSERT_TRUE(read.ok()) << read.status().message();
  // Whatever is in a timeline is in its text; a second text is the first one.
  EXPECT_EQ(textOf(*read), textOf(written));
  ASSERT_EQ(read->events.size(), 6u);
  EXPECT_EQ(read->events[5].rank, 1);
  EXPECT_EQ(read->events[5].begin, 11000);
  EXPECT_EQ(read->events[5].end, 20000);
  const TimelineCommand &c = read->head[read->events[5]];
  EXPECT_EQ(c.name, "c");
  EXPECT_EQ(c.role, CommandRole::Communicate);
  EXPECT_EQ(c.axes, std::vector<uint32_t>{0});
  EXPECT_EQ(read->head.clocks[1].offset, -2500);
  EXPECT_EQ(read->missing[0].why, "its disk burnt");
}

TEST(TimelineFile, SaysWhatAProgramIs) {
  ProgramBuilder b({{"data", 2}});
  addCommQueue(b);
  b.setArena(64);
  b.beginRepeat({}, 3);
  b.add({.name = "zero"}, Fill{b.arena(0, 4), {0}});
  b.endRepeat();
  b.waitEvent(kComm, b.recordEvent(kCompute));
  b.add({.name = "check", .queue = kComm},
        Check{CheckKind::Finite, ElementType::F32, b.arena(0, 4), "x", {0}});
  TimelineHead head = headOf(b.get(), "hash");
  const std::vector<TimelineCommand> &commands = head.rankPrograms[0];
  ASSERT_EQ(commands.size(), 5u);
  EXPECT_EQ(commands[0].count, 3);
  EXPECT_EQ(commands[1].repeat, 0);
  EXPECT_EQ(commands[1].kind, "fill");
  EXPECT_EQ(commands[2].repeat, -1);
  EXPECT_EQ(commands[2].event, commands[3].event);
  EXPECT_EQ(commands[4].role, CommandRole::Communicate);
  EXPECT_EQ(commands[4].axes, std::vector<uint32_t>{0});
}

TEST(TimelineFile, LeavesOutWhatNoRankRuns) {
  ProgramBuilder b({{"pipe", 2}});
  b.setArena(64);
  b.addRankProgram();
  TimelineHead head = headOf(b.get(), "hash");
  ASSERT_EQ(head.memory.size(), 2u);
  EXPECT_EQ(head.memory[0].held, 64);
  EXPECT_EQ(head.memory[1].held, 0);
}

TEST(TimelineFile, SaysWhatIsWrong) {
  std::string good = textOf(smallTimeline());
  auto expect = [&](const std::string &text, const std::string &error) {
    SCOPED_TRACE(error);
    expectError(parse(text).status(), error);
  };
  auto change = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  expect("", "'t.json' is no whole timeline: it breaks off or is no JSON");
  expect(good.substr(0, good.size() / 2),
         "it breaks off or is no JSON at byte");
  expect("[1]", "'t.json' is no timeline of Tandem");
  expect("{\"traceEvents\":[]}", "is no timeline of Tandem");
  expect("[1e999]", "found a number that is too large");
  expect(change("\"version\":1", "\"version\":2"),
         "is a timeline of version 2, expected version 1");
  expect(change("\"version\":1", "\"version\":\"x\""),
         "'tandem': 'version' is \"x\", expected a whole number");
  expect(change("[\"data\",2]", "[\"data\",3]"),
         "expected one for each of 3 ranks");
  expect(change("[\"data\",2]", "7"), "mesh: 'name' is null, expected a text");
  expect(
      change("\"role\":\"compute\"", "\"role\":\"cook\""),
      "queue 0: 'role' is \"cook\", expected compute, communication or copy");
  expect(change("\"queue\":1", "\"queue\":2"),
         "'queue' is 2, expected a whole number from 0 to 1");
  expect(change("\"axes\":[0]", "\"axes\":[1]"),
         "command 3: 'axis' is 1, expected a whole number from 0 to 0");
  expect(change("\"id\":3,\"kind\":\"all_reduce\",\"name\"",
                "\"id\":0,\"kind\":\"all_reduce\",\"name\""),
         "'id' is 0, expected one that no other has");
  expect(change("\"pid\":1,\"tid\":0,\"ts\"", "\"pid\":9,\"tid\":0,\"ts\""),
         "is of rank 9, expected 2 ranks");
  expect(change("\"args\":{\"bytes\":0,\"flops\":0,\"id\":0",
                "\"args\":{\"bytes\":0,\"flops\":0,\"id\":77"),
         "is of command 77, expected one of 'rank_programs'");
  expect(change("\"ts\":0.0", "\"ts\":-1"), "'ts' is -1, expected a number");
  expect(change("\"ts\":0.0", "\"ts\":1e300"), "less than a hundred days");
  expectError(readTimeline("/none").status(),
              "cannot read '/none': No such file or directory");
  expectError(readTimeline("/").status(), "cannot read '/': expected a file");
}

/// Where the disk is full: here a file may have no more than some bytes.
TEST(TimelineFile, ReplacesAFileOnlyByAWholeOne) {
  std::string folder =
      testing::TempDir() + "timeline-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::string path = folder + "/t.json";
  Timeline timeline = smallTimeline();
  EXPECT_OK(writeTimeline(timeline, path));
  for (int i = 0; i < 1000; ++i)
    timeline.events.push_back(timeline.events[0]);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {20000, 20000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Status status = writeTimeline(timeline, path);
    _exit(status.message() == "cannot write '" + path + "': File too large"
              ? 7
              : 1);
  }
  int state = 0;
  waitpid(child, &state, 0);
  EXPECT_EQ(WEXITSTATUS(state), 7);
  EXPECT_EQ(readTimeline(path)->events.size(), 6u);
  auto numFiles = [&] {
    std::filesystem::directory_iterator files(folder);
    return std::distance(begin(files), end(files));
  };
  EXPECT_EQ(numFiles(), 1);
  EXPECT_OK(writeTimeline(timeline, path));
  EXPECT_EQ(readTimeline(path)->events.size(), 1006u);
  EXPECT_EQ(numFiles(), 1);
  expectError(writeTimeline(timeline, folder + "/none/t.json"),
              "cannot write '" + folder + "/none/t.json': No such file");
  expectError(writeTimeline(timeline, "/dev/full"),
              "cannot write '/dev/full': No space left on device");
  std::filesystem::remove_all(folder);
}

constexpr FileKind kAny{"any", [](std::string_view) { return true; }};

/// As runs of one path do: each file is whole, and the last one stays.
TEST(NewFiles, OfOnePathKnowNothingOfEachOther) {
  std::string folder = testing::TempDir() + "files-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::string path = folder + "/f", link = folder + "/link";
  std::filesystem::create_symlink("f", link);
  auto content = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  {
    NewFile first(path, kAny), second(link, kAny), third(path, kAny),
        tried(path, kAny);
    first.stream() << "first";
    second.stream() << "2";
    third.stream() << "never";
    EXPECT_OK(tried.check());
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_OK(first.finish());
    EXPECT_EQ(content(), "first");
    EXPECT_OK(second.finish());
  }
  EXPECT_FALSE(std::filesystem::is_symlink(link)); // nothing was behind it
  EXPECT_EQ(content(), "first");
  std::filesystem::remove(link);
  std::filesystem::create_symlink("f", link);
  {
    NewFile second(link, kAny);
    second.stream() << "2";
    EXPECT_OK(second.finish());
  }
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(content(), "2");
  std::filesystem::remove(link);
  std::filesystem::directory_iterator files(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  std::filesystem::remove_all(folder);
}

TEST(NewFiles, ReplaceOnlyFilesOfTheirKindAndNoInputs) {
  std::string folder = testing::TempDir() + "kinds-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::string path = folder + "/f", link = folder + "/link";
  std::filesystem::create_symlink("f", link);
  std::string other = "cannot write '" + link + "': found a file that is not ";
  for (const FileKind *kind : {&kTimelineFile, &kTimesFile, &kStatsFile,
                               &kPictureFile, &kProgramFile, &kValuesFile}) {
    for (const char *text :
         {"\\documentclass{article}", "{\"name\": 1}", "\n"}) {
      std::ofstream(path) << text;
      expectError(NewFile(link, *kind).check(),
                  other + std::string(kind->name) +
                      ", expected none, or one to replace");
      EXPECT_EQ(std::filesystem::file_size(path), std::string(text).size());
    }
    std::ofstream(path).close();
    EXPECT_OK(NewFile(path, *kind).check());
  }
  EXPECT_OK(writeTimeline({}, path));
  EXPECT_OK(writeTimeline({}, path));
  expectError(checkOutput(link, kTimelineFile, {path}),
              "cannot write '" + link + "': it is the input, expected another");
  EXPECT_OK(checkOutput(link, kTimelineFile, {"", folder + "/none"}));
  expectError(NewFile(folder, kTimelineFile).check(),
              "cannot write '" + folder + "': expected a regular file");
  std::filesystem::directory_iterator files(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 2);
  std::filesystem::remove_all(folder);
}

} // namespace
} // namespace tandem::rt::cts
