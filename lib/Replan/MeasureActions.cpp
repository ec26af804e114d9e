//===- MeasureActions.cpp - what a trace shows of a pipeline --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sum.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Replan/ReplanOrder.h"
#include "tandem/Replan/StepModel.h"
#include "tandem_rt/action_times.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

using namespace tandem;
using namespace tandem::orders;
using namespace tandem::replan;

namespace {
class ActionReader {
public:
  ActionReader(const rt::Program &program, const rt::Timeline &timeline,
               std::string &error)
      : program(program), timeline(timeline), error(error) {}
  std::optional<Measured> run();

private:
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }
  bool findPoints();
  bool readOrder();
  bool readPoint(unsigned point, const std::vector<rt::TimelineCommand> &list);
  void readTimes();
  double setSeconds();
  void limitPoints();

  const rt::Program &program;
  const rt::Timeline &timeline;
  std::string &error;
  Measured measured;
  std::map<unsigned, unsigned> pointOf;
  std::set<std::pair<unsigned, char>> letters;
  rt::ActionTimes times;
};
} // namespace

static std::optional<ActionKind> getKind(char letter) {
  for (ActionKind kind : {ActionKind::Forward, ActionKind::BackwardInput,
                          ActionKind::BackwardWeight, ActionKind::Backward})
    if (getLetter(kind) == letter)
      return kind;
  return std::nullopt;
}

/// The points of the axis over which values are transferred.
bool ActionReader::findPoints() {
  std::optional<uint32_t> axis;
  for (const rt::RankProgram &each : program.rankPrograms)
    for (const rt::Command *command : each.listing())
      if (const auto *transfer = std::get_if<rt::Transfer>(&command->operation))
        axis = transfer->axis;
  if (!axis)
    return fail("is of no pipeline: it has no transfer, expected a Program "
                "with sections on several points");
  int64_t behind = 1;
  for (size_t i = *axis + 1; i < program.mesh.size(); ++i)
    behind *= program.mesh[i].size;
  for (int64_t point = 0; point < program.mesh[*axis].size; ++point)
    measured.ranks.push_back(point * behind);
  return true;
}

/// The actions of a point, in the order of their commands.
bool ActionReader::readPoint(unsigned point,
                             const std::vector<rt::TimelineCommand> &list) {
  std::vector<Action> &row = measured.order.points.emplace_back();
  std::set<rt::ActionName> seen;
  std::optional<rt::ActionName> last;
  for (const rt::TimelineCommand &command : list) {
    std::optional<rt::ActionName> name = rt::actionNameOf(command);
    std::optional<ActionKind> kind =
        name ? getKind(name->letter) : std::nullopt;
    if (!kind || command.role != rt::CommandRole::Compute || name == last)
      continue;
    std::optional<rt::ActionName> before = std::exchange(last, name);
    if (!seen.insert(*name).second)
      return fail(before->section == name->section &&
                          before->letter == name->letter
                      ? "runs the actions of several microbatches beside each "
                        "other, expected micro 1, and rows that do not depend "
                        "on one another, as in a batch normalization"
                      : "runs the actions of a group beside each other, "
                        "expected an order without groups, not such as that "
                        "of dualpipe-v");
    row.push_back({name->section, *kind, name->microbatch});
    letters.insert({name->section, name->letter});
    auto [known, isNew] = pointOf.try_emplace(name->section, point);
    if (known->second != point)
      return fail("has actions of section " + std::to_string(name->section) +
                  " on several points");
  }
  return !row.empty() ||
         fail("has no action on point " + std::to_string(point));
}

/// Actions without a command, as I of a section that sends no gradient, take no
/// time and stand beside their other half.
static void addHalves(std::vector<Action> &row) {
  std::set<std::tuple<unsigned, ActionKind, unsigned>> known;
  for (const Action &action : row)
    known.insert({action.section, action.kind, action.microbatch});
  std::vector<Action> whole;
  for (const Action &action : row) {
    bool isInput = action.kind == ActionKind::BackwardInput;
    Action other = action;
    other.kind =
        isInput ? ActionKind::BackwardWeight : ActionKind::BackwardInput;
    bool lacks = (isInput || action.kind == ActionKind::BackwardWeight) &&
                 !known.contains({other.section, other.kind, other.microbatch});
    if (lacks && !isInput)
      whole.push_back(other);
    whole.push_back(action);
    if (lacks && isInput)
      whole.push_back(other);
  }
  row = std::move(whole);
}

