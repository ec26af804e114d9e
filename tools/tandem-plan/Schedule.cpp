//===- Schedule.cpp - orders of pipelines ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Answer.h"
#include "Pipeline.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Search/Pipeline/OrderSearch.h"
#include "tandem/Search/Watch.h"
#include <chrono>
#include <cstdio>

using namespace tandem;
using namespace tandem::pipeline;
using orders::printQuantity;

static const FileKind kOrderFile = {
    "order", [](std::string_view begin) { return begin.starts_with("0F0"); }};

/// Comments of an order, so that all of the output is one.
static void printResult(const OrderSearchResult &result) {
  printf("# makespan %s\n# longest span %s\n",
         printQuantity(result.makespan).c_str(),
         printQuantity(result.longestSpan).c_str());
  for (size_t i = 0; i < result.peaks.size(); ++i)
    printf("# peak of point %zu %s\n", i,
           printQuantity(result.peaks[i]).c_str());
}

static void printBound(const OrderSearchResult &result) {
  printf("# lower bound %s\n", printQuantity(result.lowerBound).c_str());
  if (result.cost <= result.lowerBound * (1 + 1e-9))
    printf("# optimal\n");
  else
    printGap("# gap", result.cost, result.lowerBound);
}

static int checkSchedule(const ScheduleProblem &problem,
                         const Arguments &arguments) {
  std::string error;
  std::optional<std::string> text = readFile(arguments.check, error);
  if (!text)
    return fail(error);
  std::optional<orders::Order> order =
      orders::parseOrder(*text, arguments.check, error);
  if (!order)
    return fail(error);
  std::optional<OrderSearchResult> result =
      measureOrder(problem, *order, arguments.check, error);
  if (!result)
    return fail(error);
  printResult(*result);
  printf("# cost %s\n", printQuantity(result->cost).c_str());
  return 0;
}

static int searchSchedule(const ScheduleProblem &problem,
                          const Arguments &arguments) {
  // Ends the search with the best order so far.
  tandem::search::InterruptGuard guard;
  OrderSearchOptions options;
  options.deadline = {arguments.options.timeLimit,
                      tandem::search::InterruptGuard::isInterrupted};
  auto begin = std::chrono::steady_clock::now();
  OrderSearchResult result = searchOrder(problem, options);
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  if (!result.order)
    return fail(arguments.schedule + ": " + result.error);
  if (int status =
          writeFile(arguments.output, kOrderFile, print(*result.order)))
    return status;
  printResult(result);
  printBound(result);
  if (result.costOfPlain)
    printf("# the order for durations without noise costs %s, %.1f %% more\n",
           printQuantity(*result.costOfPlain).c_str(),
           100 * (*result.costOfPlain / result.cost - 1));
  printf("# search %.6f s, %llu visited\n", seconds.count(),
         static_cast<unsigned long long>(result.numVisited));
  printf("# cost %s\n", printQuantity(result.cost).c_str());
  return 0;
}

int tandem::runSchedule(const Arguments &arguments) {
  std::string error;
  if (!mayReplace(arguments.output, kOrderFile, error, {arguments.schedule}))
    return fail("cannot write '" + arguments.output + "': " + error);
  std::optional<std::string> text = readFile(arguments.schedule, error);
  if (!text)
    return fail(error);
  auto problem = parseScheduleProblem(*text, arguments.schedule, error);
  if (!problem)
    return fail(error);
  if (arguments.printsProblem) {
    fputs(print(*problem).c_str(), stdout);
    return 0;
  }
  return arguments.check.empty() ? searchSchedule(*problem, arguments)
                                 : checkSchedule(*problem, arguments);
}
