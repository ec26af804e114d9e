//===- Pieces.cpp - where waiting collectives are sent --------------------===//
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
  double seconds = 0;
  /// Elements of what each rank sends or receives, whichever is less, and how
  /// many of them are done.
  int64_t elements = 1, done = 0;

  double getSeconds(int64_t count) const {
    return seconds * static_cast<double>(count) / static_cast<double>(elements);
  }
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
  void fill(unsigned slot);
  void take(unsigned slot, int64_t count);
  bool isContiguous(const WaitPiece &piece, unsigned slot) const;

  const SearchProblem &problem;
  const Plan &plan;
  ChangeTable &table;
  const CostReport &report;
  Interference interference;
  /// By the stage that makes the gradient.
  std::map<unsigned, std::vector<Waiter>> arriving;
  std::deque<Waiter> queue;
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
  unsigned number = 0;
  for (const AxisChange &change : table.getSequence(
           copy.tensor, getBase(copy.tensor, producer), copy.layout)) {
    if (change.from == kFull)
      continue; // A slice.
    Waiter waiter{waiting, number++, change.seconds, 1, 0};
    int64_t bytes = change.bytes;
    // Of a piece every member has an equal part.
    if (change.from >= 0 || change.to >= 0)
      bytes /= problem.axes[change.axis].size;
    waiter.elements =
        std::max<int64_t>(1, bytes / problem.tensors[copy.tensor].elementBytes);
    arriving[getStage(producer)].push_back(waiter);
  }
}

void Cutter::findWaiters() {
  std::vector<unsigned> producers = problem.getProducers();
  for (unsigned waiting : getQueueOrder())
    addWaiters(waiting, producers[plan.waiting[waiting].tensor]);
}

/// Whether nothing is sent between `piece` and what begins in `slot`: pieces
/// come behind the collectives of an overlapped slot, before those of a serial
/// one.
bool Cutter::isContiguous(const WaitPiece &piece, unsigned slot) const {
  auto isSent = [&](unsigned index, bool isSerial) {
    return report.slots[index].isSerial == isSerial &&
           report.steps[index].collective > 0;
  };
  if (piece.step == slot)
    return true;
  if (isSent(piece.step, true) || isSent(slot, false))
    return false;
  for (unsigned between = piece.step + 1; between < slot; ++between)
    if (report.steps[between].collective > 0)
      return false;
  return true;
}

/// `count` elements of the front.
void Cutter::take(unsigned slot, int64_t count) {
  Waiter &front = queue.front();
  front.done += count;
  double end = front.done == front.elements
                   ? 1
                   : static_cast<double>(front.done) /
                         static_cast<double>(front.elements);
  bool continues = !pieces.empty() && pieces.back().waiting == front.waiting &&
                   pieces.back().collective == front.collective;
  if (continues && isContiguous(pieces.back(), slot))
    pieces.back().end = end;
  else
    pieces.push_back({front.waiting, front.collective, slot, end});
  if (front.done == front.elements)
    queue.pop_front();
}

void Cutter::fill(unsigned slot) {
  const Step &step = report.steps[slot];
  double computation = slot > 0 ? report.steps[slot - 1].computation : 0;
  double room = interference.getRoom(computation, step.collective,
                                     report.slots[slot].isSerial);
  while (!queue.empty() && room > 0) {
    const Waiter &front = queue.front();
    if (front.done > 0 && !isContiguous(pieces.back(), slot))
      room -= problem.pieceLatency;
    int64_t left = front.elements - front.done;
    double perElement = front.getSeconds(1);
    int64_t count = left;
    if (front.getSeconds(left) > room)
      count = std::min<int64_t>(left - 1, std::floor(room / perElement));
    if (count <= 0)
      return;
    room -= front.getSeconds(count);
    bool isWhole = count == left;
    take(slot, count);
    if (!isWhole)
      return;
  }
}

std::vector<WaitPiece> Cutter::run() {
  findWaiters();
  if (report.steps.empty())
    return pieces;
  for (unsigned slot = 0; slot < report.steps.size(); ++slot) {
    fill(slot);
    if (slot > 0) {
      const Step &done = report.steps[slot - 1];
      if (done.strand + 1 == report.stageStrands[done.stage])
        for (const Waiter &waiter : arriving[done.stage])
          queue.push_back(waiter);
    }
    bool isUpdate =
        report.steps[slot].strand == 0 &&
        problem.operators[plan.stageEnds[report.steps[slot].stage] - 1].pass ==
            Pass::Update;
    // What is left before the first update is sent there, all of it.
    while ((isUpdate || slot + 1 == report.steps.size()) && !queue.empty())
      take(slot, queue.front().elements - queue.front().done);
  }
  return pieces;
}

std::vector<WaitPiece> tandem::cost::cutWaiting(const SearchProblem &problem,
                                                const Plan &plan,
                                                ChangeTable &table,
                                                const CostReport &report) {
  return Cutter(problem, plan, table, report).run();
}
