//===- options.h - the command line of tandem-trace -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_TRACE_OPTIONS_H
#define TANDEM_TOOLS_TANDEM_TRACE_OPTIONS_H

#include "tandem_rt/report.h"

namespace tandem::trace {

struct Options {
  std::string command; ///< report, predict or picture.
  std::string input;   ///< A timeline; of predict also a Program.
  std::string output;  ///< Of predict and picture.
  std::string predicted, times;
  bool json = false, all = false, help = false;
  rt::ReportOptions report;
  rt::PictureOptions picture;
};

rt::Expected<Options> parseOptions(int argc, const char *const *argv);

/// Whether a page for a browser is asked for: `report ... --html FILE`.
bool isForPage(int argc, const char *const *argv);

/// The text of --help.
const char *usage();

} // namespace tandem::trace

#endif // TANDEM_TOOLS_TANDEM_TRACE_OPTIONS_H
