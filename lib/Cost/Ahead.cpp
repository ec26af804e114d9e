//===- Ahead.cpp - recomputation beside collectives of its stage ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Ahead.h"
#include <algorithm>

using namespace tandem::cost;

/// All results of an operator and its workspace, in no memory of another value.
static int64_t countBytes(const SearchProblem &problem, const Plan &plan,
                          unsigned op) {
  const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
  int64_t bytes = signature.workspace;
  for (size_t i = 0; i < signature.results.size(); ++i)
    bytes += problem.getBytes(problem.operators[op].results[i],
                              signature.results[i]);
  return bytes;
}

/// Per stage, the last one up to it that has collectives, if it and all between
/// them have one strand; else none.
static std::vector<std::optional<unsigned>>
findCollectives(const CostReport &report) {
  std::vector<std::optional<unsigned>> found;
  std::optional<unsigned> last;
  for (const Step &step : report.steps) {
    if (report.stageStrands[step.stage] > 1)
      last.reset();
    else if (step.collective > 0)
      last = step.stage;
    if (step.strand == 0)
      found.push_back(last);
  }
  return found;
}

Ahead tandem::cost::findAhead(const SearchProblem &problem, const Plan &plan,
                              ChangeTable &table,
                              const std::vector<bool> &makesAgain,
                              int64_t limit) {
  std::string error;
  std::optional<CostReport> report = cost(problem, plan, table, error);
  if (!report)
    return {};
  Ahead ahead;
  ahead.bytes.resize(plan.stageEnds.size());
  unsigned op = 0;
  std::vector<std::optional<unsigned>> collectives = findCollectives(*report);
  for (unsigned stage = 0; stage < collectives.size(); ++stage) {
    std::optional<unsigned> first = collectives[stage];
    int64_t bytes = 0;
    for (; op < plan.stageEnds[stage]; ++op)
      bytes += makesAgain[op] ? countBytes(problem, plan, op) : 0;
    auto hasRoom = [&](unsigned held) {
      return bytes <= limit - report->stageBytes[held] - ahead.bytes[held];
    };
    if (bytes == 0 || !first)
      continue;
    unsigned held = *first;
    while (held <= stage && hasRoom(held))
      ++held;
    if (held <= stage)
      continue;
    ahead.stages.push_back(stage);
    for (held = *first; held <= stage; ++held)
      ahead.bytes[held] += bytes;
  }
  return ahead;
}
