//===- Pieces.cpp - slots of waiting collectives --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Pieces.h"
#include "tandem/Cost/Slots.h"
#include <cmath>
#include <deque>
#include <map>
#include <tuple>

using namespace tandem::cost;

namespace {
/// A collective in the queue.
struct Waiter {
  unsigned waiting, collective;
  double latency = 0, seconds = 0; // s; `seconds` of both
  /// Into how many parts it can be cut, and how many of them are done.
  int64_t numParts = 1, done = 0;
  /// Seconds of the queue before it, from the first collective on.
  double begin = 0;

  double getPart() const {
    return (seconds - latency) / static_cast<double>(numParts);
  }
  int64_t getLeft() const { return numParts - done; }
};

class Cutter {
public:
  Cutter(const SearchProblem &problem, const Plan &plan, ChangeTable &table,
         const CostReport &report)
      : problem(problem), plan(plan), table(table), report(report),
        interference(problem) {}
  std::vector<WaitPiece> run();

private:
  void findWaiters();
  std::vector<unsigned> getQueueOrder() const;
  unsigned getStage(unsigned op) const;
  Layout getBase(unsigned tensor, unsigned producer) const;
  void addWaiters(unsigned waiting, unsigned producer);
  double getRoom(unsigned slot) const;
  double getRoomBehind(unsigned slot) const;
  bool isUpdate(unsigned slot) const;
  bool isSent(unsigned slot, bool isSerial) const;
  bool isContiguous(unsigned from, unsigned slot) const;
  bool continues(unsigned slot) const;
  void enqueue(unsigned step);
  void fill(unsigned slot);
  double takePart(unsigned slot, double room);
  void take(unsigned slot, int64_t count);

  const SearchProblem &problem;
  const Plan &plan;
  ChangeTable &table;
  const CostReport &report;
  Interference interference;
  /// By the stage that makes the gradient.
  std::map<unsigned, std::vector<Waiter>> arriving;
  std::deque<Waiter> queue;
  /// Seconds of all that came into the queue, and of what `cost` has taken.
  double arrived = 0, taken = 0;
  /// Of the last collective, sent whole over several slots: what is left.
  double unsent = 0;
  std::vector<WaitPiece> pieces;
};
} // namespace

unsigned Cutter::getStage(unsigned op) const {
  return std::upper_bound(plan.stageEnds.begin(), plan.stageEnds.end(), op) -
         plan.stageEnds.begin();
}

/// In which the producer leaves the gradient; its sum over time is done.
Layout Cutter::getBase(unsigned tensor, unsigned producer) const {
  const Operator &op = problem.operators[producer];
  unsigned result = std::find(op.results.begin(), op.results.end(), tensor) -
                    op.results.begin();
  Layout base = problem.getSignatures(producer)[plan.signatures[producer]]
                    .results[result];
  if (int time = problem.getTimeAxis(); time >= 0 && base[time] == kReduce)
    base[time] = kFull;
  return base;
}

/// By producers, then by first uses (Cost.h, *Waiting*).
std::vector<unsigned> Cutter::getQueueOrder() const {
  std::vector<unsigned> producers = problem.getProducers();
  std::map<Copy, unsigned> firstUse;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
    for (size_t i = 0; i < info.operands.size(); ++i)
      firstUse.try_emplace(
          Copy{info.operands[i], signature.operands[i], info.pass}, op);
  }
  std::vector<unsigned> order(plan.waiting.size());
  for (unsigned i = 0; i < order.size(); ++i)
    order[i] = i;
  auto getKey = [&](unsigned index) {
    const Copy &copy = plan.waiting[index];
    auto use = firstUse.find(copy);
    return std::make_tuple(producers[copy.tensor], copy.tensor,
                           use == firstUse.end() ? 0 : use->second, index);
  };
  std::sort(order.begin(), order.end(),
            [&](unsigned a, unsigned b) { return getKey(a) < getKey(b); });
  return order;
}

void Cutter::addWaiters(unsigned waiting, unsigned producer) {
  const Copy &copy = plan.waiting[waiting];
  const Tensor &tensor = problem.tensors[copy.tensor];
  Layout layout = getBase(copy.tensor, producer);
  unsigned number = 0;
  for (const AxisChange &change :
       table.getSequence(copy.tensor, layout, copy.layout)) {
    const Axis &axis = problem.axes[change.axis];
    std::vector<int64_t> shape = tensor.shape;
    for (unsigned other = 0; other < problem.axes.size(); ++other)
      if (other != change.axis && layout[other] >= 0)
        shape[layout[other]] /= problem.axes[other].size;
    layout[change.axis] = change.to;
    if (change.from == kFull)
      continue; // A slice.
    double times =
        static_cast<double>(change.isPerStrand ? problem.getNumStrands() : 1);
    arriving[getStage(producer)].push_back(
        {waiting, number++, times * change.latency, times * change.seconds,
         getCutExtent(shape, axis.size, change.from, change.to)});
  }
}

