//===- Options.cpp - the command line -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <functional>

namespace tandem {

/// LLVM's own command line is not used: its library brings `--print-after` of
/// its own.
static constexpr llvm::StringLiteral kHelp =
    R"(usage: tandem-compile STEP.mlir [options]
  --mesh AXES          space axes: data=4,model=2; default: one device;
                       auto: the best for the devices of the cluster
  --plan PRESET        replicate, data-parallel, zero, tensor-parallel or
                       expert-parallel; --plan-file takes a file
  --pin GLOB:AXIS=FORM how a tensor is stored: 'layers.*.w1:model=gather(1)'
  --search ALGORITHM   finds a plan: tandem, hidup, ilp, exhaustive, or presets,
                       which takes the cheapest preset
  --cluster FILE       the machines that a plan is for; default: a laptop
  --search-time-limit S  takes the best plan after S seconds
  --start PLAN         starts the search from a plan, and is no worse
  --no-presets         does not start the search from the presets as well
  --device NAME        what to compile for: cpu, which is the default, or cuda
  --arch NAME          of cuda: sm_80, which is the default, sm_90, or emulated
  --recompute          lets the backward pass make cheap values again (views,
                       elementwise, random masks, scores of attention) instead
                       of holding them
  --problem-out FILE   writes the search problem
  --timeline           says how long the schedule takes, with the plan's prices
  --plan-only          writes the plan, to the file of -o, and stops; without
                       -o, and nothing else to print, to standard output
  --replan FILE        costs a plan again, for another cluster
  --explain[=F.json]   says why the plan is as it is, and writes it as JSON
  --compare A B        says where two plan files differ, and what that costs
  --fail-on-replicate B  fails if a tensor of more than B bytes is left whole
                       on all devices
  --micro N            number of microbatches; default: 1
  --accumulate N       cuts the batch into N iterations of a loop; default: 1
  -o FILE              the Program; default: STEP.tdm
  --plan-file FILE     a plan to apply
  --save-plan FILE     writes the plan
  --print-plan         prints the plan as a table
  --print-after STAGES prints the IR after stages
  --stop-after STAGE   prints the IR after a stage and stops
  --from STAGE         takes IR that has left a stage, as --stop-after prints it,
                       edited by hand or not, and goes on behind it
  --no-locations       prints IR without the user's lines
  --times              prints the seconds of each stage
stages: )";

namespace {
struct Flag {
  llvm::StringLiteral name;
  /// The stage that reads it; behind it the flag says nothing. Empty: none.
  llvm::StringLiteral reader;
  bool takesValue;
  std::function<bool(llvm::StringRef value)> set;
  /// `--flag`, `--flag=VALUE` or `--flag FILE.json`.
  bool mayTakeValue = false;
  /// What the value has to be.
  llvm::StringLiteral expected = "a text that is not empty";
};
} // namespace

static auto text(std::string &target) {
  return [&target](llvm::StringRef value) {
    target = value.str();
    return !value.empty();
  };
}

static auto on(bool &target) {
  return [&target](llvm::StringRef) { return target = true; };
}

static auto list(std::vector<std::string> &target, char separator) {
  return [&target, separator](llvm::StringRef value) {
    for (llvm::StringRef part : llvm::split(value, separator))
      target.push_back(part.str());
    return !value.empty();
  };
}

static constexpr llvm::StringLiteral kAny = "", kImport = "import",
                                     kAccumulate = "accumulate", kPlan = "plan";

static std::vector<Flag> getFlags(ToolOptions &tool) {
  CompileOptions &compile = tool.compile;
  return {
      {"--mesh", kPlan, true, text(compile.mesh)},
      {"--plan", kPlan, true, text(compile.preset)},
      {"--pin", kPlan, true, list(compile.pins, ';')},
      {"--micro", kPlan, true,
       [&](llvm::StringRef v) { return !v.getAsInteger(10, compile.micro); },
       false, "a whole number"},
      {"--accumulate", kAccumulate, true,
       [&](llvm::StringRef v) {
         return !v.getAsInteger(10, compile.accumulate);
       },
       false, "a whole number"},
      {"--search", kPlan, true, text(compile.search)},
      {"--cluster", kPlan, true, text(compile.cluster)},
      {"--search-time-limit", kPlan, true,
       [&](llvm::StringRef v) {
         return !v.getAsDouble(compile.searchTimeLimit) &&
                compile.searchTimeLimit >= 0 &&
                std::isfinite(compile.searchTimeLimit);
       },
       false, "seconds, or 0 for no limit"},
      {"--start", kPlan, true, text(compile.start)},
      {"--no-presets", kPlan, false,
       [&](llvm::StringRef) { return !(compile.usesPresets = false); }},
      {"--device", kAny, true, text(compile.device)},
      {"--arch", kAny, true, text(compile.architecture)},
      {"--recompute", kImport, false, on(compile.recompute)},
      {"--problem-out", kPlan, true, text(compile.problemOut)},
      {"--timeline", kPlan, false, on(compile.timeline)},
      {"--plan-only", kPlan, false, on(tool.planOnly)},
      {"--replan", kPlan, true, text(tool.replan)},
      {"--explain", kPlan, false,
       [&](llvm::StringRef v) {
         tool.explainFile = v.str();
         return tool.compile.explains = true;
       },
       true},
      {"--fail-on-replicate", kPlan, true,
       [&](llvm::StringRef v) {
         return !v.getAsInteger(10, compile.failOnReplicate) &&
                compile.failOnReplicate >= 0;
       },
       false, "a whole number of bytes"},
      {"-o", kAny, true, text(tool.output)},
      {"--plan-file", kPlan, true, text(compile.planFile)},
      {"--save-plan", kPlan, true, text(tool.savePlan)},
      {"--print-plan", kPlan, false, on(tool.printPlan)},
      {"--print-after", kAny, true, list(compile.printAfter, ',')},
      {"--stop-after", kAny, true, text(compile.stopAfter)},
      {"--from", kAny, true, text(compile.from)},
      {"--no-locations", kAny, false,
       [&](llvm::StringRef) { return !(compile.printLocations = false); }},
      {"--times", kAny, false, on(tool.printTimes)},
  };
}

