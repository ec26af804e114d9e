//===- ExpandTensors.cpp - operands of an operator in a partial plan ------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Labels/Label.h"
#include <algorithm>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

bool LabelExpander::isCopyInPlace(const LiveTensor &live,
                                  const Layout &layout) const {
  const TensorFacts &tensor = facts.tensors[live.tensor];
  const TensorUse &use = tensor.uses[live.numUsed];
  if (!facts.isTiedOutput[use.op])
    return false;
  if (tensor.hasOnlyTiedUses)
    return true;
  // Uses behind this one are not known yet: the copy holds memory if there are
  // any but tied ones.
  auto isOther = [&](const TensorUse &later) {
    return !facts.isTiedOutput[later.op];
  };
  return std::none_of(tensor.uses.begin() + live.numUsed, tensor.uses.end(),
                      isOther) &&
         std::find(live.wanted.begin(), live.wanted.end(), layout) ==
             live.wanted.end();
}

/// Makes the copy that operator `op` takes. False if there is none.
bool LabelExpander::makeCopy(Draft &draft, LiveTensor &live, unsigned op,
                             const Layout &base, const Layout &layout) {
  Pass pass = problem.operators[op].pass;
  const ChangeCost *best = nullptr;
  double bestTotal = 0;
  Layout source;
  auto offer = [&](const Layout &from) {
    const ChangeCost &change = table.getCost(live.tensor, from, layout);
    double total = change.getTotal(facts.numStrands);
    if (!change.isPossible || (best && total >= bestTotal))
      return;
    best = &change;
    bestTotal = total;
    source = from;
  };
  if (live.existed)
    offer(base);
  for (bool ofThisPass : {true, false})
    for (const LiveCopy &copy : live.copies)
      if ((copy.madeIn == pass) == ofThisPass && copy.existed)
        offer(copy.layout);
  if (!best)
    return false;
  LiveCopy made{layout, pass, false, isCopyInPlace(live, layout), false};
  if (pass == Pass::Update) {
    // They stand in the queue in the order of their first uses.
    bool isFirst = true;
    for (WaitGuess &guess : live.waits) {
      if (guess.isMade)
        continue;
      if (guess.layout == layout) {
        if (source != base || !isFirst)
          return false;
        guess.isMade = made.waits = true;
        made.isInPlace = facts.tensors[live.tensor].hasOnlyTiedUses;
        break;
      }
      isFirst = false;
    }
  }
  if (!made.waits) {
    draft.label.work.add(*best);
    if (!made.isInPlace) {
      int64_t bytes = problem.getBytes(live.tensor, layout);
      draft.label.stageBytes += bytes;
      draft.label.nextBytes += bytes;
    }
  }
  live.copies.push_back(made);
  return true;
}

bool LabelExpander::use(Draft &draft, unsigned op, unsigned operand,
                        const Layout &layout, std::vector<Draft> &results) {
  unsigned tensor = problem.operators[op].operands[operand];
  Pass pass = problem.operators[op].pass;
  auto place = std::find_if(
      draft.label.tensors.begin(), draft.label.tensors.end(),
      [&](const LiveTensor &live) { return live.tensor == tensor; });
  unsigned index = place - draft.label.tensors.begin();
  LiveTensor &live = *place;
  const TensorFacts &info = facts.tensors[tensor];
  bool isSum = facts.takesSum(op, live.produced, layout);
  if (isSum && (!live.isSummed || !live.existed))
    return false;
  live.sumSeen |= isSum;
  live.termsSeen |= !isSum;
  Layout base = facts.getBase(op, live.produced, layout);
  if (live.isInPlace && layout != base)
    return false;
  bool takesBase = layout == base;
  auto copy =
      std::find_if(live.copies.begin(), live.copies.end(),
                   [&](const LiveCopy &made) { return made.layout == layout; });
  if (!takesBase && copy == live.copies.end()) {
    if (!makeCopy(draft, live, op, base, layout))
      return false;
    copy = live.copies.end() - 1;
  }
  if (hasLimit && pass == Pass::Update && !live.waits.empty() &&
      (takesBase || !copy->waits))
    live.lastOtherSeen = live.numUsed + 1;
  if (info.hasTiedUse && !info.hasOnlyTiedUses && !facts.isTiedOutput[op] &&
      std::find(live.wanted.begin(), live.wanted.end(), layout) ==
          live.wanted.end())
    live.wanted.push_back(layout);
  ++live.numUsed;
  if (live.lastOther == live.numUsed)
    draft.label.nextBytes -= getSourceBytes(live);
  bool isLast = live.numUsed == info.uses.size();
  if (!hasLimit)
    std::erase_if(live.copies,
                  [&](const LiveCopy &made) { return !isUseful(live, made); });
  bool endsPass =
      isLast || problem.operators[info.uses[live.numUsed].op].pass != pass;
  if (endsPass)
    endPass(std::move(draft), index, pass, isLast, results);
  else
    results.push_back(std::move(draft));
  return true;
}

