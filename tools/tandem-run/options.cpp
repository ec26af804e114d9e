//===- options.cpp - the command line of tandem-run -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"

#include <charconv>
#include <limits>
#include <string_view>

namespace tandem::run {

using rt::Expected;
using rt::Status;

const char *usage() {
  return R"(usage: tandem-run PROGRAM.tdm [options]

Runs a compiled training step on all of its ranks, in this process, and prints
the loss of each step.

  --data FILE      parameters, state and batches, as export writes them. Batches
                   are taken in turn, beginning at the step count modulo their
                   number. Without it values are made up from a seed.
  --steps N        number of steps (one pass over the batches; 10 without data)
  --save FILE      write parameters and state afterwards, whole, with the
                   batches: usable as --data to go on
  --trace FILE     write a timeline for chrome://tracing or Perfetto
  --threads N      cores per rank (1)
  --print          list the program as text and run nothing
  --help           this text
)";
}

namespace {
/// Walks the arguments; a value may follow its option or stand behind '='.
class Parser {
public:
  Parser(int argc, const char *const *argv) : argc(argc), argv(argv) {}

  Expected<Options> parse();

private:
  Status parseOne(std::string_view argument);
  Status takeValue(std::string_view name, std::optional<std::string_view> given,
                   std::string &value);
  Status takeNumber(std::string_view name,
                    std::optional<std::string_view> given, int64_t low,
                    int64_t high, int64_t &value);

  int argc;
  const char *const *argv;
  int at = 1;
  Options options;
};

Status Parser::takeValue(std::string_view name,
                         std::optional<std::string_view> given,
                         std::string &value) {
  if (!given && at < argc)
    given = argv[at++];
  if (!given || given->empty())
    return Status::error(std::string(name) + " needs a value");
  value = *given;
  return Status::success();
}

Status Parser::takeNumber(std::string_view name,
                          std::optional<std::string_view> given, int64_t low,
                          int64_t high, int64_t &value) {
  std::string text;
  if (Status status = takeValue(name, given, text); !status.ok())
    return status;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() &&
      value >= low && value <= high)
    return Status::success();
  return Status::error(std::string(name) + " is '" + text +
                       "', expected a number from " + std::to_string(low) +
                       " to " + std::to_string(high));
}

Status Parser::parseOne(std::string_view argument) {
  if (argument.substr(0, 1) != "-") {
    if (!options.program.empty())
      return Status::error("found a second program '" + std::string(argument) +
                           "', expected one");
    options.program = argument;
    return Status::success();
  }
  size_t equals = argument.find('=');
  std::string_view name = argument.substr(0, equals);
  std::optional<std::string_view> given;
  if (equals != std::string_view::npos)
    given = argument.substr(equals + 1);
  if (name == "--data")
    return takeValue(name, given, options.data);
  if (name == "--save")
    return takeValue(name, given, options.save);
  if (name == "--trace")
    return takeValue(name, given, options.trace);
  if (name == "--steps")
    return takeNumber(name, given, 0, std::numeric_limits<int64_t>::max(),
                      options.steps);
  if (name == "--threads") {
    int64_t threads = 1;
    Status status = takeNumber(name, given, 1, 4096, threads);
    options.threads = int(threads);
    return status;
  }
  if (name == "--print" && !given)
    return options.print = true, Status::success();
  if ((name == "--help" || name == "-h") && !given)
    return options.help = true, Status::success();
  return Status::error("unknown option '" + std::string(argument) +
                       "', see --help");
}

Expected<Options> Parser::parse() {
  while (at < argc)
    if (Status status = parseOne(argv[at++]); !status.ok())
      return status;
  if (options.program.empty() && !options.help)
    return Status::error("no program given, see --help");
  return options;
}
} // namespace

Expected<Options> parseOptions(int argc, const char *const *argv) {
  return Parser(argc, argv).parse();
}

} // namespace tandem::run
