//===- options.cpp - the command line of tandem-trace ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"

#include "../common/arguments.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tandem::trace {

using rt::Expected;
using rt::Status;

const char *usage() {
  return R"(usage: tandem-trace report TIMELINE.json [options]
       tandem-trace report TIMELINE.json... --html FILE [options]
       tandem-trace predict TIMELINE.json|PROGRAM.tdm --times TABLE.json -o FILE
       tandem-trace picture TIMELINE.json -o FILE.svg [options]

Reads timelines written by tandem-run --trace and step.trace()
(docs/timelines.md).

report: computed, communicated and hidden time, and reasons for exposed time.
  --predicted FILE  compare with a prediction: a timeline written by predict, or
                    a table of seconds written by tandem-profile --price
  --json            print JSON
  --skip N          ignore the first N steps (0)
  --all             list every collective and command, not the ten worst
report --html FILE: a page for a browser, by python3 -m tandem report, whose
--help lists its options (docs/report.md).
predict: the timeline of a Program whose commands take the seconds of a table.
  --times FILE      the table
  -o FILE           output file
picture: one step as SVG.
  -o FILE           output file
  --step N          the step (the one of median length)
  --ranks R,R,...   the ranks (the first eight)
  --width N         width in pixels (1200)
  --help            print this text
)";
}

namespace {
/// One option, and the commands that read it.
struct Option {
  std::string_view name, commands;
};
constexpr Option kOptions[] = {
    {"--predicted", "report"}, {"--json", "report"},
    {"--skip", "report"},      {"--all", "report"},
    {"--times", "predict"},    {"-o", "predict picture"},
    {"--step", "picture"},     {"--ranks", "picture"},
    {"--width", "picture"}};

Status parseRanks(const std::string &text, std::vector<int64_t> &ranks) {
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    int64_t rank = -1;
    auto [stop, error] = std::from_chars(at, end, rank);
    if (error != std::errc() || rank < 0 || (stop != end && *stop != ','))
      return Status::error("--ranks is '" + text +
                           "', expected numbers divided by commas");
    ranks.push_back(rank);
    if (stop == end)
      return Status::success();
    at = stop + 1;
  }
}

Status parseWord(std::string_view word, Options &options) {
  if (options.command.empty())
    options.command = word;
  else if (options.input.empty())
    options.input = word;
  else
    return Status::error("found a second file '" + std::string(word) +
                         "', expected one");
  if (options.command == "report" || options.command == "predict" ||
      options.command == "picture")
    return Status::success();
  return Status::error("unknown command '" + options.command +
                       "', expected report, predict or picture");
}

/// That the command at hand reads the option.
Status checkUse(std::string_view name, const Options &options) {
  for (const Option &option : kOptions)
    if (option.name == name &&
        option.commands.find(options.command) == std::string_view::npos)
      return Status::error("option " + std::string(name) + " is not for " +
                           options.command + ", see --help");
  return Status::success();
}

Status parseOption(Arguments &arguments, Options &options) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kNarrowest = 400, kWidest = 100000;
  std::string_view name = arguments.getName();
  if (arguments.isFlag("--help") || arguments.isFlag("-h"))
    return options.help = true, Status::success();
  if (Status status = checkUse(name, options); !status.ok())
    return status;
  if (arguments.isFlag("--json"))
    return options.json = true, Status::success();
  if (arguments.isFlag("--all"))
    return options.all = true, Status::success();
  if (name == "--predicted")
    return arguments.takeValue(options.predicted);
  if (name == "--times")
    return arguments.takeValue(options.times);
  if (name == "-o")
    return arguments.takeValue(options.output);
  if (name == "--skip")
    return arguments.takeNumber(0, kMax, options.report.skip);
  if (name == "--width")
    return arguments.takeNumber(kNarrowest, kWidest, options.picture.width);
  if (name == "--step")
    return arguments.takeNumber(0, kMax, options.picture.step.emplace());
  std::string ranks;
  if (name != "--ranks")
    return arguments.failUnknown();
  Status status = arguments.takeValue(ranks);
  return status.ok() ? parseRanks(ranks, options.picture.ranks) : status;
}
} // namespace

bool isForPage(int argc, const char *const *argv) {
  auto isHtml = [](std::string_view word) {
    return word == "--html" || word.starts_with("--html=");
  };
  return argc > 1 && std::string_view(argv[1]) == "report" &&
         std::any_of(argv + 2, argv + argc, isHtml);
}

Expected<Options> parseOptions(int argc, const char *const *argv) {
  Options options;
  Arguments arguments(argc, argv);
  while (arguments.next()) {
    Status status = arguments.isOption()
                        ? parseOption(arguments, options)
                        : parseWord(arguments.getWord(), options);
    if (!status.ok())
      return status;
  }
  if (options.help)
    return options;
  if (options.input.empty())
    return Status::error("no file given, see --help");
  if (options.command != "report" && options.output.empty())
    return Status::error(options.command + " needs -o FILE");
  if (options.command == "predict" && options.times.empty())
    return Status::error("predict needs --times TABLE.json");
  return options;
}

} // namespace tandem::trace
