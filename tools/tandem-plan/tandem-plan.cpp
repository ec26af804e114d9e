//===- tandem-plan.cpp - from a search problem to a plan ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../common/python.h"
#include "Answer.h"
#include "Options.h"
#include "Pipeline.h"
#include "tandem/Explain/Explain.h"
#include "tandem/Search/Search.h"
#include "tandem/Search/Watch.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::explain;
using namespace tandem::search;

/// The last line of every answer.
static void printCost(const Plan &plan) {
  printf("cost %s\n", printSeconds(plan.cost).c_str());
}

static std::optional<Plan> readPlan(const SearchProblem &problem,
                                    const std::string &path,
                                    std::string &error) {
  std::optional<std::string> text = readFile(path, error);
  if (!text)
    return std::nullopt;
  return parsePlan(problem, *text, path, error);
}

/// A plan without a hash may parse by chance; prices may differ.
static std::optional<Plan> readPlanFor(const SearchProblem &problem,
                                       const std::string &path,
                                       std::string &error) {
  std::optional<Plan> plan = readPlan(problem, path, error);
  if (plan && !isForProblem(problem, *plan, error)) {
    error = path + ": " + error;
    return std::nullopt;
  }
  return plan;
}

/// What was asked about the plan beside its cost.
static int report(const SearchProblem &problem, const Arguments &arguments,
                  const Plan &plan) {
  std::string error;
  if (arguments.explains || !arguments.json.empty()) {
    if (problem.accounting == Accounting::Oases)
      return fail("the accounting oases has no explanations");
    ExplainOptions options;
    options.timeLimit = arguments.options.timeLimit;
    options.endsSearch = InterruptGuard::isInterrupted;
    std::optional<Explanation> explanation =
        explain::explain(problem, plan, options, error);
    if (!explanation)
      return fail(error);
    if (arguments.explains)
      fputs(printText(*explanation).c_str(), stdout);
    if (!arguments.json.empty())
      if (int status = writeFile(arguments.json, kExplanationFile,
                                 printJson(*explanation)))
        return status;
  }
  if (arguments.largestReplicate >= 0)
    error = findReplicated(problem, plan, arguments.largestReplicate);
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
  printCost(*plan);
  return 0;
}

static int compare(const SearchProblem &problem, const Arguments &arguments) {
  std::string error;
  std::vector<Plan> plans;
  for (const std::string &path : arguments.compared) {
    std::optional<Plan> plan = readPlanFor(problem, path, error);
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
    return writeFile(arguments.output, kPlanFile, text);
  if (!arguments.explains)
    fputs(text.c_str(), stdout);
  return 0;
}

/// The same decisions; what an algorithm proved of them held at other prices.
/// A plan that does not fit has a cost as well.
static int replan(const SearchProblem &problem, const Arguments &arguments) {
  std::string error;
  std::optional<Plan> plan = readPlanFor(problem, arguments.replan, error);
  if (!plan)
    return fail(error);
  plan->lowerBound = 0;
  plan->isOptimal = false;
  if (!derive(problem, *plan, error, LimitUse::Ignore))
    return fail(arguments.replan + ": " + error);
  if (plan->peak > problem.memoryLimit)
    fprintf(stderr,
            "warning: %s: the plan holds %lld B at its peak, the limit is %lld "
            "B\n",
            arguments.replan.c_str(), static_cast<long long>(plan->peak),
            static_cast<long long>(problem.memoryLimit));
  if (int status = writePlan(problem, arguments, *plan))
    return status;
  if (int status = report(problem, arguments, *plan))
    return status;
  printCost(*plan);
  return 0;
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
    printGap("gap", plan.cost, plan.lowerBound);
  if (result.stagesBound && !plan.isOptimal)
    printGap("gap with these stages", plan.cost, *result.stagesBound);
  if (result.strandsBound && !plan.isOptimal)
    printGap("gap with these stages and strands", plan.cost,
             *result.strandsBound);
  printCost(plan);
  return 0;
}

/// Shows how far the search is.
static SearchResult runSearch(const SearchProblem &problem,
                              SearchOptions &options, Algorithm algorithm) {
  Watch watch(InterruptGuard::isInterrupted);
  options.progress = [&](double done, double best, double bound) {
    return watch.show(done, best, bound);
  };
  return algorithm(problem, options);
}

/// Asked before the search, which may take hours.
static bool mayWrite(const Arguments &arguments, std::string &error) {
  std::vector<std::string> inputs = arguments.starts;
  inputs.insert(inputs.end(), arguments.compared.begin(),
                arguments.compared.end());
  for (const std::string &input : {arguments.check, arguments.replan})
    inputs.push_back(input);
  for (auto [path, kind] : {std::pair(&arguments.output, &kPlanFile),
                            std::pair(&arguments.json, &kExplanationFile)})
    if (!mayReplace(*path, *kind, error, inputs)) {
      error = "cannot write '" + *path + "': " + error;
      return false;
    }
  return true;
}

static int run(Arguments &arguments) {
  std::string error;
  if (!mayWrite(arguments, error))
    return fail(error);
  std::optional<std::string> text = readFile(arguments.problem, error);
  if (!text)
    return fail(error);
  std::optional<SearchProblem> problem =
      parseSearchProblem(*text, arguments.problem, error);
  if (!problem)
    return fail(error);
  if (arguments.printsProblem) {
    fputs(print(*problem).c_str(), stdout);
    return 0;
  }
  // Ends a search with the best plan so far, and those of an explanation.
  InterruptGuard guard;
  if (!arguments.check.empty())
    return check(*problem, arguments);
  if (!arguments.replan.empty())
    return replan(*problem, arguments);
  if (!arguments.compared.empty())
    return compare(*problem, arguments);
  for (const std::string &path : arguments.starts) {
    std::optional<Plan> plan = readPlanFor(*problem, path, error);
    if (!plan)
      return fail(error);
    arguments.options.starts.push_back(std::move(*plan));
  }
  Algorithm algorithm = findAlgorithm(arguments.search);
  if (!algorithm)
    return fail("found no algorithm '" + arguments.search +
                "', expected hidup, oases, tandem, ilp or exhaustive");
  auto begin = std::chrono::steady_clock::now();
  SearchResult result = runSearch(*problem, arguments.options, algorithm);
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  if (!result.plan)
    return fail(arguments.problem + ": " + result.error);
  if (!verifyPlan(*problem, *result.plan, error))
    return fail("the plan that was found is not legal, which is a mistake of "
                "the search: " +
                error);
  return printResult(*problem, arguments, result, seconds.count());
}

int main(int argc, char **argv) {
  if (argc > 1 && std::string_view(argv[1]) == "sweep")
    return fail(becomePython("sweep", argv + 2));
  Arguments arguments;
  std::string error;
  if (!parseArguments(argc, argv, arguments, error))
    return fail(error);
  if (arguments.printsUsage) {
    fputs(kUsage, stdout);
    return 0;
  }
  if (!arguments.partition.empty())
    return runPartition(arguments);
  if (!arguments.layouts.empty())
    return runLayouts(arguments);
  if (!arguments.schedule.empty())
    return runSchedule(arguments);
  return run(arguments);
}
