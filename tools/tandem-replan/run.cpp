//===- run.cpp - another order for a Program ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "run.h"
#include "../common/file.h"
#include "tandem/Replan/ReplanOrder.h"
#include "tandem_rt/new_file.h"
#include <cstdio>

namespace tandem::replan {

using namespace rt;

/// Durations that differ by less are those of one machine at rest.
static constexpr double kLeastSpread = 0.005;

/// A row begins with the first microbatch of a section: `2F0`.
static const FileKind kOrderFile{"order", [](std::string_view begin) {
                                   size_t end =
                                       begin.find_first_not_of("0123456789");
                                   return end > 0 && end < begin.size() &&
                                          begin.substr(end).starts_with("F0");
                                 }};

static Expected<Measured> read(const Options &options) {
  Expected<Bytes> bytes = readFile(options.program);
  if (!bytes.ok())
    return bytes.status();
  Expected<Program> program = loadProgram(*bytes);
  if (!program.ok())
    return Status::error("'" + options.program +
                         "': " + program.status().message());
  Expected<Timeline> timeline = readTimeline(options.trace);
  if (!timeline.ok())
    return timeline.status();
  if (timeline->head.program != programHash(*bytes))
    return Status::error("'" + options.trace +
                         "' is a trace of another Program, expected one of '" +
                         options.program + "': run it with --trace");
  if (!timeline->missing.empty())
    return Status::error("'" + options.trace + "' lacks rank " +
                         std::to_string(timeline->missing.front().rank) +
                         ", expected a trace of all ranks");
  std::string error;
  std::optional<Measured> measured = measureActions(*program, *timeline, error);
  if (!measured)
    return Status::error("'" + options.program + "' " + error);
  return std::move(*measured);
}

static void printRow(const char *what, double seconds, double of) {
  std::printf("# %-30s %.6f s", what, seconds);
  if (of > 0)
    std::printf("  %+.1f %%", 100 * (seconds / of - 1));
  std::printf("\n");
}

/// Comments of an order, so that all of the output is one.
static void printTable(const Measured &measured, double before,
                       const pipeline::OrderSearchResult &found) {
  std::printf("# durations of %u steps; actions differ by %.1f %%%s\n",
              measured.numSteps, 100 * measured.spread,
              measured.problem.noise ? "; means over noise" : "");
  printRow("the order of the Program", before, 0);
  if (found.costOfPlain)
    printRow("for durations without noise", *found.costOfPlain, before);
  printRow("this order", found.cost, before);
  printRow("no order takes less than", found.lowerBound, before);
}

static Status write(const orders::Order &order, const std::string &path) {
  std::string text = print(order);
  if (path.empty())
    return std::fputs(text.c_str(), stdout), Status::success();
  NewFile file(path, kOrderFile);
  file.stream() << text;
  return file.finish();
}

Status run(const Options &options) {
  if (!options.output.empty())
    if (Status status = checkOutput(options.output, kOrderFile,
                                    {options.program, options.trace});
        !status.ok())
      return status;
  Expected<Measured> measured = read(options);
  if (!measured.ok())
    return measured.status();
  if (measured->spread > kLeastSpread) {
    if (!options.seed)
      return Status::error("noise without a seed: the actions of '" +
                           options.trace +
                           "' differ from time to time, expected --seed N");
    measured->problem.noise =
        pipeline::Noise{measured->spread, uint64_t(*options.seed)};
  }
  // Steps follow each other without a barrier.
  measured->problem.objective = pipeline::OrderObjective::Span;
  std::string error;
  auto before = pipeline::measureOrder(measured->problem, measured->order,
                                       "the Program's order", error);
  if (!before)
    return Status::error(error);
  pipeline::OrderSearchOptions search;
  search.starts.push_back(measured->order);
  pipeline::OrderSearchResult found =
      pipeline::searchOrder(measured->problem, search);
  if (!found.order)
    return Status::error(found.error);
  if (Status status = write(*found.order, options.output); !status.ok())
    return status;
  printTable(*measured, before->cost, found);
  return Status::success();
}

} // namespace tandem::replan
