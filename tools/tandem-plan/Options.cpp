//===- Options.cpp - the command line -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include <charconv>
#include <cmath>
#include <sstream>

namespace tandem {

const char *const kUsage =
    "usage: tandem-plan PROBLEM [--search hidup|tandem|ilp|exhaustive] "
    "[options]\n"
    "  --search NAME          the algorithm (tandem)\n"
    "  --check PLAN           verify this plan instead of searching one\n"
    "  --replan PLAN          cost this plan's decisions at this problem's "
    "prices\n"
    "  --start PLAN           be no worse than this plan; may be given again\n"
    "  --stages N,N,...       ilp: where the stages end\n"
    "  --gap SHARE            stop when the gap is proven to be at most this\n"
    "  --search-time-limit S  return the best plan after S seconds\n"
    "  --explain              say why the plan is as it is, in place of the "
    "plan\n"
    "  --json FILE            write the explanation as JSON\n"
    "  --compare PLAN PLAN    say where two plans differ and what that costs\n"
    "  --fail-on-replicate B  fail if a tensor of more than B bytes is left "
    "whole\n"
    "  -o FILE                write the plan to FILE instead of printing it\n"
    "  --print-problem        print the problem again and stop\n";

static bool parseSeconds(const std::string &text, double &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
         std::isfinite(value) && value >= 0;
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

static bool setOption(Arguments &arguments, const std::string &name,
                      const std::string &value, std::string &error) {
  bool isGood = true;
  if (name == "--search")
    arguments.search = value;
  else if (name == "--check")
    arguments.check = value;
  else if (name == "--replan")
    arguments.replan = value;
  else if (name == "--start")
    arguments.starts.push_back(value);
  else if (name == "-o")
    arguments.output = value;
  else if (name == "--json")
    arguments.json = value;
  else if (name == "--fail-on-replicate")
    isGood = parseSeconds(value, arguments.largestReplicate);
  else if (name == "--stages")
    isGood = parseStages(value, arguments.options.stageEnds);
  else if (name == "--gap")
    isGood = parseSeconds(value, arguments.options.gap);
  else if (name == "--search-time-limit")
    isGood = parseSeconds(value, arguments.options.timeLimit);
  else
    error = "unknown option '" + name + "', see tandem-plan --help";
  if (!isGood)
    error = name + " '" + value + "': expected a number that is not negative" +
            (name == "--stages" ? ", several divided by commas" : "");
  return error.empty();
}

/// The options without a value.
static bool setFlag(Arguments &arguments, const std::string &word) {
  bool isExplain = word == "--explain", isPrint = word == "--print-problem";
  arguments.explains |= isExplain;
  arguments.printsProblem |= isPrint;
  return isExplain || isPrint;
}

bool parseArguments(int argc, char **argv, Arguments &arguments,
                    std::string &error) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--help" || word == "-h") {
      arguments.printsUsage = true;
      return true;
    }
    if (setFlag(arguments, word))
      continue;
    if (word == "--compare") {
      if (argc - i < 3) {
        error = "--compare: expected two plans behind it";
        return false;
      }
      arguments.compared = {argv[i + 1], argv[i + 2]};
      i += 2;
    } else if (word.size() > 1 && word[0] == '-') {
      if (i + 1 == argc) {
        error = word + ": expected a value behind it";
        return false;
      }
      if (!setOption(arguments, word, argv[++i], error))
        return false;
    } else if (arguments.problem.empty()) {
      arguments.problem = word;
    } else {
      error = "found a second problem '" + word + "', expected one";
      return false;
    }
  }
  if (arguments.problem.empty())
    error = "found no problem, expected 'tandem-plan PROBLEM', see --help";
  return error.empty();
}

} // namespace tandem
