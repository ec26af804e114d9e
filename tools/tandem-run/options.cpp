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

Runs a compiled training step and prints the loss of each step. Started alone, one
process has all ranks. Started by torchrun, srun or mpirun, each process has a
part of them; rank 0's process prints and saves. A process waits at most
TANDEM_TIMEOUT seconds (30) for another one.

  --data FILE      parameters, state and batches, as written by export. The first
                   batch is the step count modulo the number of batches.
                   Without it, values are random from a fixed seed
  --steps N        number of steps (one pass over the batches; without --data 10)
  --save FILE      write whole parameters, state and batches after the last step,
                   as input for --data
  --save-operators FILE  write what the operators of the last step gave, as far as
                   commands write it, for a comparison with tandem-interpret
                   (docs/bisect.md). Slow
  --trace FILE     write a timeline of all ranks for tandem-trace, Perfetto or
                   chrome://tracing (docs/timelines.md)
  --threads N      cores per rank (1)
  --one-queue      run the commands of each rank in order, without overlap; values
                   stay the same
  --no-graph       launch a GPU's commands one by one, not as a CUDA graph
  --save-times FILE  write the median time of each computing command
  --times FILE     sleep instead of computing; collectives are real, losses are
                   not. FILE is written by --save-times or by
                   tandem-profile --price
  --check nan      fail at the first command that makes a number which is not
                   finite of finite operands (docs/bisect.md). Slow
  --stats FILE     write times of steps and bytes sent. With several processes,
                   each writes its own file, as with --trace
  --device sim     run in virtual time on the machines of --cluster FILE, without
                   data; --device sim --help lists its options
  --replan-order TRACE  search another order for a pipeline by the durations of a
                   trace; --replan-order TRACE --help lists its options
  --print          list the Program as text and run nothing
  --help           print this text
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
  if (name == "--save-operators")
    return arguments.takeValue(options.operators);
  if (name == "--trace")
    return arguments.takeValue(options.trace);
  if (name == "--times")
    return arguments.takeValue(options.times);
  if (name == "--save-times")
    return arguments.takeValue(options.saveTimes);
  if (name == "--check") {
    std::string kind;
    Status status = arguments.takeValue(kind);
    options.checksNumbers = true;
    return status.ok() && kind != "nan"
               ? Status::error("--check is '" + kind + "', expected nan")
               : status;
  }
  if (name == "--stats")
    return arguments.takeValue(options.stats);
  if (name == "--steps")
    return arguments.takeNumber(0, std::numeric_limits<int64_t>::max(),
                                options.steps);
  if (name == "--threads") {
    int64_t threads = 1;
    Status status = arguments.takeNumber(1, 4096, threads);
    options.threads = int(threads);
    return status;
  }
  if (arguments.isFlag("--one-queue"))
    return options.oneQueue = true, Status::success();
  if (arguments.isFlag("--no-graph"))
    return options.graph = false, Status::success();
  if (arguments.isFlag("--print"))
    return options.print = true, Status::success();
  if (arguments.isFlag("--help") || arguments.isFlag("-h"))
    return options.help = true, Status::success();
  return arguments.failUnknown();
}

/// What is not computed cannot be kept.
static Status check(const Options &options) {
  if (options.program.empty() && !options.help)
    return Status::error("no program given, see --help");
  if (options.times.empty())
    return Status::success();
  for (auto [name, value] : {std::pair("--save", &options.save),
                             std::pair("--save-operators", &options.operators),
                             std::pair("--save-times", &options.saveTimes)})
    if (!value->empty())
      return Status::error(std::string(name) +
                           " beside --times, expected one of the two: nothing "
                           "is computed");
  return Status::success();
}

Expected<Options> parseOptions(int argc, const char *const *argv) {
  Options options;
  Arguments arguments(argc, argv);
  while (arguments.next())
    if (Status status = parseOne(arguments, options); !status.ok())
      return status;
  if (Status status = check(options); !status.ok())
    return status;
  return options;
}

} // namespace tandem::run
