//===- Expand.cpp - extend a partial plan by one operator -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Labels/Label.h"
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

LabelExpander::LabelExpander(const Facts &facts, ChangeTable &table,
                             const Line &line, const LabelWalk &walk)
    : facts(facts), problem(facts.problem), table(table), line(line),
      walk(walk), hasLimit(facts.problem.memoryLimit !=
                           std::numeric_limits<int64_t>::max()),
      leastBytes(walk.operators.size() + 1) {
  for (unsigned place = walk.operators.size(); place-- > 0;)
    leastBytes[place] =
        leastBytes[place + 1] + getLeastBytes(walk.operators[place]);
}

/// What the operator holds all the time, if it does, in the smallest of its
/// layouts.
int64_t LabelExpander::getLeastBytes(unsigned op) const {
  const Operator &info = problem.operators[op];
  if (info.kind != Operator::Kind::Resident)
    return 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Signature &signature : problem.getSignatures(op)) {
    int64_t bytes = 0;
    for (unsigned i = 0; i < info.results.size(); ++i)
      bytes += problem.getBytes(info.results[i], signature.results[i]);
    least = std::min(least, bytes);
  }
  return least;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

namespace {
/// Moves the label's waiting copies through the queue, for their memory.
struct WaiterQueue {
  const Facts &facts;
  Label &label;

  void start(LabelWaiter &waiter) {
    if (waiter.isStarted)
      return;
    waiter.isStarted = true;
    label.stageBytes += waiter.bytes;
    label.nextBytes += waiter.bytes;
  }
  /// The gradient goes, unless the backward pass has not done with it.
  void end(LabelWaiter &waiter) {
    for (LiveTensor &live : label.tensors) {
      if (live.tensor != waiter.tensor)
        continue;
      unsigned op = facts.tensors[live.tensor].uses[live.numUsed].op;
      if (facts.problem.operators[op].pass != Pass::Update) {
        live.bytesToFree += waiter.freedBytes;
        return;
      }
    }
    label.nextBytes -= waiter.freedBytes;
  }

  void take(double taken, bool takesAll) {
    std::vector<LabelWaiter> rest;
    for (LabelWaiter &waiter : label.waiters) {
      bool isReached = waiter.place == 0 && (takesAll || taken > 0);
      if (isReached)
        start(waiter);
      if (isReached && (takesAll || taken >= waiter.seconds)) {
        taken -= waiter.seconds;
        end(waiter);
        continue;
      }
      if (isReached) {
        waiter.seconds -= taken;
        taken = 0;
      }
      rest.push_back(waiter);
    }
    label.waiters = std::move(rest);
  }
  void arrive() {
    for (LabelWaiter &waiter : label.waiters)
      if (waiter.place == 1)
        waiter.place = 0;
  }
  void expose() {
    std::vector<LabelWaiter> rest;
    for (LabelWaiter &waiter : label.waiters) {
      if (waiter.place == 0) {
        start(waiter);
        end(waiter);
      } else {
        rest.push_back(waiter);
      }
    }
    label.waiters = std::move(rest);
  }
};
} // namespace

void LabelExpander::closeStage(Label &label, bool isEnd) {
  bool isFirstUpdate = label.isUpdateStage && !label.hasUpdated;
  label.hasUpdated |= label.isUpdateStage;
  line.close(label.line, label.work, label.leaving, isFirstUpdate,
             WaiterQueue{facts, label});
  for (LabelWaiter &waiter : label.waiters)
    if (waiter.place == 2)
      waiter.place = 1;
  if (isEnd)
    line.finish(label.line, WaiterQueue{facts, label});
  label.closedPeak =
      std::max(label.closedPeak, label.stageBytes + label.workspace);
  label.stageBytes = label.nextBytes;
  label.workspace = 0;
  label.work = StageWork();
  label.leaving = 0;
  for (LiveTensor &live : label.tensors) {
    live.existed = true;
    for (LiveCopy &copy : live.copies)
      copy.existed = true;
  }
}

void LabelExpander::finish(Label &label) { closeStage(label, true); }

//===----------------------------------------------------------------------===//
// One operator
//===----------------------------------------------------------------------===//

std::vector<unsigned> LabelExpander::getSignatures(const Label &label,
                                                   unsigned op) const {
  for (auto [group, signature] : label.groups)
    if (group == facts.groupOf[op])
      return {signature};
  std::vector<unsigned> all(problem.getSignatures(op).size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Cuts before arguments, which are no work, would only make empty stages.
bool LabelExpander::choosesCut(unsigned op) const {
  if (facts.isArgument(op))
    return false;
  for (unsigned before = 0; before < op; ++before)
    if (!facts.isArgument(before))
      return true;
  return false;
}

std::vector<Label> LabelExpander::expand(const Label &label, unsigned op) {
  std::vector<Label> results;
  bool isUpdate = problem.operators[op].pass == Pass::Update;
  bool isWork = !facts.isArgument(op);
  bool mayCut = choosesCut(op);
  // No stage holds both updates and operators of another pass.
  bool mustCut = mayCut && isUpdate != label.isUpdateStage;
  for (bool cuts : {false, true}) {
    if ((cuts && !mayCut) || (!cuts && mustCut))
      continue;
    Label begin = label;
    if (cuts)
      closeStage(begin, false);
    if (isWork)
      begin.isUpdateStage = isUpdate;
    for (unsigned signature : getSignatures(label, op))
      decide(begin, op, signature, cuts, results);
  }
  return results;
}

void LabelExpander::addWork(Label &label, unsigned op,
                            const Signature &signature) {
  label.workspace = std::max(label.workspace, signature.workspace);
  if (facts.isArgument(op))
    return;
  if (facts.isPerStrand(signature)) {
    label.work.dependsOnStrand = true;
    label.work.computationPerStrand += signature.seconds;
  } else {
    label.work.computationOnce += signature.seconds;
  }
}

void LabelExpander::decide(const Label &label, unsigned op, unsigned index,
                           bool cuts, std::vector<Label> &results) {
  const Operator &info = problem.operators[op];
  const Signature &signature = problem.getSignatures(op)[index];
  std::vector<Draft> drafts{{label, {}, {}}}, next;
  addWork(drafts.front().label, op, signature);
  std::vector<std::pair<unsigned, unsigned>> &groups =
      drafts.front().label.groups;
  unsigned group = facts.groupOf[op];
  std::erase_if(groups, [&](auto &entry) { return entry.first == group; });
  if (!walk.isLastOfGroup(op))
    groups.emplace_back(group, index);
  for (unsigned i = 0; i < info.operands.size(); ++i) {
    for (Draft &draft : drafts)
      use(draft, op, i, signature.operands[i], next);
    drafts = std::exchange(next, {});
  }
  for (unsigned i = 0; i < info.results.size(); ++i) {
    for (Draft &draft : drafts)
      produce(draft, op, i, signature.results[i], next);
    drafts = std::exchange(next, {});
  }
  for (Draft &draft : drafts) {
    if (hasLimit && draft.label.getPeak() + leastBytes[walk.placeOf[op] + 1] >
                        problem.memoryLimit)
      continue;
    draft.label.decision = std::make_shared<Decision>(
        Decision{label.decision, op, index, cuts, std::move(draft.kept),
                 std::move(draft.waiting)});
    results.push_back(std::move(draft.label));
  }
}
