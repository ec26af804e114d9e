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
    : forms(forms), problem(forms.problem), stages(forms.stages),
      program(program), scale(scale), interference(forms.problem),
      numStrands(forms.problem.getNumStrands()), work(forms.stages.size()) {}

//===----------------------------------------------------------------------===//
// Work of the stages
//===----------------------------------------------------------------------===//

void IlpTime::addOperators() {
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    Operator::Kind kind = problem.operators[op].kind;
    if (kind == Operator::Kind::Input || kind == Operator::Kind::Resident)
      continue;
    Work &stage = work[stages.stageOf[op]];
    const SignatureSet &signatures = problem.getSignatures(op);
    double perStrand = 0, once = 0;
    Expr overTime;
    for (unsigned s = 0; s < signatures.size(); ++s) {
      Expr chosen{{forms.getColumn(op, s), 1}};
      double seconds = signatures[s].seconds * scale;
      bool isOver = problem.isOverTime(signatures[s]);
      double &largest = isOver ? perStrand : once;
      largest = std::max(largest, seconds);
      (isOver ? stage.computationPerStrand : stage.computationOnce)
          .add(chosen, seconds);
      if (isOver)
        add(overTime, chosen);
    }
    stage.computationPerStrand.largest += perStrand;
    stage.computationOnce.largest += once;
    stage.isOverTime |= overTime.size() == signatures.size();
    if (!overTime.empty())
      stage.overTime.push_back(std::move(overTime));
  }
}

void IlpTime::addSums() {
  ChangeTable table(problem);
  for (unsigned i = 0; i < forms.tensors.size(); ++i) {
    const IlpTensor &tensor = forms.tensors[i];
    double largest = 0;
    for (size_t p = 0; p < tensor.produced.size(); ++p) {
      if (tensor.summed[p].empty() || tensor.stage < 0)
        continue;
      Layout produced = tensor.produced[p].layout, sum = produced;
      sum[problem.getTimeAxis()] = kFull;
      double seconds = table.getCost(i, produced, sum).local * scale;
      work[tensor.stage].sums.add(tensor.summed[p], seconds);
      largest = std::max(largest, seconds);
    }
    if (largest > 0)
      work[tensor.stage].sums.largest += largest;
  }
}

void IlpTime::addChanges() {
  for (const IlpChange &change : forms.changes) {
    if (change.waits) {
      double seconds = change.cost.getTotal(numStrands) * scale;
      add(work[forms.tensors[change.copy.tensor].stage].waiting, change.made,
          seconds);
      program.minimize(change.made, seconds);
      continue;
    }
    Work &stage = work[change.stage];
    // Few changes of a stage are made together; their sum is a safe bound.
    auto take = [&](Sum &sum, double seconds) {
      if (seconds == 0)
        return;
      sum.add(change.made, seconds * scale);
      sum.largest += seconds * scale;
    };
    for (unsigned q = 0; q < kMaxAxes; ++q) {
      take(stage.collectivePerStrand[q], change.cost.collectivePerStrand[q]);
      take(stage.collectiveOnce[q], change.cost.collectiveOnce[q]);
    }
    take(stage.computationOnce, change.cost.local);
    if (change.cost.joins)
      stage.joins.push_back(change.made);
  }
}

//===----------------------------------------------------------------------===//
// Strands
//===----------------------------------------------------------------------===//

std::optional<int> IlpTime::addStrands(Work &stage, bool &isSplit) {
  isSplit = numStrands > 1 && stage.isOverTime && stage.joins.empty();
  bool isOne = numStrands == 1 || stage.overTime.empty();
  if (isSplit || isOne)
    return std::nullopt;
  int column = program.addBinary();
  Expr all, strands{{column, 1}};
  for (const Expr &join : stage.joins) {
    Expr row = join;
    add(row, strands);
    program.addRow(row, -kInfinity, 1);
    add(all, join);
  }
  Expr any;
  for (const Expr &overTime : stage.overTime) {
    add(any, overTime);
    Expr row = overTime;
    add(row, all, -1);
    program.addLess(row, strands);
  }
  program.addLess(strands, any);
  return column;
}

/// The part of a sum that counts if the stage has k strands: all of it or none.
IlpTime::Sum IlpTime::takeSplit(const Sum &all, std::optional<int> strands,
                                bool isSplit) {
  if (!strands)
    return isSplit ? all : Sum();
  if (all.expr.empty())
    return Sum();
  Sum part;
  part.expr = {{program.addContinuous(0, all.largest), 1}};
  part.largest = all.largest;
  program.addLess(part.expr, all.expr);
  program.addLess(part.expr, {{*strands, all.largest}});
  // all - part <= largest (1 - strands)
  Expr row = all.expr;
  add(row, part.expr, -1);
  row.push_back({*strands, all.largest});
  program.addRow(row, -kInfinity, all.largest);
  return part;
}

