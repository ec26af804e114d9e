//===- options.cpp - the command line of tandem-replan --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"
#include "../common/arguments.h"

namespace tandem::replan {

using rt::Expected;
using rt::Status;

const char *usage() {
  return R"(usage: tandem-run PROGRAM.tdm --replan-order TRACE [options]

Searches another order for the sections of a pipeline, by the durations of a trace of
the same Program, and runs nothing. `tandem-compile --order FILE` takes the order.

  --replan-order TRACE  the timeline of a run, or of a simulation with jitter
  --seed N              where durations differ from time to time, the order is chosen
                        for the mean over noise from this seed
  -o FILE               write the order to FILE instead of printing it
  --help                print this text
)";
}

static Status parseOne(Arguments &arguments, Options &options) {
  if (!arguments.isOption()) {
    if (!options.program.empty())
      return Status::error("found a second program '" +
                           std::string(arguments.getWord()) +
                           "', expected one");
    options.program = arguments.getWord();
    return Status::success();
  }
  if (arguments.getName() == "--replan-order")
    return arguments.takeValue(options.trace);
  if (arguments.getName() == "-o")
    return arguments.takeValue(options.output);
  if (arguments.getName() == "--seed")
    return arguments.takeNumber(0, int64_t(1) << 53, options.seed.emplace());
  if (arguments.isFlag("--help") || arguments.isFlag("-h"))
    return options.help = true, Status::success();
  return Status::error("found '" + std::string(arguments.getWord()) +
                       "' beside --replan-order, expected --seed or -o");
}

Expected<Options> parseOptions(int argc, const char *const *argv) {
  Options options;
  Arguments arguments(argc, argv);
  while (arguments.next())
    if (Status status = parseOne(arguments, options); !status.ok())
      return status;
  if (!options.help && (options.program.empty() || options.trace.empty()))
    return Status::error(options.program.empty()
                             ? "no program given, see --help"
                             : "no trace given, see --help");
  return options;
}

} // namespace tandem::replan
