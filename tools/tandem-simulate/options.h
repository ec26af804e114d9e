//===- options.h - the command line of tandem-simulate ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_SIMULATE_OPTIONS_H
#define TANDEM_TOOLS_TANDEM_SIMULATE_OPTIONS_H

#include "tandem_rt/simulate.h"

namespace tandem::simulate {

struct Options {
  std::string program; ///< The .tdm file.
  std::string cluster; ///< Empty: a laptop.
  std::string trace;   ///< Where to write the timeline, if anywhere.
  std::string times;   ///< A table of seconds of commands, if any.
  std::string json;    ///< Where to write the numbers, if anywhere.
  rt::SimulationOptions simulation;
  bool help = false;
};

rt::Expected<Options> parseOptions(int argc, const char *const *argv);

/// The text of --help.
const char *usage();

} // namespace tandem::simulate

#endif // TANDEM_TOOLS_TANDEM_SIMULATE_OPTIONS_H
