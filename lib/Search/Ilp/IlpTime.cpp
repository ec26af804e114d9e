//===- IlpTime.cpp - seconds of a plan with given stages ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpTime.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

IlpTime::IlpTime(const IlpForms &forms, IntegerProgram &program, double scale)
    : stages(forms.stages), program(program), interference(forms.problem),
      latencyOfPiece(forms.problem.pieceLatency * scale),
      numStrands(forms.problem.getNumStrands()), rules(forms.rules),
      work(forms, program, scale) {
  if (rules.hasStagePasses())
    interference.beta = interference.gamma = 0;
  for (const IlpChange &change : forms.changes)
    if (change.waits)
      program.minimize(change.made, change.cost.getTotal(numStrands) * scale);
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

/// A column that is no less than any of the sums; the sum itself if it is the
/// only one.
IlpSum IlpTime::addLargest(std::vector<IlpSum> queues) {
  std::erase_if(queues, [](const IlpSum &sum) { return sum.isEmpty(); });
  if (queues.size() < 2)
    return queues.empty() ? IlpSum() : queues.front();
  IlpSum largest;
  largest.expr = {{program.addContinuous(0, kInfinity), 1}};
  for (const IlpSum &sum : queues)
    program.addLess(sum.expr, largest.expr);
  return largest;
}

double IlpTime::getRoomShare() const {
  return (1 - interference.gamma) / (1 - interference.beta);
}

double IlpTime::getRoom(double computation) const {
  return std::max(0.0, computation * getRoomShare() - latencyOfPiece);
}

/// The seconds that a slot takes from the queue, at most `room`.
Expr IlpTime::addTaken(double room, Expr &latency) {
  Expr taken{{program.addContinuous(0, room), 1}};
  // What is taken has arrived.
  Expr left{{program.addContinuous(0, kInfinity), 1}}, row = level;
  add(row, taken, -1);
  add(row, left, -1);
  program.addRow(row, 0, 0);
  level = left;
  if (latencyOfPiece == 0)
    return taken;
  Expr piece{{program.addBinary(), 1}};
  add(latency, piece, latencyOfPiece);
  row = taken;
  add(row, piece, -room);
  program.addRow(row, -kInfinity, 0);
  return taken;
}

void IlpTime::addSlot(Slot slot) {
  ++numSlots;
  add(level, slot.arriving);
  double beta = interference.beta, gamma = interference.gamma;
  IlpSum collective = addLargest(std::move(slot.collectives));
  program.minimize(slot.other.expr);
  double room = getRoom(slot.computation.getLargest());
  bool canTake = slot.takesWaiting && !level.empty() && beta < 1 && room > 0;
  Expr taken, latency;
  if (canTake) {
    taken = addTaken(room, latency);
    program.minimize(taken, -1);
    if (!latency.empty())
      takers[numSlots - 1] = {taken, latency, slot.computation};
  }
  if (collective.isEmpty()) {
    program.minimize(slot.computation.expr);
    program.minimize(taken, beta);
    Expr row = taken;
    add(row, latency);
    if (canTake)
      add(row, slot.computation.expr, -getRoomShare());
    program.addRow(row, -kInfinity, 0);
    return;
  }
  if (slot.computation.isEmpty()) {
    program.minimize(collective.expr);
    return;
  }
  Expr seconds{{program.addContinuous(0, kInfinity), 1}};
  program.minimize(seconds);
  Expr byComputation = slot.computation.expr, byCollective = collective.expr;
  add(byComputation, collective.expr, beta);
  add(byComputation, taken, beta);
  add(byCollective, taken);
  add(byCollective, latency, 1 - beta);
  add(byCollective, slot.computation.expr, gamma);
  program.addLess(byComputation, seconds);
  program.addLess(byCollective, seconds);
}

static IlpSum join(IlpSum a, const IlpSum &b) {
  a.add(b);
  return a;
}

void IlpTime::addSlots(unsigned index) {
  IlpStageWork split = work.split(index), alone = work.alone(index);
  double share = static_cast<double>(numStrands);
  Slot first, second;
  std::vector<IlpSum> rest, later;
  for (unsigned q = 0; q < kMaxAxes; ++q) {
    alone.collectiveOnce[q].add(alone.collectivePerStrand[q], share);
    rest.push_back(alone.collectiveOnce[q]);
    later.push_back(split.collectivePerStrand[q]);
    first.collectives.push_back(
        join(split.collectivePerStrand[q], split.collectiveOnce[q]));
  }
  first.computation = previous;
  Slot beside;
  beside.computation = alone.ahead;
  bool isAhead = !alone.ahead.isEmpty();
  if (isAhead)
    beside.collectives = std::move(rest);
  else
    first.other = addLargest(std::move(rest));
  first.takesWaiting = index <= stages.firstUpdate;
  addSlot(std::move(first));
  if (isAhead)
    addSlot(std::move(beside));

  // In one strand, all that is left is the slot behind it.
  alone.computationOnce.add(alone.computationPerStrand, share);
  alone.computationOnce.add(alone.sums);
  second.computation =
      join(join(split.computationPerStrand, split.computationOnce),
           alone.computationOnce);
  second.takesWaiting = index < stages.firstUpdate;
  second.arriving = std::move(arriving);
  arriving = work.getWaiting(index);
  if (numStrands > 1)
    second.collectives = later;
  addSlot(std::move(second));
  for (int64_t strand = 3; strand <= numStrands; ++strand) {
    Slot next;
    next.computation = split.computationPerStrand;
    next.collectives = later;
    next.takesWaiting = index < stages.firstUpdate;
    addSlot(std::move(next));
  }
  previous =
      numStrands > 1 ? join(split.computationPerStrand, split.sums) : IlpSum();
}

void IlpTime::addSlotsOfPasses(unsigned index) {
  IlpStageWork stage = work.alone(index);
  IlpSum own = std::move(stage.computationOnce);
  for (const IlpSum *computation : {&previous, &own})
    for (size_t pass = 0; pass < rules.passes.size(); ++pass) {
      Slot slot;
      slot.computation.add(*computation, rules.passes[pass].computation);
      const IlpSum &sent = stage.collectiveOnce[pass];
      if (rules.passes[pass].overlaps)
        slot.collectives = {sent};
      else
        slot.other = sent;
      addSlot(std::move(slot));
    }
  previous = std::move(own);
}

void IlpTime::build() {
  for (unsigned stage = 0; stage < stages.size(); ++stage)
    rules.hasStagePasses() ? addSlotsOfPasses(stage) : addSlots(stage);
  Slot last;
  last.computation = previous;
  addSlot(std::move(last));
}

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

/// The seconds above which the relaxation has less than `share` of the group's
/// choices.
static double findThreshold(const IlpGroup &group, double share,
                            const IlpSolution &relaxation) {
  constexpr double kRounding = 1e-9;
  std::vector<std::pair<double, double>> chosen;
  for (const IlpGroup::Entry &entry : group.entries)
    if (double value = relaxation.get(entry.chosen); value > 0)
      chosen.push_back({entry.amount, value});
  std::sort(chosen.rbegin(), chosen.rend());
  for (auto [seconds, value] : chosen) {
    share -= value;
    if (share <= kRounding)
      return seconds;
  }
  return 0;
}

/// At most 0.
Expr IlpTime::getRow(const Taker &taker, const IlpCut &cut) const {
  double whole = 0;
  Expr row = taker.taken;
  for (const auto &[key, group] : taker.computation.groups) {
    auto place = cut.thresholds.find(key);
    double threshold = place == cut.thresholds.end() ? 0 : place->second;
    whole += threshold;
    for (const IlpGroup::Entry &entry : group.entries)
      if (entry.amount > threshold)
        add(row, entry.chosen, (threshold - entry.amount) * getRoomShare());
  }
  add(row, taker.latency, 1 - whole * getRoomShare() / latencyOfPiece);
  return row;
}

std::vector<IlpCut> IlpTime::findCuts(const IlpSolution &relaxation) const {
  // Of the objective; smaller ones are not worth a row.
  constexpr double kWorthwhile = 1e-5;
  std::vector<IlpCut> cuts;
  for (const auto &[slot, taker] : takers) {
    double share = relaxation.get(taker.latency) / latencyOfPiece;
    IlpCut cut{slot, {}};
    for (const auto &[key, group] : taker.computation.groups)
      cut.thresholds[key] = findThreshold(group, share, relaxation);
    if (relaxation.get(getRow(taker, cut)) > kWorthwhile * relaxation.objective)
      cuts.push_back(std::move(cut));
  }
  return cuts;
}

void IlpTime::addCut(const IlpCut &cut) {
  auto place = takers.find(cut.slot);
  if (place != takers.end())
    program.addRow(getRow(place->second, cut), -kInfinity, 0);
}
