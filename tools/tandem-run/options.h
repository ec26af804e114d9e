//===- options.h - the command line of tandem-run ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_RUN_OPTIONS_H
#define TANDEM_TOOLS_TANDEM_RUN_OPTIONS_H

#include "tandem_rt/status.h"

#include <cstdint>
#include <string>

namespace tandem::run {

struct Options {
  std::string program;   ///< The .tdm file.
  std::string data;      ///< Values of arguments, and batches; empty: seeded.
  std::string save;      ///< Where to write arguments afterwards, if anywhere.
  std::string operators; ///< Where to write what they gave, if anywhere.
  std::string trace;     ///< Where to write the timeline, if anywhere.
  std::string times;     ///< How long computing commands sleep; empty: compute.
  std::string saveTimes; ///< Where to write what they took, if anywhere.
  std::string stats;     ///< Where to write what steps took, if anywhere.
  int64_t steps = -1;    ///< -1: one pass over the batches; seeded: 10.
  int threads = 1;       ///< Cores of one rank's compute thread.
  bool oneQueue = false; ///< Nothing beside anything.
  bool graph = true;     ///< A GPU has the step as one thing.
  bool checksNumbers = false; ///< Name what makes numbers that are not finite.
  bool print = false;         ///< List the program instead of running it.
  bool help = false;
};

rt::Expected<Options> parseOptions(int argc, const char *const *argv);

/// The text of --help.
const char *usage();

} // namespace tandem::run

#endif // TANDEM_TOOLS_TANDEM_RUN_OPTIONS_H
