//===- Memory.cpp - bytes of a plan's operators ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory.h"
#include "tandem/Support/PieceLimit.h"
#include <algorithm>
#include <numeric>
#include <utility>

using namespace tandem::cost;

PlanMemory::PlanMemory(const SearchProblem &problem, const Plan &plan,
                       const Placement &placement,
                       const std::vector<std::optional<WaitSpan>> &spans)
    : problem(problem), plan(plan), placement(placement),
      numStrands(problem.getNumStrands()) {
  addStages();
  if (plan.gathersAhead)
    findPieces();
  addTensors(spans);
  addCopies(spans);
  sumUp();
}

void PlanMemory::addStages() {
  unsigned begin = 0;
  for (unsigned end : plan.stageEnds) {
    stages.push_back({begin, end});
    begin = end;
  }
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
    workspaces.push_back(signature.workspace);
    Stage &stage = stages[placement.stageOf[op]];
    if (!problem.operators[op].isArgument() && problem.isOverTime(signature))
      stage.isOverTime = true;
    for (unsigned beside = stage.begin; placement.isAhead[op] && beside < op;
         ++beside)
      workspaces[beside] += signature.workspace;
  }
}

//===----------------------------------------------------------------------===//
// What is gathered ahead
//===----------------------------------------------------------------------===//

/// Whether it is an argument's, from other devices.
bool PlanMemory::isGathered(const PlacedCopy &copy) const {
  const PlacedTensor &tensor = placement.tensors[copy.copy.tensor];
  auto sends = [](const std::array<double, kMaxAxes> &seconds) {
    return std::ranges::any_of(seconds, [](double each) { return each > 0; });
  };
  return tensor.stage == kBeforeAll && copy.from == tensor.produced &&
         !copy.waits &&
         (sends(copy.change.collectiveOnce) ||
          sends(copy.change.collectivePerStrand));
}

/// As the schedule begins its stages (Transforms/Schedule/AssignSlots.cpp).
void PlanMemory::findPieces() {
  std::vector<int64_t> gathers(stages.size()), gradients(stages.size());
  std::array<int64_t, kNumPasses> byPass{};
  int64_t ofGradients = 0;
  for (const PlacedCopy &copy : placement.copies) {
    const PlacedTensor &tensor = placement.tensors[copy.copy.tensor];
    if (isGathered(copy)) {
      int64_t bytes = problem.getBytes(copy.copy.tensor, copy.copy.layout);
      gathers[copy.stage] += bytes;
      byPass[size_t(copy.copy.pass)] += bytes;
    } else if (copy.waits) {
      int64_t bytes = problem.getBytes(copy.copy.tensor, copy.from);
      gradients[tensor.stage] += bytes;
      ofGradients += bytes;
    }
  }
  PieceLimit gatheredLimit, readyLimit;
  gatheredLimit.set(*std::ranges::max_element(byPass));
  readyLimit.set(ofGradients);
  unsigned before = 0, begin = 0;
  int64_t gathered = 0, ready = 0;
  for (unsigned stage = 0; stage < stages.size(); ++stage) {
    bool isFull = gathered > 0 && gathers[stage] > 0 &&
                  gathered + gathers[stage] > gatheredLimit.get();
    if (isFull || ready >= readyLimit.get()) {
      if (gathered > 0)
        gatheredLimit.grow();
      if (ready > 0)
        readyLimit.grow();
      before = std::exchange(begin, stage);
      gathered = ready = 0;
    }
    pieceBefore.push_back(before);
    gathered += gathers[stage];
    ready += gradients[stage];
  }
}

//===----------------------------------------------------------------------===//
// What is held
//===----------------------------------------------------------------------===//

bool PlanMemory::isOverTime(const Layout &layout) const {
  int axis = problem.getTimeAxis();
  return numStrands == 1 || layout[axis] != kFull;
}

