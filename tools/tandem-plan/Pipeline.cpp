//===- Pipeline.cpp - cuts and layouts of pipelines -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipeline.h"
#include "Answer.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Search/Pipeline/Layouts.h"
#include "tandem/Search/Watch.h"
#include <chrono>
#include <cstdio>

using namespace tandem;
using namespace tandem::pipeline;

static const FileKind kCutFile = {
    "cut", [](std::string_view begin) { return begin.starts_with("cut "); }};
static const FileKind kLayoutFile = {"layout", [](std::string_view begin) {
                                       return begin.starts_with("layout ");
                                     }};

/// The time limit, or an interrupt.
static Deadline makeDeadline(const Arguments &arguments) {
  return {arguments.options.timeLimit, search::InterruptGuard::isInterrupted};
}

/// The sections of a cut as `tandem-order --sections` reads them, and their
/// layers in comments.
static void explain(const CutProblem &problem, const CutResult &result) {
  unsigned layer = 0;
  for (unsigned i = 0; i < result.cut.size(); layer += result.cut[i++])
    printf("# section %u: layers %u to %u\n", i, layer,
           layer + result.cut[i] - 1);
  fputs(orders::print(makePartition(problem, result.cut)).c_str(), stdout);
}

static int checkCut(const CutProblem &problem, const Arguments &arguments) {
  std::string error;
  std::optional<std::string> text = readFile(arguments.check, error);
  if (!text)
    return fail(error);
  auto result = readCutResult(problem, *text, arguments.check, error);
  if (!result)
    return fail(error);
  if (arguments.explains)
    explain(problem, *result);
  printf("cost %s\n", orders::printQuantity(result->cost).c_str());
  return 0;
}

int tandem::runPartition(const Arguments &arguments) {
  std::string error;
  std::optional<std::string> text = readFile(arguments.partition, error);
  if (!text)
    return fail(error);
  auto problem = parseCutProblem(*text, arguments.partition, error);
  if (!problem)
    return fail(error);
  if (arguments.printsProblem) {
    fputs(print(*problem).c_str(), stdout);
    return 0;
  }
  if (!arguments.check.empty())
    return checkCut(*problem, arguments);
  search::InterruptGuard guard;
  auto begin = std::chrono::steady_clock::now();
  CutResult result = searchCut(*problem, makeDeadline(arguments));
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  if (!result.error.empty())
    return fail(arguments.partition + ": " + result.error);
  if (!verifyCut(*problem, result, error))
    return fail("the cut that was found is not legal, which is a mistake of "
                "the search: " +
                error);
  if (int status = writeFile(arguments.output, kCutFile, print(result)))
    return status;
  if (arguments.explains)
    explain(*problem, result);
  printf("# search %.6f s, %u simulated\n", seconds.count(), result.numTried);
  if (result.isOptimal)
    printf("# optimal\n");
  else
    printGap("# gap", result.cost, result.lowerBound);
  return 0;
}

static int checkLayout(const LayoutProblem &problem,
                       const Arguments &arguments) {
  std::string error;
  std::optional<std::string> text = readFile(arguments.check, error);
  if (!text)
    return fail(error);
  auto result = readLayoutResult(problem, *text, arguments.check, error);
  if (!result)
    return fail(error);
  printf("cost %s\n", orders::printQuantity(result->seconds).c_str());
  return 0;
}

int tandem::runLayouts(const Arguments &arguments) {
  std::string error;
  std::optional<std::string> text = readFile(arguments.layouts, error);
  if (!text)
    return fail(error);
  auto problem = parseLayoutProblem(*text, arguments.layouts, error);
  if (!problem)
    return fail(error);
  if (!arguments.check.empty())
    return checkLayout(*problem, arguments);
  search::InterruptGuard guard;
  std::vector<LayoutResult> results =
      searchLayouts(*problem, makeDeadline(arguments));
  if (results.empty() || results.front().cut.empty())
    return fail(arguments.layouts + ": no layout fits: " +
                (results.empty() ? "the batch divides into none"
                                 : print(results.front().layout) + ": " +
                                       results.front().why));
  if (!verifyLayout(*problem, results.front(), error))
    return fail("the layout that was found is not legal, which is a mistake of "
                "the search: " +
                error);
  if (!arguments.output.empty())
    if (int status =
            writeFile(arguments.output, kLayoutFile, print(results.front())))
      return status;
  if (!arguments.explains)
    results.resize(1);
  fputs(print(results).c_str(), stdout);
  return 0;
}
