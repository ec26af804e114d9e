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

IlpTime::IlpTime(const IlpForms &forms, IntegerProgram &program, double scale,
                 IlpPieces decided)
    : problem(forms.problem), stages(forms.stages), program(program),
      scale(scale), interference(forms.problem),
      numStrands(forms.problem.getNumStrands()), isHidup(forms.isHidup),
      work(forms, program, scale), decided(std::move(decided)) {
  if (isHidup)
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

double IlpTime::getRoom(double computation) const {
  double room =
      computation * (1 - interference.gamma) / (1 - interference.beta);
  return std::max(0.0, room - problem.pieceLatency * scale);
}

/// By what the operator takes whose choices differ most.
void IlpTime::addRooms(const IlpSum &computation,
                       std::vector<Room> &rooms) const {
  const IlpGroup *main = nullptr;
  for (const auto &[key, group] : computation.groups)
    if (key.first == 0 && (!main || group.getLargest() > main->getLargest()))
      main = &group;
  double rest = computation.getLargest() - (main ? main->getLargest() : 0);
  std::map<double, Expr> choices;
  if (main)
    for (const IlpGroup::Entry &entry : main->entries)
      add(choices[getRoom(entry.seconds + rest)], entry.chosen);
  for (auto &[seconds, chosen] : choices)
    if (seconds > 0)
      rooms.push_back({seconds, std::move(chosen)});
  // The operator may take no time here, or there may be none.
  if (getRoom(rest) > 0)
    rooms.push_back({getRoom(rest), {}});
}

std::vector<IlpTime::Room>
IlpTime::getRooms(const std::vector<IlpSum> &cases) const {
  std::vector<Room> rooms;
  if (interference.beta < 1)
    for (const IlpSum &computation : cases)
      addRooms(computation, rooms);
  return rooms;
}

int IlpTime::addPiece() {
  auto place = decided.find(numSlots);
  if (place != decided.end())
    return program.addContinuous(place->second, place->second);
  return pieces[numSlots] = program.addBinary();
}

/// The seconds that a slot takes from the queue. A piece costs `latency` of the
/// room.
Expr IlpTime::addTaken(const std::vector<Room> &rooms, Expr &latency) {
  double alpha = problem.pieceLatency * scale;
  Expr taken, pieceSum;
  for (const Room &room : rooms) {
    Expr part{{program.addContinuous(0, room.seconds), 1}};
    add(taken, part);
    if (alpha == 0) {
      Expr row = part;
      add(row, room.chosen, -room.seconds);
      if (!room.chosen.empty())
        program.addRow(row, -kInfinity, 0);
      continue;
    }
    Expr piece{{program.addContinuous(0, 1), 1}};
    add(pieceSum, piece);
    add(part, piece, -room.seconds);
    program.addRow(part, -kInfinity, 0);
    if (!room.chosen.empty())
      program.addLess(piece, room.chosen);
  }
  // What is taken has arrived.
  Expr left{{program.addContinuous(0, kInfinity), 1}}, row = level;
  add(row, taken, -1);
  add(row, left, -1);
  program.addRow(row, 0, 0);
  level = left;
  if (alpha == 0)
    return taken;
  Expr piece{{addPiece(), 1}};
  add(latency, piece, alpha);
  add(pieceSum, piece, -1);
  program.addRow(pieceSum, 0, 0);
  return taken;
}

void IlpTime::addSlot(Slot slot) {
  ++numSlots;
  add(level, slot.arriving);
  double beta = interference.beta, gamma = interference.gamma;
  IlpSum collective = addLargest(std::move(slot.collectives));
  program.minimize(slot.other.expr);
  std::vector<Room> rooms;
  if (slot.takesWaiting && !level.empty())
    rooms = getRooms(slot.cases);
  bool canTake = !rooms.empty();
  Expr taken, latency;
  if (canTake) {
    taken = addTaken(rooms, latency);
    program.minimize(taken, -1);
  }
  if (collective.isEmpty()) {
    program.minimize(slot.computation.expr);
    program.minimize(taken, beta);
    Expr row = taken;
    add(row, latency);
    if (canTake)
      add(row, slot.computation.expr, -(1 - gamma) / (1 - beta));
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
  first.cases = {previous};
  first.other = addLargest(std::move(rest));
  first.takesWaiting = index <= stages.firstUpdate;
  addSlot(std::move(first));

  // In one strand, all that is left is the slot behind it.
  alone.computationOnce.add(alone.computationPerStrand, share);
  alone.computationOnce.add(alone.sums);
  second.cases = {join(split.computationPerStrand, split.computationOnce),
                  alone.computationOnce};
  second.computation = join(second.cases[0], second.cases[1]);
  second.takesWaiting = index < stages.firstUpdate;
  second.arriving = std::move(arriving);
  arriving = work.getWaiting(index);
  if (numStrands > 1)
    second.collectives = later;
  addSlot(std::move(second));
  for (int64_t strand = 3; strand <= numStrands; ++strand) {
    Slot next;
    next.computation = split.computationPerStrand;
    next.cases = {next.computation};
    next.collectives = later;
    next.takesWaiting = index < stages.firstUpdate;
    addSlot(std::move(next));
  }
  previous =
      numStrands > 1 ? join(split.computationPerStrand, split.sums) : IlpSum();
}

void IlpTime::addSlotsOfHidup(unsigned index) {
  IlpStageWork stage = work.alone(index);
  IlpSum own = std::move(stage.computationOnce);
  for (const IlpSum *computation : {&previous, &own}) {
    Slot forward, backward;
    forward.computation = *computation;
    forward.collectives = {stage.collectiveOnce[kForwardQueue]};
    backward.computation.add(*computation, 2);
    const IlpSum &sent = stage.collectiveOnce[kBackwardQueue];
    if (problem.accounting == Accounting::HidupSerial)
      backward.other = sent;
    else
      backward.collectives = {sent};
    addSlot(std::move(forward));
    addSlot(std::move(backward));
  }
  previous = std::move(own);
}

void IlpTime::build() {
  for (unsigned stage = 0; stage < stages.size(); ++stage)
    isHidup ? addSlotsOfHidup(stage) : addSlots(stage);
  Slot last;
  last.computation = previous;
  addSlot(std::move(last));
}
