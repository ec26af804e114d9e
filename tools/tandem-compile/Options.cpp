//===- Options.cpp - the command line -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "tandem/Execution/OptionValues.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <functional>

namespace tandem {

/// What the tool has beside the options of a compilation. LLVM's own command
/// line is not used: its library brings `--print-after` of its own.
static constexpr llvm::StringLiteral kToolHelp =
    R"(  --plan-only          Writes the plan, to the file of -o, and stops; without
                       -o, and nothing else to print, to standard output.
  --replan FILE        Costs a plan again, for another cluster.
  --explain[=F.json]   Says why the plan is as it is; with a file, there as JSON.
  --timeline[=F.json]  Says how long a step takes; with a file, writes there the
                       timeline that is predicted for the Program.
  --compare A B        Says where two plan files differ, and what that costs.
  -o FILE              The Program. Default: STEP.tdm. With --stop-after: the
                       IR. Default: standard output.
  --save-plan FILE     Writes the plan.
  --print-plan         Prints the plan as a table.
  --times              Prints the seconds of each stage.
)";

namespace {
struct Flag {
  std::string name;
  /// The stage that reads it; behind it the flag says nothing. Empty: none.
  llvm::StringRef reader;
  bool takesValue;
  std::function<bool(llvm::StringRef value)> set;
  /// `--flag`, `--flag=VALUE` or `--flag FILE.json`.
  bool mayTakeValue = false;
  /// What the value has to be.
  llvm::StringRef expected = "a text that is not empty";
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

static auto onWithFile(bool &target, std::string &file) {
  return [&target, &file](llvm::StringRef value) {
    file = value.str();
    return target = true;
  };
}

//===----------------------------------------------------------------------===//
// Options of the table
//===----------------------------------------------------------------------===//

static llvm::StringRef asRef(std::string_view text) { return text; }

namespace {
/// Sets the member of a row from the text of a value.
struct SetMember {
  Options &options;
  const OptionInfo &row;
  llvm::StringRef value;

