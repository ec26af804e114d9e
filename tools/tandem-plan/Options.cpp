//===- Options.cpp - the command line -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include <charconv>
#include <cmath>
#include <functional>
#include <set>
#include <sstream>

namespace tandem {

const char *const kUsage =
    "usage: tandem-plan PROBLEM [--search hidup|oases|tandem|ilp|exhaustive] "
    "[options]\n"
    "       tandem-plan --partition CUTS|--layouts LAYOUTS [options]\n"
    "       tandem-plan --schedule SECTIONS [options]\n"
    "       tandem-plan sweep STEP.mlir --cluster FILE [options]\n"
    "A sweep plans and simulates a step on many clusters: it runs the command\n"
    "'python3 -m tandem sweep' (docs/what-if.md). Else:\n"
    "Searches a plan for a problem, a text written by tandem-compile\n"
    "--problem-out (docs/plan-files.md).\n"
    "  --search NAME          the algorithm (tandem)\n"
    "  --partition CUTS       search which layers form which section of a "
    "pipeline\n"
    "  --layouts LAYOUTS      search degrees, microbatches, nodes and cuts of "
    "a "
    "pipeline\n"
    "                         (docs/choosing-pipelines.md)\n"
    "  --schedule SECTIONS    search in which order the points of a pipeline "
    "run\n"
    "                         sections and microbatches (docs/orders.md)\n"
    "  --check PLAN           verify this plan instead of searching one\n"
    "  --replan PLAN          price this plan's decisions for this problem\n"
    "  --start PLAN           give no worse plan than this; may be repeated\n"
    "  --stages N,N,...       ilp: the operator behind each HiDup stage\n"
    "  --gap SHARE            stop once the proven gap is at most SHARE\n"
    "  --search-time-limit S  return the best plan after S seconds\n"
    "  --explain              print an explanation instead of the plan\n"
    "  --json FILE            write the explanation as JSON\n"
    "  --compare PLAN PLAN    print differences of two plans and their costs\n"
    "  --fail-on-replicate B  fail if all devices hold a whole tensor above B "
    "bytes\n"
    "  -o FILE                write the plan to FILE instead of printing it\n"
    "  --print-problem        print the parsed problem and stop\n";

static bool parseNumber(const std::string &text, double &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
         std::isfinite(value) && value >= 0;
}

/// `1000000` or `1e6`.
static bool parseBytes(const std::string &text, int64_t &value) {
  double number = 0;
  if (!parseNumber(text, number) || number != std::floor(number) ||
      number > 0x1p53)
    return false;
  value = static_cast<int64_t>(number);
  return true;
}

static bool parseStages(const std::string &text, std::vector<unsigned> &ends) {
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    unsigned value = 0;
    auto [end, error] =
        std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size())
      return false;
    ends.push_back(value);
  }
  return !ends.empty();
}

/// What the search is to leave out (benchmarks/ablation.py).
static bool parseMechanisms(const std::string &text,
                            search::MechanismSet &mechanisms) {
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::optional<search::Mechanism> found = search::findMechanism(part);
    if (!found)
      return false;
    mechanisms.add(*found);
  }
  return true;
}

namespace {
using Values = std::vector<std::string>;

struct Option {
  std::string_view name;
  size_t numValues;
  /// What the values have to be.
  const char *expected;
  /// False if they are not that.
  std::function<bool(const Values &)> set;
};
} // namespace

static Option takeText(std::string_view name, const char *expected,
                       std::string &target) {
  return {name, 1, expected, [&target](const Values &values) {
            target = values[0];
            return !target.empty();
          }};
}

static Option takeNumber(std::string_view name, const char *expected,
                         double &target) {
  return {name, 1, expected, [&target](const Values &values) {
            return parseNumber(values[0], target);
          }};
}

static Option takeFlag(std::string_view name, bool &target) {
  return {name, 0, "no value",
          [&target](const Values &) { return target = true; }};
}

static std::vector<Option> getOptions(Arguments &arguments) {
  return {takeText("--search", "hidup, oases, tandem, ilp or exhaustive",
                   arguments.search),
          takeText("--partition", "a problem of cuts", arguments.partition),
          takeText("--layouts", "a problem of layouts", arguments.layouts),
          takeText("--schedule", "a problem of an order", arguments.schedule),
          takeText("--check", "a plan", arguments.check),
          takeText("--replan", "a plan", arguments.replan),
          {"--start", 1, "a plan",
           [&](const Values &values) {
             arguments.starts.push_back(values[0]);
             return !values[0].empty();
           }},
          {"--compare", 2, "two plans",
           [&](const Values &values) {
             arguments.compared = values;
             return true;
           }},
          {"--stages", 1, "numbers divided by commas",
           [&](const Values &values) {
             return parseStages(values[0], arguments.options.stageEnds);
           }},
          takeNumber("--gap", "a number that is not negative, such as 0.05",
                     arguments.options.gap),
          takeNumber("--search-time-limit",
                     "a number that is not negative, of seconds",
                     arguments.options.timeLimit),
          {"--fail-on-replicate", 1, "a whole number of bytes",
           [&](const Values &values) {
             return parseBytes(values[0], arguments.largestReplicate);
           }},
          {"--without", 1, search::listMechanisms(),
           [&](const Values &values) {
             return parseMechanisms(values[0], arguments.options.without);
           }},
          takeText("-o", "a file", arguments.output),
          takeText("--json", "a file", arguments.json),
          takeFlag("--explain", arguments.explains),
          takeFlag("--print-problem", arguments.printsProblem),
          takeFlag("--help", arguments.printsUsage),
          takeFlag("-h", arguments.printsUsage)};
}

