//===- Memory.cpp - bytes of a plan's operators ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory.h"
#include "tandem/Support/PieceLimit.h"
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

using namespace tandem::cost;

PlanMemory::PlanMemory(const SearchProblem &problem, const Plan &plan,
                       const Placement &placement,
                       const std::vector<std::optional<WaitSpan>> &spans)
    : problem(problem), plan(plan), placement(placement),
      numStrands(problem.getNumStrands()) {
  findWaits(spans);
  addStages();
  addTensors();
  addCopies();
  addJoined();
  sumUp();
}

void PlanMemory::addStages() {
  std::vector<unsigned> ends = pieces;
  ends.insert(ends.end(), plan.stageEnds.begin(), plan.stageEnds.end());
  std::ranges::sort(ends);
  unsigned begin = 0;
  for (unsigned end : ends)
    if (end > begin) {
      stageOf.resize(end, stages.size());
      stages.push_back({begin, end, placement.stageOf[begin]});
      begin = end;
    }
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
    workspaces.push_back(signature.workspace);
    Stage &stage = stages[stageOf[op]];
    if (!problem.operators[op].isArgument() && problem.isOverTime(signature))
      stage.isOverTime = true;
    for (unsigned beside = stage.begin; placement.isAhead[op] && beside < op;
         ++beside)
      workspaces[beside] += signature.workspace;
  }
}

//===----------------------------------------------------------------------===//
// What is gathered ahead, and what waits
//===----------------------------------------------------------------------===//

static bool isSent(const PlacedCopy &copy) {
  auto sends = [](const std::array<double, kMaxAxes> &seconds) {
    return std::ranges::any_of(seconds, [](double each) { return each > 0; });
  };
  return sends(copy.change.collectiveOnce) ||
         sends(copy.change.collectivePerStrand);
}

/// Whether it is an argument's, from other devices.
bool PlanMemory::isGathered(const PlacedCopy &copy) const {
  const PlacedTensor &tensor = placement.tensors[copy.copy.tensor];
  return tensor.stage == kBeforeAll && copy.from == tensor.produced &&
         !copy.waits && isSent(copy);
}

/// Whether it is a gradient's on the way to its update; a plan may let less
/// wait than the schedule does.
bool PlanMemory::waits(const PlacedCopy &copy) const {
  int stage = placement.tensors[copy.copy.tensor].stage;
  return copy.waits ||
         (plan.gathersAhead && copy.copy.pass == Pass::Update &&
          stage != kBeforeAll && unsigned(stage) < placement.firstUpdateStage &&
          isSent(copy) && !copy.change.joins);
}

/// As the schedule begins its stages (Transforms/Schedule/AssignSlots.cpp).
void PlanMemory::findPieces() {
  size_t count = problem.operators.size();
  std::vector<int64_t> gathers(count), gradients(count);
  std::array<int64_t, kNumPasses> byPass{};
  int64_t ofGradients = 0;
  for (const PlacedCopy &copy : placement.copies) {
    if (isGathered(copy)) {
      int64_t bytes = problem.getBytes(copy.copy.tensor, copy.copy.layout);
      gathers[copy.firstOp] += bytes;
      byPass[size_t(copy.copy.pass)] += bytes;
    } else if (waits(copy)) {
      int64_t bytes = problem.getBytes(copy.copy.tensor, copy.from);
      gradients[placement.tensors[copy.copy.tensor].producer] += bytes;
      ofGradients += bytes;
    }
  }
  PieceLimit gatheredLimit, readyLimit;
  gatheredLimit.set(*std::ranges::max_element(byPass));
  readyLimit.set(ofGradients);
  int64_t gathered = 0, ready = 0;
  unsigned firstUpdate = getBegin(placement.firstUpdateStage);
  pieces = {0};
  for (unsigned op = 0; op < count; ++op) {
    bool isFull = gathered > 0 && gathers[op] > 0 &&
                  gathered + gathers[op] > gatheredLimit.get();
    if (isFull || ready >= readyLimit.get() || op == firstUpdate) {
      if (gathered > 0)
        gatheredLimit.grow();
      if (ready > 0)
        readyLimit.grow();
      pieces.push_back(op);
      gathered = ready = 0;
    }
    gathered += gathers[op];
    ready += gradients[op];
  }
}

/// The first operator of the plan's stage, or of what is behind all.
unsigned PlanMemory::getBegin(unsigned stage) const {
  return stage ? plan.stageEnds[stage - 1] : 0;
}

unsigned PlanMemory::findPiece(unsigned op) const {
  return std::ranges::upper_bound(pieces, op) - pieces.begin() - 1;
}

/// Where it is sent, and the piece behind; all are sent before the updates.
PlanMemory::Span PlanMemory::getSpanOfPiece(const PlacedCopy &copy) const {
  size_t next = findPiece(placement.tensors[copy.copy.tensor].producer) + 1;
  unsigned end =
      next + 2 < pieces.size() ? pieces[next + 2] : pieces.back() + 1;
  return {pieces[next], end - 1};
}

void PlanMemory::findWaits(const std::vector<std::optional<WaitSpan>> &spans) {
  if (plan.gathersAhead)
    findPieces();
  for (unsigned i = 0; i < spans.size(); ++i) {
    const PlacedCopy &copy = placement.copies[i];
    std::optional<Span> &span = sent.emplace_back();
    if (plan.gathersAhead && waits(copy))
      span = getSpanOfPiece(copy);
    else if (spans[i])
      span = {getBegin(spans[i]->first), plan.stageEnds[spans[i]->last] - 1};
  }
}

