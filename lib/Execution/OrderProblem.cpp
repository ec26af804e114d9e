//===- OrderProblem.cpp - the order search of a step ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OrderProblem.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Points.h"
#include "tandem/Orders/Schedules.h"
#include "tandem_rt/action_times.h"
#include <map>
#include <set>

using namespace mlir;
using namespace tandem;

static unsigned getSectionNumber(sched::RunOp run) {
  unsigned section = 0;
  (void)run.getSection().getAsInteger(10, section);
  return section;
}

/// F, I or W: `@s0.FA` and `@s0.F.1` are of F.
static char getLetter(sched::RunOp run) {
  return run.getAction().split('.').second.front();
}

//===----------------------------------------------------------------------===//
// What the functions of points say
//===----------------------------------------------------------------------===//

namespace {
class PointReader {
public:
  PointReader(ModuleOp module, int64_t strands, orders::Partition &partition)
      : module(module), strands(strands), partition(partition) {}
  /// Adds edges, backward passes and what is held.
  void run();

private:
  void read(sched::RunOp run);
  void readOperand(sched::RunOp run, Value operand);
  std::optional<unsigned> findMaker(Value value);
  void hold(orders::Section &section, Value value, bool isOfForward, char user);

  /// Whether `op` is of the first microbatch of the order.
  bool isOfFirst(Operation *op) const {
    auto microbatch = op->getAttrOfType<IntegerAttr>("microbatch");
    return microbatch && microbatch.getInt() < strands;
  }

  ModuleOp module;
  int64_t strands;
  orders::Partition &partition;
  /// The section that makes what is sent, by tag.
  std::map<uint64_t, unsigned> senders;
  std::set<std::pair<unsigned, unsigned>> forward, backward;
  /// What counts already: of activations, and of what is kept.
  llvm::DenseSet<Value> held, kept;
};
} // namespace

/// The section that makes a value, through transfers.
std::optional<unsigned> PointReader::findMaker(Value value) {
  if (auto received = value.getDefiningOp<sched::ReceiveOp>()) {
    auto found = senders.find(received.getTag());
    return found == senders.end() ? std::nullopt : std::optional(found->second);
  }
  auto maker = value.getDefiningOp<sched::RunOp>();
  return maker && maker.isOfSection() ? std::optional(getSectionNumber(maker))
                                      : std::nullopt;
}

/// What F makes or reads, and I or W reads again, is held from F on; what W
/// reads is kept by I. Rows of arguments are there anyway.
void PointReader::hold(orders::Section &section, Value value, bool isOfForward,
                       char user) {
  double bytes = static_cast<double>(getBytes(value.getType()));
  if (isOfForward && user != 'F' && held.insert(value).second)
    section.activations += bytes;
  if (user == 'W' && kept.insert(value).second)
    *section.kept += bytes;
}

void PointReader::readOperand(sched::RunOp run, Value operand) {
  char letter = getLetter(run);
  unsigned section = getSectionNumber(run);
  std::optional<unsigned> from = findMaker(operand);
  if (!from)
    return;
  if (*from != section)
    (letter == 'F' ? forward : backward).insert({*from, section});
  auto maker = operand.getDefiningOp<sched::RunOp>();
  // Of the microbatch alone: sums go on from one to the next.
  if (!isOfFirst(operand.getDefiningOp()))
    return;
  bool isReadByForward = llvm::any_of(operand.getUsers(), [](Operation *user) {
    auto reader = dyn_cast<sched::RunOp>(user);
    return reader && reader.isOfSection() && getLetter(reader) == 'F';
  });
  bool isOfForward = maker ? getLetter(maker) == 'F' : isReadByForward;
  hold(partition.sections[section], operand, isOfForward, letter);
}

void PointReader::read(sched::RunOp run) {
  if (!run.isOfSection())
    return;
  unsigned section = getSectionNumber(run);
  partition.sections[section].hasBackward |= getLetter(run) != 'F';
  if (isOfFirst(run))
    for (Value operand : run->getOperands())
      readOperand(run, operand);
}