/// Sets the flag of `argument`, whose value may follow `=` or be the next one.
static std::string parseFlag(llvm::ArrayRef<Flag> flags, int argc, char **argv,
                             int &index, std::vector<const Flag *> &given) {
  auto [name, value] = llvm::StringRef(argv[index]).split('=');
  bool joined = llvm::StringRef(argv[index]).contains('=');
  for (const Flag &flag : flags) {
    if (flag.name != name)
      continue;
    given.push_back(&flag);
    if (flag.takesValue && !joined) {
      if (index + 1 == argc)
        return "option " + name.str() + " needs a value, expected " +
               flag.expected.str();
      value = argv[++index];
    } else if (flag.mayTakeValue && !joined && index + 1 < argc &&
               llvm::StringRef(argv[index + 1]).ends_with(".json")) {
      value = argv[++index];
    } else if (!flag.takesValue && !flag.mayTakeValue && joined) {
      return "option " + name.str() + " takes no value, found '" + value.str() +
             "'";
    }
    if (flag.set(value))
      return "";
    return "option " + name.str() + " has value '" + value.str() +
           "', expected " + flag.expected.str();
  }
  return "unknown option '" + name.str() + "'; see --help";
}

/// Takes `--compare` and the two files behind it.
static std::string parseCompare(ToolOptions &tool, int argc, char **argv,
                                int &index) {
  if (argc - index < 3)
    return "option --compare needs two plan files";
  if (!tool.compile.planFile.empty() || !tool.replan.empty())
    return "option --compare names two plans, and another one is named beside "
           "it";
  tool.compile.planFile = argv[++index];
  tool.compile.compareWith = argv[++index];
  tool.compile.costsPlan = tool.planOnly = true;
  return "";
}

/// `--plan-only` and `--replan` end behind the plan stage.
static std::string settlePlan(ToolOptions &tool) {
  if (!tool.replan.empty()) {
    if (!tool.compile.planFile.empty())
      return "options --replan and --plan-file name two plans";
    tool.compile.planFile = tool.replan;
    tool.planOnly = true;
    tool.compile.costsPlan = true;
  }
  if (!tool.compile.planFile.empty() &&
      !(tool.compile.preset.empty() && tool.compile.search.empty()))
    return "a plan file is a plan of its own, expected neither --plan nor "
           "--search beside it";
  if (!tool.planOnly)
    return "";
  if (!tool.compile.stopAfter.empty())
    return "options --plan-only and --stop-after exclude each other";
  // How long the schedule takes is known behind its stage.
  tool.compile.stopAfter = tool.compile.timeline ? "schedule" : "plan";
  if (!tool.output.empty())
    tool.savePlan = tool.output;
  return "";
}

/// What a stage reads that does not run would be left out without a word.
static std::string checkReaders(const ToolOptions &tool,
                                llvm::ArrayRef<const Flag *> given) {
  std::vector<std::string> stages = getStageNames();
  auto from = llvm::find(stages, tool.compile.from);
  if (from == stages.end())
    return "";
  for (const Flag *flag : given)
    if (!flag->reader.empty() && llvm::find(stages, flag->reader) <= from)
      return "option " + flag->name.str() + " is for the stage " +
             flag->reader.str() + ", which does not run with --from " +
             tool.compile.from + ": the module has left that stage";
  return "";
}

bool parseOptions(int argc, char **argv, ToolOptions &tool,
                  std::string &error) {
  std::vector<Flag> flags = getFlags(tool);
  std::vector<const Flag *> given;
  for (int i = 1; i < argc && error.empty(); ++i) {
    llvm::StringRef argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      llvm::outs() << kHelp << llvm::join(getStageNames(), ", ") << "\n";
      return false;
    }
    if (argument == "--compare")
      error = parseCompare(tool, argc, argv, i);
    else if (argument.starts_with("-") && argument != "-")
      error = parseFlag(flags, argc, argv, i, given);
    else if (tool.input.empty())
      tool.input = argument.str();
    else
      error = "two inputs, '" + tool.input + "' and '" + argument.str() + "'";
  }
  if (error.empty() && tool.input.empty())
    error = "no input; see --help";
  if (error.empty())
    error = checkReaders(tool, given);
  if (error.empty())
    error = settlePlan(tool);
  llvm::SmallString<128> path(tool.input == "-" ? "step.mlir" : tool.input);
  llvm::sys::path::replace_extension(path, "tdm");
  if (tool.output.empty())
    tool.output = path.str().str();
  return error.empty();
}

bool writeFile(const std::string &path, const FileKind &kind,
               const std::string &content, std::string &error) {
  if (path == "-") {
    llvm::outs() << content;
    return true;
  }
  if (writeTextFile(path, kind, content, error))
    return true;
  error = "cannot write '" + path + "': " + error;
  return false;
}

} // namespace tandem