void Cutter::findWaiters() {
  std::vector<unsigned> producers = problem.getProducers();
  for (unsigned waiting : getQueueOrder())
    addWaiters(waiting, producers[plan.waiting[waiting].tensor]);
}

double Cutter::getRoom(unsigned slot) const {
  double computation = slot > 0 ? report.steps[slot - 1].computation : 0;
  return interference.getRoom(computation, report.steps[slot].collective,
                              report.slots[slot].isSerial);
}

/// Whether the first update is computed behind `slot`.
bool Cutter::isUpdate(unsigned slot) const {
  const Step &step = report.steps[slot];
  return step.strand == 0 &&
         problem.operators[plan.stageEnds[step.stage] - 1].pass == Pass::Update;
}

/// Whether a slot, if it is serial or not, has collectives of its own.
bool Cutter::isSent(unsigned slot, bool isSerial) const {
  return report.slots[slot].isSerial == isSerial &&
         report.steps[slot].collective > 0;
}

/// Whether nothing is sent between what waits in slot `from` and in `slot`:
/// it comes behind the collectives of an overlapped slot, before those of a
/// serial one.
bool Cutter::isContiguous(unsigned from, unsigned slot) const {
  if (from == slot)
    return true;
  if (isSent(from, true) || isSent(slot, false))
    return false;
  for (unsigned between = from + 1; between < slot; ++between)
    if (report.steps[between].collective > 0)
      return false;
  return true;
}

/// What the slots behind `slot` have left up to the first one that something
/// else is sent before, or to the first update.
double Cutter::getRoomBehind(unsigned slot) const {
  double room = 0;
  for (unsigned next = slot + 1;
       next < report.steps.size() && !isUpdate(next - 1) &&
       isContiguous(next - 1, next);
       ++next)
    room += getRoom(next);
  return room;
}

/// Whether the front goes on in `slot` where its last piece ended.
bool Cutter::continues(unsigned slot) const {
  return queue.front().done > 0 && isContiguous(pieces.back().step, slot);
}

/// `count` parts of the front.
void Cutter::take(unsigned slot, int64_t count) {
  Waiter &front = queue.front();
  bool isSame = continues(slot);
  front.done += count;
  bool isWhole = front.done == front.numParts;
  double end = isWhole ? 1
                       : static_cast<double>(front.done) /
                             static_cast<double>(front.numParts);
  if (isSame)
    pieces.back().end = end;
  else
    pieces.push_back({front.waiting, front.collective, slot, end});
  if (isWhole)
    queue.pop_front();
}

/// Takes of the front what there is room for, and returns what room is left.
double Cutter::takePart(unsigned slot, double room) {
  const Waiter &front = queue.front();
  double part = front.getPart(), latency = 0;
  // Nothing is sent in the latency of what was cut: computation goes on beside
  // it, but not slower.
  if (!continues(slot))
    latency = front.latency / (1 - interference.beta);
  double whole = part * static_cast<double>(front.getLeft()) +
                 (front.done == 0 ? front.latency : latency);
  if (whole <= room + getRoomBehind(slot)) {
    take(slot, front.getLeft());
    unsent = std::max(0.0, whole - room);
    return std::max(0.0, room - whole);
  }
  // One piece more is worth its latency only if it keeps up with `cost`.
  double behind = taken - front.begin - part * static_cast<double>(front.done);
  int64_t count = behind > 0 && room > latency
                      ? std::min<int64_t>(front.getLeft() - 1,
                                          std::floor((room - latency) / part))
                      : 0;
  if (count > 0)
    take(slot, count);
  return 0;
}

void Cutter::fill(unsigned slot) {
  taken += report.slots[slot].waited;
  double room = getRoom(slot), rest = std::min(room, unsent);
  unsent -= rest;
  room -= rest;
  while (!queue.empty() && room > 0)
    room = takePart(slot, room);
}

/// What waits for the gradients that are finished with `step`.
void Cutter::enqueue(unsigned step) {
  const Step &done = report.steps[step];
  if (done.strand + 1 != report.stageStrands[done.stage])
    return;
  for (Waiter &waiter : arriving[done.stage]) {
    waiter.begin = arrived;
    arrived += waiter.seconds;
    queue.push_back(waiter);
  }
}

std::vector<WaitPiece> Cutter::run() {
  findWaiters();
  for (unsigned slot = 0; slot < report.steps.size(); ++slot) {
    fill(slot);
    if (slot > 0)
      enqueue(slot - 1);
    // What is left before the first update is sent there, all of it.
    while ((isUpdate(slot) || slot + 1 == report.steps.size()) &&
           !queue.empty())
      take(slot, queue.front().getLeft());
  }
  return pieces;
}

std::vector<WaitPiece> tandem::cost::cutWaiting(const SearchProblem &problem,
                                                const Plan &plan,
                                                ChangeTable &table,
                                                const CostReport &report) {
  return Cutter(problem, plan, table, report).run();
}
