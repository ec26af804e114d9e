//===- tandem-plan.cpp - tandem-plan: from a search problem to a plan
//------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Explain.h"
#include "tandem/Search/Search.h"
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::search;

constexpr const char *kUsage =
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

namespace {
struct Arguments {
  std::string problem, search = "tandem", check, replan, output, json;
  std::vector<std::string> starts, compared;
  bool printsProblem = false, printsUsage = false, explains = false;
  /// Bytes; negative is no limit.
  double largestReplicate = -1;
  SearchOptions options;
};
} // namespace

static int fail(const std::string &message) {
  fprintf(stderr, "error: %s\n", message.c_str());
  return 1;
}

static bool readFile(const std::string &path, std::string &text,
                     std::string &error) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream buffer;
  buffer << file.rdbuf();
  text = buffer.str();
  if (file && file.good())
    return true;
  error = path + ": cannot be read, expected a file";
  return false;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

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

static bool parseArguments(int argc, char **argv, Arguments &arguments,
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

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

static std::optional<Plan> readPlan(const SearchProblem &problem,
                                    const std::string &path,
                                    std::string &error) {
  std::string text;
  if (!readFile(path, text, error))
    return std::nullopt;
  return parsePlan(problem, text, path, error);
}

static int writeFile(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? 0 : fail(path + ": cannot be written");
}

/// What was asked about the plan beside its cost.
static int report(const SearchProblem &problem, const Arguments &arguments,
                  const Plan &plan) {
  std::string error;
  if (arguments.explains || !arguments.json.empty()) {
    std::optional<Explanation> explanation =
        explain(problem, plan, ExplainOptions(), error);
    if (!explanation)
      return fail(error);
    if (arguments.explains)
      fputs(printText(*explanation).c_str(), stdout);
    if (!arguments.json.empty())
      if (int status = writeFile(arguments.json, printJson(*explanation)))
        return status;
  }
  if (arguments.largestReplicate >= 0)
    error = findReplicated(problem, plan,
                           static_cast<int64_t>(arguments.largestReplicate));
  return error.empty() ? 0 : fail(arguments.problem + ": " + error);
}

static int check(const SearchProblem &problem, const Arguments &arguments) {
  std::string error;
  std::optional<Plan> plan = readPlan(problem, arguments.check, error);
  if (!plan)
    return fail(error);
  if (!verifyPlan(problem, *plan, error))
    return fail(arguments.check + ": " + error);
  if (int status = report(problem, arguments, *plan))
    return status;
  printf("cost %.6f s\n", plan->cost);
  return 0;
}

static int compare(const SearchProblem &problem, const Arguments &arguments) {
  std::string error;
  std::vector<Plan> plans;
  for (const std::string &path : arguments.compared) {
    std::optional<Plan> plan = readPlan(problem, path, error);
    if (!plan)
      return fail(error);
    plans.push_back(std::move(*plan));
  }
  std::string text = compare(problem, plans[0], problem, plans[1], error);
  if (!error.empty())
    return fail(error);
  fputs(text.c_str(), stdout);
  return 0;
}

static int writePlan(const SearchProblem &problem, const Arguments &arguments,
                     const Plan &plan) {
  std::string text = print(problem, plan);
  if (!arguments.output.empty())
    return writeFile(arguments.output, text);
  if (!arguments.explains)
    fputs(text.c_str(), stdout);
  return 0;
}

/// The same decisions; what an algorithm proved of them held at other prices.
static int replan(const SearchProblem &problem, const Arguments &arguments) {
  std::string error;
  std::optional<Plan> plan = readPlan(problem, arguments.replan, error);
  if (!plan)
    return fail(error);
  plan->lowerBound = 0;
  plan->isOptimal = false;
  if (!derive(problem, *plan, error))
    return fail(arguments.replan + ": " + error);
  if (int status = writePlan(problem, arguments, *plan))
    return status;
  if (int status = report(problem, arguments, *plan))
    return status;
  printf("cost %.6f s\n", plan->cost);
  return 0;
}

/// Shows on a terminal how far a search is, at most once a second and not in
/// its first one.
static std::function<bool(double, double, double)> showProgress(bool &isShown) {
  using Clock = std::chrono::steady_clock;
  return [&isShown, last = Clock::now()](double done, double best,
                                         double bound) mutable {
    if (Clock::now() - last < std::chrono::seconds(1))
      return true;
    last = Clock::now();
    isShown = true;
    fprintf(stderr, "\rsearch %3.0f %%, best %.6f s, bound %.6f s   ",
            100 * done, best, bound);
    return true;
  };
}

static int printResult(const SearchProblem &problem, const Arguments &arguments,
                       const SearchResult &result, double seconds) {
  const Plan &plan = *result.plan;
  if (int status = writePlan(problem, arguments, plan))
    return status;
  if (int status = report(problem, arguments, plan))
    return status;
  printf("stages %zu\n", plan.stageEnds.size());
  printf("search %.6f s, %llu visited\n", seconds,
         static_cast<unsigned long long>(result.numVisited));
  if (plan.isOptimal)
    printf("optimal\n");
  else
    printf("gap %.4f %%\n",
           plan.cost > 0 ? 100 * (plan.cost - plan.lowerBound) / plan.cost : 0);
  if (result.stagesBound && !plan.isOptimal)
    printf("gap with these stages %.4f %%\n",
           plan.cost > 0 ? 100 * (plan.cost - *result.stagesBound) / plan.cost
                         : 0);
  printf("cost %.6f s\n", plan.cost);
  return 0;
}

static int run(Arguments &arguments) {
  std::string text, error;
  if (!readFile(arguments.problem, text, error))
    return fail(error);
  std::optional<SearchProblem> problem =
      parseSearchProblem(text, arguments.problem, error);
  if (!problem)
    return fail(error);
  if (arguments.printsProblem) {
    fputs(print(*problem).c_str(), stdout);
    return 0;
  }
  if (!arguments.check.empty())
    return check(*problem, arguments);
  if (!arguments.replan.empty())
    return replan(*problem, arguments);
  if (!arguments.compared.empty())
    return compare(*problem, arguments);
  for (const std::string &path : arguments.starts) {
    std::optional<Plan> plan = readPlan(*problem, path, error);
    if (!plan)
      return fail(error);
    arguments.options.starts.push_back(std::move(*plan));
  }
  Algorithm algorithm = findAlgorithm(arguments.search);
  if (!algorithm)
    return fail("found no algorithm '" + arguments.search +
                "', expected hidup, tandem, ilp or exhaustive");
  bool isShown = false;
  if (isatty(STDERR_FILENO))
    arguments.options.progress = showProgress(isShown);
  auto begin = std::chrono::steady_clock::now();
  SearchResult result = algorithm(*problem, arguments.options);
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  if (isShown)
    fputs("\n", stderr);
  if (!result.plan)
    return fail(arguments.problem + ": " + result.error);
  if (!verifyPlan(*problem, *result.plan, error))
    return fail("the plan that was found is not legal, which is a mistake of "
                "the search: " +
                error);
  return printResult(*problem, arguments, result, seconds.count());
}

int main(int argc, char **argv) {
  Arguments arguments;
  std::string error;
  if (!parseArguments(argc, argv, arguments, error))
    return fail(error);
  if (arguments.printsUsage) {
    fputs(kUsage, stdout);
    return 0;
  }
  return run(arguments);
}
