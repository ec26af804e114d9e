//===- tandem-plan.cpp - from a search problem to a plan ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "tandem/Search/Explain.h"
#include "tandem/Search/Search.h"
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::search;

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

static std::optional<Plan> readPlan(const SearchProblem &problem,
                                    const std::string &path,
                                    std::string &error) {
  std::string text;
  if (!readFile(path, text, error))
    return std::nullopt;
  return parsePlan(problem, text, path, error);
}

/// A plan of another graph may parse by chance; prices may differ.
static bool isForGraph(const SearchProblem &problem, const Plan &plan,
                       const std::string &path, std::string &error) {
  std::string hash = getStructureHash(problem);
  if (plan.structureHash == hash)
    return true;
  error = path + ": the plan is for the problem " +
          (plan.structureHash.empty() ? "(no hash)" : plan.structureHash) +
          ", expected " + hash + ": search again for this problem";
  return false;
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
    if (!plan || !isForGraph(problem, *plan, path, error))
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
  if (!plan || !isForGraph(problem, *plan, arguments.replan, error))
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

/// Set by the first interrupt; the next one ends the process.
static volatile std::sig_atomic_t isInterrupted = 0;

static void interruptOnce() {
  struct sigaction action = {};
  action.sa_handler = [](int) { isInterrupted = 1; };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
}

/// Shows on a terminal how far a search is, at most once a second and not in
/// its first one. Ends it at an interrupt, with the best plan so far.
static std::function<bool(double, double, double)> watch(bool &isShown) {
  using Clock = std::chrono::steady_clock;
  bool shows = isatty(STDERR_FILENO);
  return [&isShown, shows, last = Clock::now()](double done, double best,
                                                double bound) mutable {
    if (shows && Clock::now() - last >= std::chrono::seconds(1)) {
      last = Clock::now();
      isShown = true;
      fprintf(stderr, "\rsearch %3.0f %%, best %.6f s, bound %.6f s   ",
              100 * done, best, bound);
    }
    return !isInterrupted;
  };
}

static void printGap(const char *name, const Plan &plan, double bound) {
  double gap = getGap(plan.cost, bound);
  if (std::isfinite(gap))
    printf("%s %.4f %%\n", name, 100 * gap);
  else
    printf("%s unknown: no bound was proven\n", name);
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
    printGap("gap", plan, plan.lowerBound);
  if (result.stagesBound && !plan.isOptimal)
    printGap("gap with these stages", plan, *result.stagesBound);
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
    if (!plan || !isForGraph(*problem, *plan, path, error))
      return fail(error);
    arguments.options.starts.push_back(std::move(*plan));
  }
  Algorithm algorithm = findAlgorithm(arguments.search);
  if (!algorithm)
    return fail("found no algorithm '" + arguments.search +
                "', expected hidup, tandem, ilp or exhaustive");
  bool isShown = false;
  interruptOnce();
  arguments.options.progress = watch(isShown);
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