/// Whether an all-reduce of a preset's schedule writes over its operand, which
/// nobody else reads.
bool PlanMemory::isOverwritten(unsigned index) const {
  const PlacedCopy &copy = placement.copies[index];
  const PlacedTensor &tensor = placement.tensors[copy.copy.tensor];
  auto isOfTensor = [&](const PlacedCopy &other) {
    return other.copy.tensor == copy.copy.tensor;
  };
  return plan.gathersAhead && sent[index] && !copy.isInPlace &&
         (tensor.lastOp < sent[index]->first ||
          tensor.lastOp == copy.firstOp) &&
         problem.getBytes(copy.copy.tensor, copy.from) ==
             problem.getBytes(copy.copy.tensor, copy.copy.layout) &&
         std::ranges::count_if(placement.copies, isOfTensor) == 1;
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
  const Stage &first = stages[stageOf[item.first]],
              &last = stages[stageOf[item.last]];
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
  unsigned stageEnd = isArgument ? 0 : stages[stageOf[info.producer]].end;
  unsigned first = problem.tensors[tensor].getFirstHeld(info.producer);
  bool isAhead = !isArgument && placement.isAhead[info.producer];
  if (isAhead)
    first = std::min(first, stages[stageOf[info.producer]].begin);
  Item item{
      Holding::Kind::Produced, tensor, info.produced, 0, first, last, false};
  item.isEarly = isAhead && first == stages[stageOf[info.producer]].begin;
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

void PlanMemory::addTensors() {
  size_t count = placement.tensors.size();
  std::vector<unsigned> lastOps(count);
  for (unsigned i = 0; i < count; ++i)
    lastOps[i] = placement.tensors[i].lastOp;
  for (unsigned i = 0; i < placement.copies.size(); ++i)
    if (sent[i]) {
      const PlacedCopy &copy = placement.copies[i];
      unsigned &last = lastOps[copy.copy.tensor];
      // Of what the plan does not let wait, the last reader is the update.
      if (!copy.waits && last == copy.firstOp)
        last = 0;
      last = std::max(last, isOverwritten(i) ? copy.lastOp : sent[i]->last);
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

void PlanMemory::addCopies() {
  for (unsigned i = 0; i < placement.copies.size(); ++i) {
    const PlacedCopy &copy = placement.copies[i];
    if (copy.isInPlace || isOverwritten(i))
      continue;
    unsigned first = stages[stageOf[copy.firstOp]].begin;
    if (sent[i])
      first = std::min(first, sent[i]->first);
    else if (plan.gathersAhead && isGathered(copy))
      first = pieces[std::max(1u, findPiece(copy.firstOp)) - 1];
    addItem({Holding::Kind::Copy, copy.copy.tensor, copy.copy.layout, 0, first,
             copy.lastOp, false});
  }
}

/// Whether it is an all-reduce, or a reduce-scatter of whole rows, on one axis.
bool PlanMemory::mayBeJoined(const PlacedCopy &copy) const {
  const Tensor &tensor = problem.tensors[copy.copy.tensor];
  if (problem.getBytes(copy.copy.tensor, copy.from) > kMaxJoinedBytes)
    return false;
  unsigned numChanges = 0;
  Form to = kFull;
  for (unsigned axis = 0; axis < problem.axes.size(); ++axis)
    if (copy.from[axis] != copy.copy.layout[axis]) {
      ++numChanges;
      to = copy.copy.layout[axis];
    }
  auto isOne = [](int64_t size) { return size == 1; };
  return numChanges == 1 &&
         std::all_of(tensor.shape.begin(),
                     tensor.shape.begin() + std::max<int64_t>(0, to), isOne);
}

/// What a piece's small gradients are copied to, side by side, to be sent as
/// one (Transforms/Schedule/CombineWaiting.cpp).
void PlanMemory::addJoined() {
  std::map<std::pair<unsigned, Layout>, std::vector<Item>> joined;
  for (unsigned i = 0; i < placement.copies.size() && !pieces.empty(); ++i) {
    const PlacedCopy &copy = placement.copies[i];
    unsigned tensor = copy.copy.tensor;
    // Sums over time take the place of their terms.
    if (!sent[i] || placement.tensors[tensor].isSummed || !mayBeJoined(copy))
      continue;
    unsigned last = sent[i]->first - 1;
    joined[{last, copy.copy.layout}].push_back(
        {Holding::Kind::Copy, tensor, copy.from, 0, last, last, false});
  }
  for (auto &[key, items] : joined)
    if (items.size() > 1)
      for (const Item &item : items)
        addItem(item);
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
    Stage &first = stages[stageOf[item.first]];
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
  std::vector<int64_t> bytes(placement.numStages);
  for (const Stage &stage : stages)
    bytes[stage.ofPlan] =
        std::max(bytes[stage.ofPlan], getBytes(stage, findPeak(stage)));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

std::vector<Holding> PlanMemory::list() const {
  std::vector<Holding> list;
  unsigned last = placement.numStages - 1;
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
  auto getMost = [&](const Stage &part) {
    return part.ofPlan == index ? getBytes(part, findPeak(part)) : -1;
  };
  const Stage &stage = *std::ranges::max_element(stages, {}, getMost);
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
