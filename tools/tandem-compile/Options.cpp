//===- Options.cpp - the command line -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"

namespace cl = llvm::cl;

namespace tandem {

ToolOptions parseOptions(int argc, char **argv) {
  cl::OptionCategory category("tandem-compile options");
  cl::opt<std::string> input(cl::Positional, cl::desc("STEP.mlir"),
                             cl::Required, cl::cat(category));
  cl::opt<std::string> output("o", cl::value_desc("file"), cl::cat(category),
                              cl::desc("the Program; default: STEP.tdm"));
  cl::opt<std::string> mesh("mesh", cl::value_desc("axes"), cl::cat(category),
                            cl::desc("space axes, such as data=4,model=2"));
  cl::opt<int64_t> micro("micro", cl::value_desc("n"), cl::cat(category),
                         cl::init(1), cl::desc("number of microbatches"));
  cl::opt<std::string> plan(
      "plan", cl::value_desc("preset"), cl::cat(category),
      cl::desc("data-parallel, zero, tensor-parallel or expert-parallel"));
  cl::list<std::string> pins(
      "pin", cl::value_desc("glob:axis=form"), cl::cat(category),
      cl::desc("how a tensor is stored: 'layers.*.w1:model=gather(1)'"));
  cl::opt<std::string> planFile("plan-file", cl::value_desc("file"),
                                cl::cat(category), cl::desc("a plan to apply"));
  cl::opt<std::string> savePlan("save-plan", cl::value_desc("file"),
                                cl::cat(category), cl::desc("writes the plan"));
  cl::list<std::string> printAfter("print-after", cl::value_desc("stage"),
                                   cl::cat(category), cl::CommaSeparated,
                                   cl::desc("prints the IR after a stage"));
  cl::opt<std::string> stopAfter(
      "emit-stage", cl::value_desc("stage"), cl::cat(category),
      cl::desc("prints the IR of a stage and stops"));
  cl::opt<bool> locations("locations", cl::cat(category),
                          cl::desc("prints IR with source lines"));
  cl::opt<bool> table("print-plan", cl::cat(category),
                      cl::desc("prints the plan as a table"));
  cl::opt<bool> times("times", cl::cat(category),
                      cl::desc("prints the seconds of each stage"));
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "compiles a training step\n");

  ToolOptions options;
  options.input = input;
  llvm::SmallString<128> path(input == "-" ? "step.mlir" : input.getValue());
  llvm::sys::path::replace_extension(path, "tdm");
  options.output = output.empty() ? path.str().str() : output.getValue();
  options.savePlan = savePlan;
  options.printPlan = table;
  options.printTimes = times;
  options.compile.mesh = mesh;
  options.compile.micro = micro;
  options.compile.preset = plan;
  options.compile.pins = pins;
  options.compile.planFile = planFile;
  options.compile.printAfter = printAfter;
  options.compile.stopAfter = stopAfter;
  options.compile.printLocations = locations;
  return options;
}

} // namespace tandem
