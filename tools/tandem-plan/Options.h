//===- Options.h - the command line -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PLAN_OPTIONS_H
#define TANDEM_TOOLS_TANDEM_PLAN_OPTIONS_H

#include "tandem/Search/Search.h"

namespace tandem {

struct Arguments {
  std::string problem, search = "tandem", check, replan, output, json;
  /// A problem of cuts, or of layouts, in place of `problem`.
  std::string partition, layouts;
  /// A problem of an order, in place of `problem`.
  std::string schedule;
  std::vector<std::string> starts, compared;
  bool printsProblem = false, printsUsage = false, explains = false;
  /// Bytes; negative is no limit.
  int64_t largestReplicate = -1;
  search::SearchOptions options;
};

/// What `--help` prints.
extern const char *const kUsage;

/// False, with one line in `error`, if the words are no command.
bool parseArguments(int argc, char **argv, Arguments &arguments,
                    std::string &error);

} // namespace tandem

#endif // TANDEM_TOOLS_TANDEM_PLAN_OPTIONS_H
