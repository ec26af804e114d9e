//===- timeline.cpp - timelines, and tables of seconds --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A timeline that is read is reported, drawn, and written as what reads to the
// same. What is given is a prediction of a Program as well: a timeline, or a
// table.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "tandem_rt/report.h"
#include <sstream>

using namespace tandem;

static std::string print(const rt::Timeline &timeline) {
  std::ostringstream text;
  rt::writeTimeline(timeline, text);
  return text.str();
}

static void use(const rt::Timeline &timeline) {
  auto report = rt::makeReport(timeline, &timeline);
  if (report.ok()) {
    rt::printText(*report, /*all=*/true);
    rt::printJson(*report);
  } else {
    fuzz::expectError(report.status().message());
  }
  auto picture = rt::drawTimeline(timeline);
  if (!picture.ok())
    fuzz::expectError(picture.status().message());
}

/// Two commands and a collective of two ranks.
static rt::TimelineHead getHead() {
  using rt::CommandRole;
  rt::TimelineHead head{.program = "0123", .mesh = {{"data", 2}}};
  head.queues = {{rt::QueueRole::Compute, "compute"},
                 {rt::QueueRole::Communication, "comm"}};
  head.rankToProgram = {0, 0};
  head.rankPrograms = {{{.id = 0, .kind = "gemm"},
                        {.id = 1, .role = CommandRole::Record},
                        {.id = 2, .queue = 1, .role = CommandRole::Wait},
                        {.id = 3,
                         .kind = "all_reduce",
                         .queue = 1,
                         .role = CommandRole::Communicate,
                         .axes = {0}}}};
  return head;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::istringstream text(std::string(fuzz::asText(data, size)));
  auto timeline = rt::parseTimeline(text, "file");
  if (timeline.ok()) {
    use(*timeline);
    std::string written = print(*timeline);
    std::istringstream again(written);
    auto read = rt::parseTimeline(again, "written");
    fuzz::expect(read.ok(), read.status().message());
    fuzz::expect(print(*read) == written, "a timeline does not read back");
  } else {
    fuzz::expectError(timeline.status().message());
  }
  fuzz::MemoryFile file(fuzz::asText(data, size));
  auto predicted = rt::readPrediction(getHead(), file.getPath());
  if (!predicted.ok())
    fuzz::expectError(predicted.status().message());
  else
    use(*predicted);
  return 0;
}
