//===- ChooseOrder.cpp - the order of a pipeline, by its Programs --------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compilation.h"
#include "HostLimit.h"
#include "tandem/Cost/Plan.h"
#include "tandem/Orders/Schedules.h"

using namespace mlir;

namespace tandem {

/// A step of the Program. Of ranks that do the same at the same time, one is
/// looked at.
FailureOr<SimulationReport> Compilation::simulate() {
  auto report = simulateMade(result.bytes, options.cluster);
  if (!report.ok())
    return fail(report.status().message());
  return std::move(*report);
}

/// Makes other actions of the step in front of them.
LogicalResult Compilation::outlineAgain() {
  module = unordered.step->clone();
  result.ir.resize(unordered.numIR);
  if (failed(outline()))
    return failure();
  keepIR("localize");
  return success();
}

/// Makes their Program. False: it exceeds a limit.
FailureOr<bool> Compilation::lowerAgain() {
  if (failed(runStages(findStage("localize") + 1)) || failed(emit()))
    return failure();
  FailureOr<std::string> excess = findExcess();
  if (failed(excess))
    return failure();
  repeats.excess = std::move(*excess);
  return repeats.excess.empty();
}

/// Makes the Program of another order from the step in front of its actions.
FailureOr<bool> Compilation::tryOrder(const orders::Order &order) {
  pipe->order = "search"; // no name of a schedule
  pipe->rows = orders::print(order);
  return failed(outlineAgain()) ? FailureOr<bool>(failure()) : lowerAgain();
}

/// Keeps an order in mind if its Program, which fits, is predicted to be faster
/// than those before.
void Compilation::keepOrder(const orders::Order &order, StringRef name,
                            double seconds) {
  if (unordered.best && seconds >= unordered.seconds)
    return;
  unordered.best = order;
  unordered.seconds = seconds;
  unordered.name = name.str();
}

LogicalResult Compilation::weighOrder(const orders::Order &order,
                                      StringRef name) {
  if (!unordered.tried.insert(orders::print(order)).second)
    return success();
  FailureOr<bool> isSmall = tryOrder(order);
  if (failed(isSmall) || !*isSmall)
    return failed(isSmall) ? failure() : success();
  FailureOr<SimulationReport> report = simulate();
  if (succeeded(report))
    keepOrder(order, name, report->seconds);
  return report;
}

LogicalResult Compilation::weighSearched(pipeline::ScheduleProblem &problem,
                                         const orders::Order &start) {
  pipeline::OrderSearchOptions search;
  search.starts.push_back(start);
  for (const pipeline::OrderAim &aim : pipeline::kOrderAims) {
    // The other half is for the others and for Programs.
    search.deadline = deadline.getHalf();
    pipeline::OrderSearchResult found =
        pipeline::searchOrder(takeAim(problem, aim), search);
    if (!found.order)
      return success();
    if (aim.slower == 1) {
      unordered.cost = found.cost;
      unordered.bound = found.lowerBound;
    }
    if (failed(weighOrder(*found.order, "an order of its own")))
      return failure();
  }
  return success();
}

/// What is left of a limit is known by the Program alone: where it does not
/// fit, the search gets less.
LogicalResult Compilation::weighWithin(pipeline::ScheduleProblem &problem,
                                       const orders::Order &start) {
  const std::vector<double> limits = problem.limits;
  constexpr unsigned kMaxTries = 4;
  for (unsigned i = 0; i < kMaxTries; ++i) {
    if (failed(weighSearched(problem, start)))
      return failure();
    if (unordered.best || deadline.isOver())
      break;
    for (double &room : problem.limits)
      room = std::max(0.0,
                      room - static_cast<double>(repeats.held - repeats.limit));
  }
  problem.limits = limits;
  return success();
}

/// Orders with a name that fit: what a step does behind its actions may decide.
LogicalResult
Compilation::weighNamed(const pipeline::ScheduleProblem &problem) {
  for (const orders::Schedule &schedule : orders::getSchedules()) {
    if (unordered.best && deadline.isOver())
      return success();
    std::optional<orders::Order> order = placeOrder(problem, schedule.name);
    std::string why;
    if (order && measureOrder(problem, *order, "order", why) &&
        failed(weighOrder(*order, schedule.name)))
      return failure();
  }
  return success();
}

/// The problem that the Program shows, and the order that it has.
FailureOr<pipeline::ScheduleProblem>
Compilation::makeProblem(const rt::Timeline &timeline, orders::Order &start) {
  auto problem =
      makeOrderProblem(*module, timeline, pipe->accumulate, pipe->strands);
  std::string why;
  auto given = pipe->rows.empty()
                   ? placeOrder(problem, pipe->order)
                   : orders::parseOrder(pipe->rows, pipe->order, why);
  if (!given)
    return fail("order 'search' starts at " + pipe->order + ": " + why);
  start = std::move(*given);
  if (hasMemoryLimit())
    limitPoints(problem, start, program,
                getLimits(options, program.numRanks(), why));
  return why.empty() ? FailureOr<pipeline::ScheduleProblem>(problem)
                     : FailureOr<pipeline::ScheduleProblem>(fail(why));
}

/// Finds the order by what the Program of another one shows, and keeps the one
/// whose Program is predicted to be the fastest. False: no order fits, and the
/// step has to be planned again.
FailureOr<bool> Compilation::searchOrder() {
  if (HostExcess ofHost = findHostExcess(options, program); ofHost.bytes > 0)
    return fail(ofHost.why);
  orders::Order start;
  FailureOr<SimulationReport> before = simulate();
  FailureOr<std::string> excess = findExcess();
  if (failed(before) || failed(excess))
    return failure();
  int64_t held = repeats.held, limit = repeats.limit;
  auto problem = makeProblem(before->simulated.timeline, start);
  if (failed(problem))
    return failure();
  Pipe given = *pipe;
  std::string name =
      pipe->rows.empty() ? pipe->order : "one microbatch behind the other";
  unordered.tried.insert(orders::print(start));
  unordered.isWeighed = true;
  if (excess->empty())
    keepOrder(start, name, before->seconds);
  if (failed(weighWithin(*problem, start)) || failed(weighNamed(*problem)))
    return failure();
  auto planAnew = [&](const std::string &why) {
    pipe = std::move(given);
    repeats.excess = "order 'search': " + why;
    unordered = Unordered();
    return planLess();
  };
  if (!unordered.best) {
    std::tie(repeats.held, repeats.limit) = std::pair(held, limit);
    return planAnew(*excess + "; no order fits");
  }
  result.remarks.push_back(
      "remark: order search: " + unordered.name +
      ", a step is predicted to take " + cost::printSeconds(unordered.seconds) +
      ", " + cost::printSeconds(before->seconds) + " by " + name +
      (excess->empty() ? "" : ", which does not fit") +
      (unordered.cost > 0
           ? "; the actions alone take " + cost::printSeconds(unordered.cost) +
                 ", no order less than " + cost::printSeconds(unordered.bound)
           : ""));
  // Pieces of sums and buckets were chosen for the first order.
  unordered.isWeighed = unordered.name == name;
  FailureOr<bool> isMade = tryOrder(*unordered.best);
  if (failed(isMade))
    return failure();
  if (!*isMade)
    return planAnew(repeats.excess);
  result.plan = addPipe(*pipe, *module, repeats.plan);
  return true;
}

} // namespace tandem
