//===- run.cpp - another order for a Program ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "run.h"
#include "../common/file.h"
#include "tandem/Replan/ReplanOrder.h"
#include "tandem/Replan/StepModel.h"
#include "tandem_rt/new_file.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tandem::replan {

using namespace rt;

/// A row begins with the first microbatch of a section: `2F0`.
static const FileKind kOrderFile{"order", [](std::string_view begin) {
                                   size_t end =
                                       begin.find_first_not_of("0123456789");
                                   return end > 0 && end < begin.size() &&
                                          begin.substr(end).starts_with("F0");
                                 }};

namespace {
/// What is read of a Program and its trace.
struct Read {
  Measured measured;
  StepModel model;
};

/// An order, and what a step takes by it.
struct Weighed {
  orders::Order order;
  double seconds = 0;
};
} // namespace

static Expected<Read> read(const Options &options) {
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
  if (timeline->events.empty())
    return Status::error("'" + options.trace +
                         "' has no events, expected a trace of a step");
  std::string error;
  std::optional<Measured> measured = measureActions(*program, *timeline, error);
  if (!measured)
    return Status::error("'" + options.program + "' " + error);
  StepModel model(*program, *timeline, measured->ranks);
  return Read{std::move(*measured), std::move(model)};
}

static void printRow(const char *what, double seconds, double of) {
  std::printf("# %-30s %.6f s", what, seconds);
  if (of > 0)
    std::printf("  %+.1f %%", 100 * (seconds / of - 1));
  std::printf("\n");
}

/// Searches orders by what actions take, and simulates the Program with each of
/// them. The fastest becomes `best`, which is that of the Program at first.
/// Returns what no order takes less than.
static double search(const pipeline::ScheduleProblem &problem,
                     const StepModel &model, std::optional<uint64_t> seed,
                     Weighed &best) {
  double bound = 0;
  pipeline::OrderSearchOptions options;
  options.starts.push_back(best.order);
  for (const pipeline::OrderAim &aim : pipeline::kOrderAims) {
    pipeline::OrderSearchResult found =
        pipeline::searchOrder(takeAim(problem, aim), options);
    if (!found.order)
      continue;
    if (aim.slower == 1)
      bound = std::max(bound, found.lowerBound);
    std::optional<double> seconds = model.getSeconds(*found.order, seed);
    if (seconds && *seconds < best.seconds)
      best = {std::move(*found.order), *seconds};
  }
  return bound;
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
  Expected<Read> made = read(options);
  if (!made.ok())
    return made.status();
  auto &[measured, model] = *made;
  std::optional<uint64_t> seed;
  if (measured.spread > kLeastSpread) {
    if (!options.seed)
      return Status::error("noise without a seed: the actions of '" +
                           options.trace +
                           "' differ from time to time, expected --seed N");
    seed = uint64_t(*options.seed);
  }
  std::optional<double> before = model.getSeconds(measured.order, seed);
  if (!before)
    return Status::error("actions of '" + options.program +
                         "' wait for others than those of the section before "
                         "and behind, expected sections in a chain");
  Weighed best{measured.order, *before};
  double bound = search(measured.problem, model, seed, best);
  double plain = best.seconds;
  if (seed) {
    measured.problem.noise = pipeline::Noise{measured.spread, *seed};
    search(measured.problem, model, seed, best);
  }
  // What gains less than the simulation is off may be slower.
  bool isBetter =
      1 - best.seconds / *before > std::abs(*before / model.getMeasured() - 1);
  if (Status status =
          write(isBetter ? best.order : measured.order, options.output);
      !status.ok())
    return status;
  // Comments of an order, so that all of the output is one.
  std::printf("# durations of %u steps; actions differ by %.1f %%%s\n",
              measured.numSteps, 100 * measured.spread,
              seed ? "; means over noise" : "");
  printRow("a step of the trace", model.getMeasured(), 0);
  printRow("the order of the Program", *before, model.getMeasured());
  if (seed)
    printRow("for durations without noise", plain, *before);
  printRow(isBetter ? "this order" : "the fastest that was found", best.seconds,
           *before);
  printRow("no order takes less than", std::min(bound, best.seconds), *before);
  if (!isBetter)
    std::printf("# this order is the Program's: no other gains more than its "
                "simulation is off\n");
  return Status::success();
}

} // namespace tandem::replan
