//===- Options.h - the command line -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_COMPILE_OPTIONS_H
#define TANDEM_TOOLS_TANDEM_COMPILE_OPTIONS_H

#include "tandem/Execution/Compile.h"
#include "tandem/Support/TextFile.h"

namespace tandem {

struct ToolOptions {
  std::string input, output, savePlan;
  std::string replan;
  /// Where the explanation is written as JSON; empty: nowhere.
  std::string explainFile;
  /// Where the timeline of the Program is written; empty: nowhere.
  std::string timelineFile;
  bool printPlan = false, printTimes = false, planOnly = false;
  CompileOptions compile;

  /// Whether `output` is of the IR of `--stop-after`, in place of the Program.
  bool writesIr() const { return !compile.stopAfter.empty() && !planOnly; }

  /// Whether the plan goes to standard output: `--plan-only` without a file,
  /// where nothing else is printed.
  bool printsPlan() const {
    return planOnly && savePlan.empty() && replan.empty() && !printPlan &&
           !compile.explain && compile.compareWith.empty();
  }
};

/// Fails with an error, or without one after `--help`.
bool parseOptions(int argc, char **argv, ToolOptions &tool, std::string &error);

/// Whether all of `content` is now in the file, which others never see in part,
/// or on standard output for `-`. Else false, with one line in `error`.
bool writeFile(const std::string &path, const FileKind &kind,
               const std::string &content, std::string &error);

} // namespace tandem

#endif // TANDEM_TOOLS_TANDEM_COMPILE_OPTIONS_H