/// What all strands hold together is held in the whole of stages that they run
/// one after the other.
void PlanMemory::addItem(Item item) {
  item.bytes = problem.getBytes(item.tensor, item.layout);
  item.isOnce |= !isOverTime(item.layout);
  item.isEarly |= item.kind == Holding::Kind::Copy;
  if (item.first > item.last)
    return;
  const Stage &first = stages[placement.stageOf[item.first]],
              &last = stages[placement.stageOf[item.last]];
  if (item.isOnce && first.isOverTime)
    item.first = first.begin;
  if (item.isOnce && last.isOverTime)
    item.last = last.end - 1;
  items.push_back(item);
}

/// Whether a view lies in the memory of its root.
bool PlanMemory::isFolded(unsigned tensor) const {
  unsigned root = problem.getRoot(tensor);
  const Layout &own = placement.tensors[tensor].produced;
  const Layout &other = placement.tensors[root].produced;
  return root != tensor && !placement.tensors[tensor].isSummed &&
         isOverTime(own) == isOverTime(other) &&
         problem.getBytes(tensor, own) == problem.getBytes(root, other);
}

/// In its producer's layout until `last`, and as a sum over time.
void PlanMemory::addTensor(unsigned tensor, unsigned last, unsigned lastOfAll) {
  const PlacedTensor &info = placement.tensors[tensor];
  bool isArgument = info.stage == kBeforeAll;
  unsigned stageEnd = isArgument ? 0 : stages[info.stage].end;
  unsigned first = problem.tensors[tensor].getFirstHeld(info.producer);
  bool isAhead = !isArgument && placement.isAhead[info.producer];
  if (isAhead)
    first = std::min(first, stages[info.stage].begin);
  Item item{
      Holding::Kind::Produced, tensor, info.produced, 0, first, last, false};
  item.isEarly = isAhead && first == stages[info.stage].begin;
  if (info.isSummed && !info.keepsTerms) {
    item.last = stageEnd - 1;
    item.isTerms = true;
  }
  const Tensor &data = problem.tensors[tensor];
  bool isUnread = data.heldFrom == Tensor::kIfRead && last <= info.producer;
  bool holdsNothing = (data.isInKernel || isUnread) && !info.isSummed;
  if (!isArgument && !holdsNothing)
    addItem(item);
  if (info.isSummed && lastOfAll >= stageEnd)
    addItem({Holding::Kind::Sum, tensor,
             getSummedLayout(problem, info.produced), 0, stageEnd, lastOfAll,
             true});
}

void PlanMemory::addTensors(const std::vector<std::optional<WaitSpan>> &spans) {
  size_t count = placement.tensors.size();
  std::vector<unsigned> lastOps(count);
  for (unsigned i = 0; i < count; ++i)
    lastOps[i] = placement.tensors[i].lastOp;
  for (unsigned i = 0; i < placement.copies.size(); ++i)
    if (spans[i]) {
      unsigned &last = lastOps[placement.copies[i].copy.tensor];
      last = std::max(last, stages[spans[i]->last].end - 1);
    }
  std::vector<unsigned> lastOfAll = lastOps;
  for (unsigned i = 0; i < count; ++i)
    if (isFolded(i)) {
      unsigned &last = lastOps[problem.getRoot(i)];
      last = std::max(last, lastOfAll[i]);
    }
  for (unsigned i = 0; i < count; ++i) {
    const PlacedTensor &tensor = placement.tensors[i];
    if (tensor.stage == kBeforeAll)
      resident += problem.getBytes(i, tensor.produced);
    if (!tensor.isInPlace && !isFolded(i))
      addTensor(i, lastOps[i], lastOfAll[i]);
  }
}

void PlanMemory::addCopies(const std::vector<std::optional<WaitSpan>> &spans) {
  for (unsigned i = 0; i < placement.copies.size(); ++i) {
    const PlacedCopy &copy = placement.copies[i];
    if (copy.isInPlace)
      continue;
    unsigned stage =
        spans[i] ? std::min(spans[i]->first, copy.stage) : copy.stage;
    if (plan.gathersAhead && isGathered(copy))
      stage = pieceBefore[stage];
    addItem({Holding::Kind::Copy, copy.copy.tensor, copy.copy.layout, 0,
             stages[stage].begin, copy.lastOp, false});
  }
}