/// Whether some user to come may take the copy, or one that is made of it
/// rather than of what was produced.
bool LabelExpander::isUseful(const LiveTensor &live,
                             const LiveCopy &copy) const {
  const std::vector<TensorUse> &uses = facts.tensors[live.tensor].uses;
  auto getSeconds = [&](const Layout &from, const Layout &to) {
    const ChangeCost &change = table.getCost(live.tensor, from, to);
    return change.isPossible ? change.getTotal(facts.numStrands)
                             : std::numeric_limits<double>::infinity();
  };
  for (size_t i = live.numUsed; i < uses.size(); ++i)
    for (const Signature &signature : problem.getSignatures(uses[i].op)) {
      const Layout &wanted = signature.operands[uses[i].operand];
      Layout base = facts.getBase(uses[i].op, live.produced, wanted);
      if (wanted != base &&
          (wanted == copy.layout ||
           getSeconds(copy.layout, wanted) < getSeconds(base, wanted)))
        return true;
    }
  return false;
}

bool LabelExpander::isConsistent(const LiveTensor &live) const {
  for (const WaitGuess &guess : live.waits)
    if (!guess.isMade)
      return false;
  if (live.isSummed && !live.sumSeen)
    return false;
  if (!hasLimit)
    return true;
  return (!live.isSummed || live.keepsTerms == live.termsSeen) &&
         (live.waits.empty() || live.lastOther == live.lastOtherSeen);
}

/// What is held of the tensor in its producer's layout beyond the stage that
/// makes it.
int64_t LabelExpander::getSourceBytes(const LiveTensor &live) const {
  const Operator &producer =
      problem.operators[facts.tensors[live.tensor].producer];
  if (live.isInPlace || producer.kind == Operator::Kind::Resident)
    return 0;
  int64_t bytes = problem.getBytes(live.tensor, live.produced);
  if (!live.isSummed)
    return bytes;
  return problem.getBytes(live.tensor, facts.getSummed(live.produced)) +
         (live.keepsTerms ? bytes : 0);
}

/// The tensor's last use is in the open stage. If some copies of it wait, their
/// queue or an earlier use has freed it.
void LabelExpander::release(Label &label, const LiveTensor &live) const {
  if (live.waits.empty())
    label.nextBytes -= getSourceBytes(live);
}

/// Behind a tensor's last use in a pass each copy is kept or dropped.
void LabelExpander::endPass(Draft draft, unsigned index, Pass pass, bool isLast,
                            std::vector<Draft> &results) {
  LiveTensor live = draft.label.tensors[index];
  if (isLast && !isConsistent(live))
    return;
  std::vector<bool> mayKeep;
  size_t numChoices = 1;
  for (const LiveCopy &copy : live.copies) {
    mayKeep.push_back(isUseful(live, copy));
    numChoices <<= mayKeep.back() ? 1 : 0;
  }
  for (size_t choice = 0; choice < numChoices; ++choice) {
    Draft next = draft;
    std::vector<LiveCopy> kept;
    size_t bits = choice;
    for (unsigned i = 0; i < live.copies.size(); ++i) {
      const LiveCopy &copy = live.copies[i];
      bool isKept = mayKeep[i] && bits & 1;
      bits >>= mayKeep[i] ? 1 : 0;
      if (isKept) {
        kept.push_back(copy);
        next.kept.push_back({live.tensor, copy.layout, pass});
      } else if (!copy.isInPlace) {
        next.label.nextBytes -= problem.getBytes(live.tensor, copy.layout);
      }
    }
    if (isLast) {
      release(next.label, live);
      next.label.tensors.erase(next.label.tensors.begin() + index);
    } else {
      LiveTensor &after = next.label.tensors[index];
      after.copies = std::move(kept);
      unsigned op = facts.tensors[live.tensor].uses[live.numUsed].op;
      if (problem.operators[op].pass == Pass::Update)
        next.label.nextBytes -= std::exchange(after.bytesToFree, 0);
    }
    results.push_back(std::move(next));
  }
}