/// What is left of a sum for one strand, that does the work of `share` strands.
IlpTime::Sum IlpTime::getRest(const Sum &all, const Sum &split, double share,
                              bool isSplit) const {
  Sum rest;
  if (isSplit)
    return rest;
  rest.add(all.expr, share);
  rest.add(split.expr, -share);
  rest.largest = all.largest * share;
  return rest;
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

static bool isEmpty(const Expr &expr) {
  return std::all_of(expr.begin(), expr.end(),
                     [](Term term) { return term.factor == 0; });
}

/// A column that is no less than any of the sums; the sum itself if it is the
/// only one.
IlpTime::Sum IlpTime::addLargest(std::vector<Sum> queues) {
  std::erase_if(queues, [](const Sum &sum) { return isEmpty(sum.expr); });
  if (queues.size() < 2)
    return queues.empty() ? Sum() : queues.front();
  Sum largest;
  largest.expr = {{program.addContinuous(0, kInfinity), 1}};
  for (const Sum &sum : queues) {
    program.addLess(sum.expr, largest.expr);
    largest.largest = std::max(largest.largest, sum.largest);
  }
  return largest;
}

/// The column of the seconds that a slot takes from the queue. A piece costs
/// `pieces` of the room.
int IlpTime::addTaken(const Sum &computation, Expr &pieces) {
  double alpha = problem.pieceLatency * scale;
  double room =
      computation.largest * (1 - interference.gamma) / (1 - interference.beta) -
      alpha;
  int taken = program.addContinuous(0, room);
  Expr row = level;
  row.push_back({taken, -1});
  // What is taken has arrived.
  int left = program.addContinuous(0, kInfinity);
  row.push_back({left, -1});
  program.addRow(row, 0, 0);
  level = {{left, 1}};
  if (alpha > 0) {
    int piece = program.addBinary();
    program.addLess({{taken, 1}}, {{piece, room}});
    pieces = {{piece, alpha}};
  }
  return taken;
}

void IlpTime::addSlot(Slot slot) {
  add(level, slot.arriving);
  double beta = interference.beta, gamma = interference.gamma;
  Sum collective = addLargest(std::move(slot.collectives));
  program.minimize(slot.other.expr);
  bool canTake = slot.takesWaiting && !isEmpty(level) && beta < 1 &&
                 slot.computation.largest * (1 - gamma) / (1 - beta) >
                     problem.pieceLatency * scale;
  Expr taken, pieces;
  if (canTake) {
    taken = {{addTaken(slot.computation, pieces), 1}};
    program.minimize(taken, -1);
  }
  if (isEmpty(collective.expr)) {
    program.minimize(slot.computation.expr);
    program.minimize(taken, beta);
    Expr row = taken;
    add(row, pieces);
    if (canTake)
      add(row, slot.computation.expr, -(1 - gamma) / (1 - beta));
    program.addRow(row, -kInfinity, 0);
    return;
  }
  if (isEmpty(slot.computation.expr)) {
    program.minimize(collective.expr);
    return;
  }
  Expr seconds{{program.addContinuous(0, kInfinity), 1}};
  program.minimize(seconds);
  Expr byComputation = slot.computation.expr, byCollective = collective.expr;
  add(byComputation, collective.expr, beta);
  add(byComputation, taken, beta);
  add(byCollective, taken);
  add(byCollective, pieces, 1 - beta);
  add(byCollective, slot.computation.expr, gamma);
  program.addLess(byComputation, seconds);
  program.addLess(byCollective, seconds);
}

IlpTime::Sum IlpTime::join(Sum a, const Sum &b) {
  a.add(b.expr, 1);
  a.largest += b.largest;
  return a;
}

void IlpTime::addSlots(unsigned index) {
  Work &stage = work[index];
  bool isSplit;
  std::optional<int> strands = addStrands(stage, isSplit);
  auto take = [&](const Sum &sum) { return takeSplit(sum, strands, isSplit); };
  double share = static_cast<double>(numStrands);
  Slot first, second;
  std::vector<Sum> rest, later;
  for (unsigned q = 0; q < kMaxAxes; ++q) {
    Sum perStrand = take(stage.collectivePerStrand[q]),
        once = take(stage.collectiveOnce[q]);
    Sum alone =
        getRest(stage.collectivePerStrand[q], perStrand, share, isSplit);
    alone = join(alone, getRest(stage.collectiveOnce[q], once, 1, isSplit));
    rest.push_back(std::move(alone));
    later.push_back(perStrand);
    first.collectives.push_back(join(std::move(perStrand), once));
  }
  first.computation = previous;
  first.other = addLargest(std::move(rest));
  first.takesWaiting = index <= stages.firstUpdate;
  addSlot(std::move(first));

  Sum perStrand = take(stage.computationPerStrand),
      once = take(stage.computationOnce), sums = take(stage.sums);
  Sum alone = getRest(stage.computationPerStrand, perStrand, share, isSplit);
  alone = join(alone, getRest(stage.computationOnce, once, 1, isSplit));
  alone = join(alone, getRest(stage.sums, sums, 1, isSplit));
  // In one strand, all that is left is the slot behind it.
  second.computation = join(join(perStrand, once), alone);
  second.takesWaiting = index < stages.firstUpdate;
  second.arriving = std::move(arriving);
  arriving = std::move(stage.waiting);
  if (numStrands > 1)
    second.collectives = later;
  addSlot(std::move(second));
  for (int64_t strand = 3; strand <= numStrands; ++strand) {
    Slot next;
    next.computation = perStrand;
    next.collectives = later;
    next.takesWaiting = index < stages.firstUpdate;
    addSlot(std::move(next));
  }
  previous = numStrands > 1 ? join(perStrand, sums) : Sum();
}

void IlpTime::build() {
  addOperators();
  addSums();
  addChanges();
  for (unsigned stage = 0; stage < stages.size(); ++stage)
    addSlots(stage);
  Slot last;
  last.computation = previous;
  addSlot(std::move(last));
}