bool ActionReader::readOrder() {
  for (size_t point = 0; point < measured.ranks.size(); ++point)
    if (!readPoint(point, timeline.head.commandsOf(measured.ranks[point])))
      return false;
  for (std::vector<Action> &row : measured.order.points)
    addHalves(row);
  Partition &partition = measured.problem.partition;
  partition.numPoints = measured.ranks.size();
  measured.problem.numMicrobatches = countMicrobatches(measured.order);
  for (auto [number, point] : pointOf) {
    if (number != partition.sections.size())
      return fail("has no action of section " +
                  std::to_string(partition.sections.size()));
    Section section;
    section.point = point;
    section.isSplit =
        letters.contains({number, 'I'}) || letters.contains({number, 'W'});
    section.hasBackward = section.isSplit || letters.contains({number, 'B'});
    partition.sections.push_back(section);
    if (number > 0)
      partition.edges.push_back({number - 1, number});
  }
  return true;
}

void ActionReader::readTimes() {
  int64_t firstStep = getFirstStep(timeline);
  std::set<int64_t> steps;
  for (const rt::TraceEvent &event : timeline.events)
    if (event.step >= firstStep)
      steps.insert(event.step);
  measured.numSteps = steps.size();
  times = rt::actionTimesOf(timeline, firstStep);
}

/// Means of the slowest rank. Returns by how much an action differs from step
/// to step, or else from microbatch to microbatch. Long actions count for more.
double ActionReader::setSeconds() {
  std::map<std::tuple<unsigned, char, int64_t>, Sum> sums;
  std::map<std::pair<rt::ActionName, int64_t>, Sum> alike;
  for (const auto &[key, taken] : times.taken) {
    auto [name, rank, step] = key;
    double seconds = 1e-9 * static_cast<double>(taken);
    sums[{name.section, name.letter, rank}].add(seconds);
    if (measured.numSteps == 1)
      name.microbatch = 0;
    if (name.letter != 'S')
      alike[{name, rank}].add(seconds);
  }
  for (const auto &[key, sum] : sums) {
    auto [number, letter, rank] = key;
    Section &section = measured.problem.partition.sections[number];
    double &seconds = letter == 'F'   ? section.forward
                      : letter == 'W' ? section.weight
                      : letter == 'S' ? section.sum
                                      : section.input;
    seconds = std::max(seconds, sum.getMean());
  }
  double variance = 0, weight = 0;
  for (const auto &[key, sum] : alike) {
    variance += sum.seconds * sum.getRelativeVariance();
    weight += sum.seconds;
  }
  return weight > 0 ? std::sqrt(variance / weight) : 0;
}

void ActionReader::limitPoints() {
  Partition &partition = measured.problem.partition;
  for (Edge &edge : partition.edges)
    edge.seconds = times.transferSeconds(partition.sections[edge.from].point,
                                         partition.sections[edge.to].point);
  for (const PointTime &point : simulate(partition, measured.order).points)
    measured.problem.limits.push_back(point.peak);
}

std::optional<Measured> ActionReader::run() {
  if (!findPoints() || !readOrder())
    return std::nullopt;
  readTimes();
  measured.spread = setSeconds();
  // A microbatch of a section counts as one. The limits are set once the order
  // is known to run.
  measured.problem.limits.assign(measured.ranks.size(),
                                 std::numeric_limits<double>::infinity());
  if (!pipeline::measureOrder(measured.problem, measured.order, "its order",
                              error))
    return std::nullopt;
  measured.problem.limits.clear();
  limitPoints();
  return std::move(measured);
}

std::optional<Measured> replan::measureActions(const rt::Program &program,
                                               const rt::Timeline &timeline,
                                               std::string &error) {
  return ActionReader(program, timeline, error).run();
}
