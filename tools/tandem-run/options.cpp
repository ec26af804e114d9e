//===- options.cpp - the command line of tandem-run -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"

#include "../common/arguments.h"

#include <limits>

namespace tandem::run {

using rt::Expected;
using rt::Status;

const char *usage() {
  return R"(usage: tandem-run PROGRAM.tdm [options]

Runs a compiled training step and prints the loss of each step. All ranks are in
this process; started by torchrun, srun or mpirun, each process has its part of
them, and the one with rank 0 prints and saves. A process waits TANDEM_TIMEOUT
seconds (30) for another.

  --data FILE      parameters, state and batches, as export writes them. Batches
                   are taken in turn, beginning at the step count modulo their
                   number. Without it values are made up from a seed.
  --steps N        number of steps (one pass over the batches; 10 without data)
  --save FILE      write parameters and state afterwards, whole, with the
                   batches: usable as --data to go on
  --trace FILE     write a timeline for chrome://tracing or Perfetto; of several
                   processes each its own, with its first rank in the name
  --threads N      cores per rank (1)
  --print          list the program as text and run nothing
  --help           this text
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
  std::string_view name = arguments.getName();
  if (name == "--data")
    return arguments.takeValue(options.data);
  if (name == "--save")
    return arguments.takeValue(options.save);
  if (name == "--trace")
    return arguments.takeValue(options.trace);
  if (name == "--steps")
    return arguments.takeNumber(0, std::numeric_limits<int64_t>::max(),
                                options.steps);
  if (name == "--threads") {
    int64_t threads = 1;
    Status status = arguments.takeNumber(1, 4096, threads);
    options.threads = int(threads);
    return status;
  }
  if (arguments.isFlag("--print"))
    return options.print = true, Status::success();
  if (arguments.isFlag("--help") || arguments.isFlag("-h"))
    return options.help = true, Status::success();
  return arguments.failUnknown();
}

Expected<Options> parseOptions(int argc, const char *const *argv) {
  Options options;
  Arguments arguments(argc, argv);
  while (arguments.next())
    if (Status status = parseOne(arguments, options); !status.ok())
      return status;
  if (options.program.empty() && !options.help)
    return Status::error("no program given, see --help");
  return options;
}

} // namespace tandem::run