/// Sets the option at `index`, whose values may follow `=` or be the next
/// words; leaves `index` at the last of them.
static std::string setOption(const std::vector<Option> &options, int argc,
                             char **argv, int &index,
                             std::set<std::string_view> &given) {
  std::string word = argv[index], name = word.substr(0, word.find('='));
  Values values;
  if (name.size() < word.size())
    values.push_back(word.substr(name.size() + 1));
  for (const Option &option : options) {
    if (option.name != name)
      continue;
    while (values.size() < option.numValues && index + 1 < argc)
      values.push_back(argv[++index]);
    std::string found;
    for (const std::string &value : values)
      found += (found.empty() ? "" : " ") + value;
    given.insert(option.name);
    if (values.size() == option.numValues && option.set(values))
      return "";
    return name + ": found " +
           (values.empty() ? "nothing" : "'" + found + "'") + ", expected " +
           option.expected;
  }
  return "unknown option '" + name + "', see tandem-plan --help";
}

/// Two options that mean nothing together, if they were given.
static std::string findConflict(const std::set<std::string_view> &given) {
  using Names = std::vector<std::string_view>;
  static const std::pair<Names, Names> exclusive[] = {
      {{"--check", "--replan", "--compare"},
       {"--replan", "--compare", "--search", "--start", "--stages", "--gap"}},
      {{"--compare"}, {"--explain", "--json", "--fail-on-replicate", "-o"}},
      {{"--partition", "--layouts", "--schedule"},
       {"--partition", "--layouts", "--schedule", "--search", "--replan",
        "--start", "--compare", "--stages", "--gap", "--json",
        "--fail-on-replicate", "--without"}},
      {{"--layouts"}, {"--print-problem"}},
      {{"--schedule"}, {"--explain"}},
      {{"--check"}, {"-o"}}};
  for (const auto &[names, others] : exclusive)
    for (std::string_view name : names)
      for (std::string_view other : others)
        if (name != other && given.count(name) && given.count(other))
          return "found " + std::string(name) + " and " + std::string(other) +
                 ", expected one of the two";
  return "";
}

/// Whether no plan is searched, as there is one.
static bool hasPlan(const std::set<std::string_view> &given) {
  return given.count("--check") || given.count("--replan") ||
         given.count("--compare");
}

/// Whether nothing is searched, neither a plan nor other forms. What is
/// compared is not explained.
static bool searchesNothing(const std::set<std::string_view> &given) {
  return hasPlan(given) && !given.count("--explain") && !given.count("--json");
}

static std::string check(const Arguments &arguments,
                         const std::set<std::string_view> &given) {
  bool isOfPipeline = given.count("--partition") || given.count("--layouts") ||
                      given.count("--schedule");
  if (isOfPipeline && !arguments.problem.empty())
    return "found the problem '" + arguments.problem +
           "' beside that of a pipeline, expected one of the two";
  if (arguments.problem.empty() && !isOfPipeline)
    return "found no problem, expected 'tandem-plan PROBLEM', see --help";
  if (std::string error = findConflict(given); !error.empty())
    return error;
  if (given.count("--search-time-limit") && searchesNothing(given))
    return "found --search-time-limit without a search, expected a search or "
           "--explain";
  if (given.count("--without") &&
      (hasPlan(given) || arguments.search != "tandem"))
    return "found --without where nothing is searched by 'tandem', whose "
           "mechanisms it leaves out";
  if (given.count("--stages") && arguments.search != "ilp")
    return "found --stages with the search '" + arguments.search +
           "', expected --search ilp, which takes them";
  if (given.count("--gap") && arguments.search == "exhaustive")
    return "found --gap with the search 'exhaustive', which looks at all plans";
  return "";
}

bool parseArguments(int argc, char **argv, Arguments &arguments,
                    std::string &error) {
  std::vector<Option> options = getOptions(arguments);
  std::set<std::string_view> given;
  for (int i = 1; i < argc && error.empty(); ++i) {
    std::string word = argv[i];
    if (word.size() > 1 && word[0] == '-')
      error = setOption(options, argc, argv, i, given);
    else if (arguments.problem.empty())
      arguments.problem = word;
    else
      error = "found a second problem '" + word + "', expected one";
  }
  if (error.empty() && !arguments.printsUsage)
    error = check(arguments, given);
  return error.empty();
}

} // namespace tandem
