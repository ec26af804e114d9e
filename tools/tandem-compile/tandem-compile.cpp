//===- tandem-compile.cpp - compiles a step to a Program ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "tandem/Execution/Compile.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem/Support/TextFile.h"
#include "tandem_rt/new_file.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

static int fail(const llvm::Twine &message) {
  llvm::errs() << "tandem-compile: error: " << message << "\n";
  return 1;
}

/// Asked before the work. False, with one line in `error`.
static bool mayWrite(const tandem::ToolOptions &tool, std::string &error) {
  std::vector<std::string> inputs{tool.input, tool.compile.planFile,
                                  tool.compile.compareWith};
  std::string output = tool.planOnly ? "" : tool.output;
  for (auto [path, kind] :
       {std::pair(tool.explainFile, &tandem::kExplanationFile),
        std::pair(tool.savePlan, &tandem::kPlanFile),
        std::pair(output, tool.writesIr() ? &tandem::kModuleFile
                                          : &tandem::kProgramFile)})
    if (path != "-" && !tandem::mayReplace(path, *kind, error, inputs)) {
      error = "cannot write '" + path + "': " + error;
      return false;
    }
  auto status = tandem::rt::checkOutput(tool.timelineFile,
                                        tandem::rt::kTimelineFile, inputs);
  error = status.message();
  return status.ok();
}

/// The IR of `--print-after`, and to the file of `-o` that of `--stop-after`.
static bool writeIr(const tandem::ToolOptions &tool,
                    const tandem::CompiledProgram &program,
                    std::string &error) {
  for (const auto &[stage, text] : program.ir)
    if (!tandem::writeFile(stage == tool.compile.stopAfter ? tool.output : "-",
                           tandem::kModuleFile, text, error))
      return false;
  return true;
}

/// The timeline of `--timeline=FILE`.
static tandem::rt::Status
writeTimeline(const tandem::ToolOptions &tool,
              const tandem::CompiledProgram &program) {
  if (tool.timelineFile.empty())
    return tandem::rt::Status::success();
  auto timeline = tandem::predictProgram(program.bytes, tool.compile.cluster);
  return timeline.ok() ? tandem::rt::writeTimeline(*timeline, tool.timelineFile)
                       : timeline.status();
}

int main(int argc, char **argv) {
  tandem::ToolOptions tool;
  std::string error;
  if (!tandem::parseOptions(argc, argv, tool, error))
    return error.empty() ? 0 : fail(error);
  if (!mayWrite(tool, error))
    return fail(error);
  std::optional<std::string> text = tandem::readTextFile(tool.input, error);
  if (!text)
    return fail(tool.input + ": " + error);
  tandem::CompiledProgram program;
  tool.compile.takesInterrupts = true;
  tool.compile.weighsPipelines = true;
  if (!tandem::compile(*text, tool.input, tool.compile, program, error))
    return fail(error);
  for (const std::string &remark : program.remarks)
    llvm::errs() << remark << "\n";
  if (tool.printPlan)
    llvm::outs() << program.planTable;
  if (tool.printsPlan())
    llvm::outs() << program.plan;
  llvm::outs() << program.explanation << program.comparison;
  if (!tool.explainFile.empty() &&
      !tandem::writeFile(tool.explainFile, tandem::kExplanationFile,
                         program.explanationJson, error))
    return fail(error);
  if (!tool.planOnly && !writeIr(tool, program, error))
    return fail(error);
  if (tool.printTimes)
    for (const auto &[stage, seconds] : program.seconds)
      llvm::errs() << llvm::format("%8.3f s  ", seconds) << stage << "\n";
  if (!tool.savePlan.empty() &&
      !tandem::writeFile(tool.savePlan, tandem::kPlanFile, program.plan, error))
    return fail(error);
  if (tool.compile.stopAfter.empty() && !tool.planOnly &&
      !tandem::writeFile(tool.output, tandem::kProgramFile, program.bytes,
                         error))
    return fail(error);
  auto status = writeTimeline(tool, program);
  return status.ok() ? 0 : fail(status.message());
}