void PointReader::run() {
  module.walk([&](sched::SendOp send) {
    if (auto maker = send.getValue().getDefiningOp<sched::RunOp>();
        maker && maker.isOfSection())
      senders[send.getTag()] = getSectionNumber(maker);
  });
  for (auto function : module.getOps<func::FuncOp>())
    for (sched::RunOp run : function.getOps<sched::RunOp>())
      read(run);
  for (auto [from, to] : forward)
    partition.edges.push_back({from, to, 0, backward.count({to, from}) > 0});
}

//===----------------------------------------------------------------------===//
// What the timeline says
//===----------------------------------------------------------------------===//

/// Seconds of an action: of the slowest rank the least over microbatches, as
/// others may wait within.
static double getSeconds(const rt::ActionTimes &times, unsigned section,
                         char letter) {
  rt::ActionName first{section, letter, 0};
  std::map<int64_t, int64_t> least;
  for (auto it = times.taken.lower_bound({first, 0, 0});
       it != times.taken.end(); ++it) {
    const auto &[name, rank, step] = it->first;
    if (name.section != section || name.letter != letter)
      break;
    auto [its, isNew] = least.try_emplace(rank, it->second);
    its->second = std::min(its->second, it->second);
  }
  int64_t most = 0;
  for (auto [rank, taken] : least)
    most = std::max(most, taken);
  return 1e-9 * static_cast<double>(most);
}

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

pipeline::ScheduleProblem tandem::makeOrderProblem(ModuleOp module,
                                                   const rt::Timeline &timeline,
                                                   int64_t numMicrobatches,
                                                   int64_t strands) {
  pipeline::ScheduleProblem problem;
  problem.numMicrobatches = numMicrobatches;
  orders::Partition &partition = problem.partition;
  rt::ActionTimes times = rt::actionTimesOf(timeline, 0, strands);
  auto points =
      module->getAttrOfType<DenseI64ArrayAttr>(spmd::kSectionsAttrName);
  for (auto [number, point] : llvm::enumerate(points.asArrayRef())) {
    orders::Section section;
    section.point = point;
    section.hasBackward = false;
    section.forward = getSeconds(times, number, 'F');
    section.input = getSeconds(times, number, 'I');
    section.weight = getSeconds(times, number, 'W');
    section.sum = getSeconds(times, number, 'S');
    section.activations = 0;
    section.kept = 0;
    partition.sections.push_back(section);
    partition.numPoints = std::max(partition.numPoints, section.point + 1);
  }
  PointReader(module, strands, partition).run();
  for (orders::Edge &edge : partition.edges) {
    edge.seconds = times.transferSeconds(partition.sections[edge.from].point,
                                         partition.sections[edge.to].point);
  }
  problem.limits.assign(partition.numPoints,
                        std::numeric_limits<double>::infinity());
  return problem;
}

std::optional<orders::Order>
tandem::placeOrder(const pipeline::ScheduleProblem &problem, StringRef name) {
  const orders::Schedule *schedule = orders::findSchedule(name);
  std::vector<unsigned> places;
  for (const orders::Section &section : problem.partition.sections)
    places.push_back(section.point);
  std::string error;
  return schedule ? schedule->place(places, problem.partition.numPoints,
                                    problem.numMicrobatches, error)
                  : std::nullopt;
}

void tandem::limitPoints(pipeline::ScheduleProblem &problem,
                         const orders::Order &order, const rt::Program &program,
                         ArrayRef<int64_t> limits) {
  std::string error;
  auto measured = pipeline::measureOrder(problem, order, "order", error);
  if (!measured)
    return;
  for (auto [rank, limit] : llvm::enumerate(limits)) {
    unsigned point = program.rankToProgram[rank]; // each point has one
    double others = static_cast<double>(rt::heldBytes(program, rank)) -
                    measured->peaks[point];
    double &room = problem.limits[point];
    room = std::min(room, std::max(0.0, static_cast<double>(limit) - others));
  }
}