  bool operator()(std::monostate) const { return false; }
  bool operator()(bool Options::*flag) const {
    options.*flag = !asRef(row.getFlag()).starts_with("--no-");
    return true;
  }
  bool operator()(int64_t Options::*number) const {
    if (row.getType() != OptionType::Bytes)
      return !value.getAsInteger(10, options.*number);
    auto bytes = parseByteSize(value);
    options.*number = bytes.value_or(-1);
    return bytes.has_value();
  }
  bool operator()(double Options::*number) const {
    return !value.getAsDouble(options.*number) && options.*number >= 0 &&
           std::isfinite(options.*number);
  }
  bool operator()(std::string Options::*text) const {
    options.*text = value.str();
    return !value.empty();
  }
  bool operator()(std::vector<std::string> Options::*texts) const {
    for (llvm::StringRef part : llvm::split(value, row.texts.separator))
      (options.*texts).push_back(part.str());
    return !value.empty();
  }
};
} // namespace

static llvm::StringRef getExpected(OptionType type) {
  switch (type) {
  case OptionType::Count:
    return "a whole number";
  case OptionType::Bytes:
    return "bytes, such as 800MB or 24GiB";
  case OptionType::Seconds:
    return "seconds, or 0 for no limit";
  default:
    return "a text that is not empty";
  }
}

/// Whether `tandem-compile` has the row as it is. Its own --explain and
/// --timeline take a file, too.
static bool isFlag(const OptionInfo &row) {
  return row.texts.isFlag && asRef(row.texts.name) != "explain" &&
         asRef(row.texts.name) != "timeline" &&
         !std::holds_alternative<std::monostate>(row.member);
}

static Flag getFlag(Options &options, const OptionInfo &row) {
  llvm::StringRef reader = row.reader;
  return {row.getFlag(),
          reader == "compiler" ? "" : reader,
          row.getType() != OptionType::Flag,
          [&options, &row](llvm::StringRef value) {
            return std::visit(SetMember{options, row, value}, row.member);
          },
          false,
          getExpected(row.getType())};
}

static std::vector<Flag> getFlags(ToolOptions &tool) {
  constexpr llvm::StringLiteral kAny = "", kPlan = "plan";
  std::vector<Flag> flags{
      {"--plan-only", kPlan, false, on(tool.planOnly)},
      {"--replan", kPlan, true, text(tool.replan)},
      {"--explain", kPlan, false,
       onWithFile(tool.compile.explain, tool.explainFile), true},
      {"--timeline", kPlan, false,
       onWithFile(tool.compile.timeline, tool.timelineFile), true},
      {"-o", kAny, true, text(tool.output)},
      {"--save-plan", kPlan, true, text(tool.savePlan)},
      {"--print-plan", kPlan, false, on(tool.printPlan)},
      {"--times", kAny, false, on(tool.printTimes)},
  };
  for (const OptionInfo &row : getOptionTable())
    if (isFlag(row))
      flags.push_back(getFlag(tool.compile, row));
  return flags;
}

/// Text in a column behind what it explains.
static void printRow(llvm::StringRef name, llvm::StringRef help) {
  constexpr unsigned kColumn = 23, kWidth = 80;
  llvm::outs() << "  " << name;
  unsigned at = 2 + name.size();
  if (at >= kColumn - 1) {
    llvm::outs() << "\n";
    at = 0;
  }
  for (llvm::StringRef word : llvm::split(help, ' ')) {
    bool isFirst = at < kColumn;
    if (!isFirst && at + 1 + word.size() > kWidth) {
      llvm::outs() << "\n";
      at = 0;
      isFirst = true;
    }
    unsigned blanks = isFirst ? kColumn - at : 1;
    llvm::outs().indent(blanks) << word;
    at += blanks + word.size();
  }
  llvm::outs() << "\n";
}

static void printHelp() {
  llvm::outs() << "usage: tandem-compile STEP.mlir [options]\n";
  for (const OptionInfo &row : getOptionTable())
    if (isFlag(row))
      printRow((row.getFlag() + " " + asRef(row.texts.value)).str(),
               getHelp(row));
  llvm::outs() << kToolHelp << "presets:\n";
  for (const PresetInfo &preset : getPresetTable())
    printRow(preset.name, preset.help);
  llvm::outs() << "stages: " << llvm::join(getStageNames(), ", ") << "\n";
}

//===----------------------------------------------------------------------===//
// The command line
//===----------------------------------------------------------------------===//

/// Sets the flag of `argument`, whose value may follow `=` or be the next one.
static std::string parseFlag(llvm::ArrayRef<Flag> flags, int argc, char **argv,
                             int &index, std::vector<const Flag *> &given) {
  auto [name, value] = llvm::StringRef(argv[index]).split('=');
  bool joined = llvm::StringRef(argv[index]).contains('=');
  for (const Flag &flag : flags) {
    if (name != flag.name)
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
  tool.compile.cost = tool.planOnly = true;
  return "";
}

/// `--plan-only` and `--replan` write no Program.
static std::string settlePlan(ToolOptions &tool) {
  if (!tool.replan.empty()) {
    if (!tool.compile.planFile.empty())
      return "options --replan and --plan-file name two plans";
    tool.compile.planFile = tool.replan;
    tool.planOnly = true;
    tool.compile.cost = true;
  }
  if (!tool.compile.planFile.empty() &&
      !(tool.compile.preset.empty() && tool.compile.search.empty()))
    return "a plan file is a plan of its own, expected neither --plan nor "
           "--search beside it";
  if (!tool.planOnly)
    return "";
  if (!tool.compile.stopAfter.empty())
    return "options --plan-only and --stop-after exclude each other";
  // How long a step takes is known of its Program, without kernels.
  if (!tool.compile.timeline)
    tool.compile.stopAfter = "plan";
  else if (tool.compile.device.empty())
    tool.compile.device = "sim";
  if (!tool.output.empty())
    tool.savePlan = tool.output;
  return "";
}

/// What a stage reads that does not run would be left out without a word.
static std::string checkReaders(const ToolOptions &tool,
                                llvm::ArrayRef<const Flag *> given) {
  std::vector<std::string> stages = getStageNames();
  auto from = llvm::find(stages, tool.compile.fromStage);
  if (from == stages.end())
    return "";
  for (const Flag *flag : given)
    if (!flag->reader.empty() && llvm::find(stages, flag->reader) <= from)
      return "option " + flag->name + " is for the stage " +
             flag->reader.str() + ", which does not run with --from " +
             tool.compile.fromStage + ": the module has left that stage";
  return "";
}

bool parseOptions(int argc, char **argv, ToolOptions &tool,
                  std::string &error) {
  std::vector<Flag> flags = getFlags(tool);
  std::vector<const Flag *> given;
  for (int i = 1; i < argc && error.empty(); ++i) {
    llvm::StringRef argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      printHelp();
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
  if (error.empty() && !tool.timelineFile.empty() &&
      !tool.compile.stopAfter.empty())
    error = "option --timeline names the file '" + tool.timelineFile +
            "', which needs the Program; expected no --stop-after beside it";
  llvm::SmallString<128> path(tool.input == "-" ? "step.mlir" : tool.input);
  llvm::sys::path::replace_extension(path, "tdm");
  if (tool.output.empty())
    tool.output = tool.writesIr() ? "-" : path.str().str();
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