//===----------------------------------------------------------------------===//
// How much that is
//===----------------------------------------------------------------------===//

/// Copies are there before the stage's first operator.
bool PlanMemory::isAtBegin(const Item &item, const Stage &stage) const {
  bool isMade = item.first == stage.begin && item.isEarly;
  return (item.first < stage.begin || isMade) && item.last >= stage.begin;
}

bool PlanMemory::isAtEnd(const Item &item, const Stage &stage) const {
  return item.first < stage.end &&
         (item.last >= stage.end ||
          (item.isTerms && item.last + 1 == stage.end));
}

void PlanMemory::sumUp() {
  // Of one strand between the operator before and this one.
  std::vector<int64_t> between(problem.operators.size() + 2);
  alive.assign(problem.operators.size() + 1, 0);
  once = alive;
  for (const Item &item : items) {
    int64_t share = getShare(item);
    Stage &first = stages[placement.stageOf[item.first]];
    alive[item.first] += share;
    between[item.first + 1] += share;
    alive[item.last + 1] -= share;
    between[item.last + 1] -= share;
    first.atBegin += item.isEarly ? share : 0;
    first.atEnd += item.isTerms ? share : 0;
    once[item.first] += item.isOnce ? item.bytes : 0;
    once[item.last + 1] -= item.isOnce ? item.bytes : 0;
  }
  for (std::vector<int64_t> *sums : {&alive, &between, &once})
    std::partial_sum(sums->begin(), sums->end(), sums->begin());
  for (Stage &stage : stages) {
    stage.atBegin += between[stage.begin];
    stage.atEnd += between[stage.end];
  }
}

int64_t PlanMemory::getBytes(const Stage &stage, unsigned op) const {
  return resident + alive[op] +
         (numStrands - 1) * std::max(stage.atBegin, stage.atEnd) + once[op] +
         workspaces[op];
}

unsigned PlanMemory::findPeak(const Stage &stage) const {
  unsigned peak = stage.begin;
  for (unsigned op = stage.begin; op < stage.end; ++op)
    if (getBytes(stage, op) > getBytes(stage, peak))
      peak = op;
  return peak;
}

std::vector<int64_t> PlanMemory::getStageBytes() const {
  std::vector<int64_t> bytes;
  for (const Stage &stage : stages)
    bytes.push_back(getBytes(stage, findPeak(stage)));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

std::vector<Holding> PlanMemory::list() const {
  std::vector<Holding> list;
  unsigned last = stages.size() - 1;
  for (unsigned i = 0; i < placement.tensors.size(); ++i)
    if (const PlacedTensor &tensor = placement.tensors[i];
        tensor.stage == kBeforeAll && !stages.empty())
      list.push_back({Holding::Kind::Stored, i, tensor.produced,
                      problem.getBytes(i, tensor.produced), 0, last});
  for (const Item &item : items)
    list.push_back({item.kind, item.tensor, item.layout, item.bytes,
                    placement.stageOf[item.first],
                    placement.stageOf[item.last]});
  return list;
}

std::vector<Holding> PlanMemory::listAtPeak(unsigned index) const {
  const Stage &stage = stages[index];
  unsigned peak = findPeak(stage);
  std::vector<Holding> all = list(), held;
  size_t numStored = all.size() - items.size();
  for (size_t i = 0; i < all.size(); ++i) {
    if (i >= numStored) {
      const Item &item = items[i - numStored];
      bool isBeside = stage.atBegin >= stage.atEnd ? isAtBegin(item, stage)
                                                   : isAtEnd(item, stage);
      int64_t isThere = item.first <= peak && peak <= item.last;
      int64_t numParts = isThere + (isBeside ? numStrands - 1 : 0);
      all[i].bytes =
          item.isOnce ? isThere * item.bytes : numParts * getShare(item);
    }
    if (all[i].bytes > 0)
      held.push_back(all[i]);
  }
  if (workspaces[peak] > 0)
    held.push_back({Holding::Kind::Workspace, peak, Layout(), workspaces[peak],
                    index, index});
  return held;
}
