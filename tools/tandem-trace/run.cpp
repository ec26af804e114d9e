//===- run.cpp - commands of tandem-trace ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "run.h"

#include "../common/file.h"
#include "tandem_rt/new_file.h"

#include <cstdio>
#include <ostream>

namespace tandem::trace {

using namespace tandem::rt;

static Status report(const Options &options) {
  Expected<Timeline> timeline = readTimeline(options.input);
  if (!timeline.ok())
    return timeline.status();
  std::optional<Timeline> predicted;
  if (!options.predicted.empty()) {
    auto read = readPrediction(timeline->head, options.predicted);
    if (!read.ok())
      return read.status();
    predicted = std::move(*read);
  }
  Expected<Report> made =
      makeReport(*timeline, predicted ? &*predicted : nullptr, options.report);
  if (!made.ok())
    return Status::error("'" + options.input + "': " + made.status().message());
  std::string text =
      options.json ? printJson(*made) : printText(*made, options.all);
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0
             ? Status::success()
             : Status::error("cannot write to standard output");
}

/// What a timeline says of its Program, or what the Program says itself.
static Expected<TimelineHead> readHead(const std::string &path) {
  if (!path.ends_with(".tdm")) {
    Expected<Timeline> timeline = readTimeline(path);
    return timeline.ok() ? Expected<TimelineHead>(std::move(timeline->head))
                         : timeline.status();
  }
  Expected<Bytes> bytes = readFile(path);
  if (!bytes.ok())
    return bytes.status();
  Expected<Program> program = loadProgram(*bytes);
  if (!program.ok())
    return Status::error("'" + path + "': " + program.status().message());
  return headOf(*program, programHash(*bytes));
}

static Status predict(const Options &options) {
  Expected<TimelineHead> head = readHead(options.input);
  if (!head.ok())
    return head.status();
  Expected<Timeline> timeline = predictTimeline(*head, options.times);
  return timeline.ok() ? writeTimeline(*timeline, options.output)
                       : timeline.status();
}

static Status drawPicture(const Options &options) {
  Expected<Timeline> timeline = readTimeline(options.input);
  if (!timeline.ok())
    return timeline.status();
  Expected<std::string> svg = drawTimeline(*timeline, options.picture);
  if (!svg.ok())
    return Status::error("'" + options.input + "': " + svg.status().message());
  NewFile file(options.output, kPictureFile);
  file.stream() << *svg;
  return file.finish();
}

Status run(const Options &options) {
  if (options.command == "report")
    return report(options);
  const FileKind &kind =
      options.command == "predict" ? kTimelineFile : kPictureFile;
  if (Status status =
          checkOutput(options.output, kind, {options.input, options.times});
      !status.ok())
    return status;
  return options.command == "predict" ? predict(options) : drawPicture(options);
}

} // namespace tandem::trace
