//===- CopyPlacer.cpp - the copies of an edited plan ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/CopyPlacer.h"
#include "Infinity.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

CopyPlacer::CopyPlacer(const Facts &facts, ChangeTable &table,
                       const EditedPlan &plan)
    : facts(facts), problem(facts.problem), table(table), plan(plan),
      hasLimit(facts.problem.memoryLimit != kNoLimit) {}

bool CopyPlacer::isFlipped(const Copy &copy, bool isWait) const {
  for (const EditedPlan::Flip &flip : plan.flips)
    if (flip.tensor == copy.tensor && flip.isWait == isWait &&
        flip.copy == copy)
      return true;
  return false;
}

/// Whether some user, from `firstUse` on in one pass, wants a copy in this
/// layout.
bool CopyPlacer::isWantedIn(unsigned tensor, const std::vector<TensorUse> &uses,
                            size_t firstUse, const Layout &layout) const {
  Pass pass = problem.operators[uses[firstUse].op].pass;
  for (size_t i = firstUse;
       i < uses.size() && problem.operators[uses[i].op].pass == pass; ++i)
    if (getWanted(uses[i]) == layout && layout != getBase(tensor, uses[i]))
      return true;
  return false;
}

/// A gradient that nothing but updates use, in one layout: its copy surely
/// comes from the gradient itself.
bool CopyPlacer::usuallyWaits(unsigned tensor) const {
  const TensorFacts &info = facts.tensors[tensor];
  const Layout *wanted = nullptr;
  for (const TensorUse &use : info.uses) {
    if (problem.operators[use.op].pass != Pass::Update)
      return false;
    const Layout &layout = getWanted(use);
    if (layout.isAbsent() || layout == getBase(tensor, use))
      continue;
    if (wanted && *wanted != layout)
      return false;
    wanted = &layout;
  }
  return true;
}

/// The copy that `use` takes is made here.
CopyPlacer::Placed CopyPlacer::makeCopy(EditedTensor &made,
                                        const TensorUse &use, unsigned tensor,
                                        const Layout &base) {
  Pass pass = problem.operators[use.op].pass;
  const Layout &layout = getWanted(use);
  unsigned producer = facts.tensors[tensor].producer,
           stage = plan.stageOf[use.op];
  bool isArgument = facts.isArgument(producer);
  EditedCopy copy{{tensor, layout, pass}, use.op, stage};
  double best = 0, nearest = kInfinity;
  bool isFromBase = false, isPossible = false, needsBase = false;
  auto offer = [&](const Layout &from, bool isEarlier) {
    const ChangeCost &change = table.getCost(tensor, from, layout);
    nearest = change.isPossible ? change.getTotal(facts.numStrands) : kInfinity;
    if (!change.isPossible)
      return false;
    isPossible = true;
    if (!isEarlier || (copy.change && nearest >= best))
      return false;
    best = nearest;
    copy.change = &change;
    return true;
  };
  isFromBase = offer(base, isArgument || plan.stageOf[producer] < stage);
  double fromBase = nearest;
  needsBase = fromBase < kInfinity;
  for (bool ofThisPass : {true, false})
    for (unsigned index : alive) {
      const EditedCopy &other = made.copies[index];
      if ((other.copy.pass == pass) != ofThisPass)
        continue;
      if (offer(other.copy.layout, other.stage < stage))
        isFromBase = false;
      needsBase &= ofThisPass || nearest >= fromBase;
    }
  if (!copy.change)
    return isPossible ? Placed::NeedsCut : Placed::Impossible;
  bool mayWait = pass == Pass::Update && facts.mayWait(tensor) && isFromBase &&
                 !copy.change->joins;
  copy.waits = mayWait &&
               (usuallyWaits(tensor) && best > 0) != isFlipped(copy.copy, true);
  copy.bytes = hasLimit ? problem.getBytes(tensor, layout) : 0;
  if (copy.waits) {
    made.hasWaiting = true;
    made.leaving += best;
  } else if (needsBase) {
    made.lastOp = std::max(made.lastOp, use.op);
  }
  alive.push_back(made.copies.size());
  made.copies.push_back(copy);
  return Placed::Yes;
}

CopyPlacer::Placed CopyPlacer::placeUse(EditedTensor &made, unsigned tensor,
                                        const TensorUse &use) {
  const Layout &layout = getWanted(use), &produced = getProduced(tensor);
  bool sum = facts.takesSum(use.op, produced, layout);
  if (sum && !made.isSummed) {
    made.isSummed = true;
    if (!facts.isArgument(facts.tensors[tensor].producer))
      made.sumSeconds =
          table.getCost(tensor, produced, facts.getSummed(produced)).local;
  }
  if (sum && !facts.isArgument(facts.tensors[tensor].producer) &&
      made.stage == plan.stageOf[use.op])
    return Placed::NeedsCut;
  made.keepsTerms |= !sum;
  Layout base = getBase(tensor, use);
  if (layout == base) {
    made.lastOp = std::max(made.lastOp, use.op);
    return Placed::Yes;
  }
  auto matches = [&](unsigned index) {
    return made.copies[index].copy.layout == layout;
  };
  return std::any_of(alive.begin(), alive.end(), matches)
             ? Placed::Yes
             : makeCopy(made, use, tensor, base);
}

/// Copies live until the tensor's last use in the pass; kept ones are there for
/// the next.
void CopyPlacer::endPass(EditedTensor &made, unsigned tensor,
                         const std::vector<TensorUse> &uses, size_t firstUse,
                         size_t endUse) {
  Pass pass = problem.operators[uses[firstUse].op].pass;
  std::vector<unsigned> kept;
  for (unsigned index : alive) {
    EditedCopy &copy = made.copies[index];
    copy.lastOp = std::max(copy.lastOp, uses[endUse - 1].op);
    Copy key{tensor, copy.copy.layout, pass};
    if (endUse == uses.size() ||
        isWantedIn(tensor, uses, endUse, key.layout) == isFlipped(key, false))
      continue;
    made.kept.push_back(key);
    kept.push_back(index);
  }
  alive = std::move(kept);
}

void CopyPlacer::setInPlace(EditedTensor &made, unsigned tensor) const {
  const TensorFacts &info = facts.tensors[tensor];
  const Layout &produced = getProduced(tensor);
  if (!info.hasTiedUse)
    return;
  auto isTied = [&](const TensorUse &use) {
    return bool(facts.isTiedOutput[use.op]);
  };
  made.isInPlace =
      std::all_of(info.uses.begin(), info.uses.end(), [&](auto &use) {
        return isTied(use) && getWanted(use) == produced;
      });
  for (EditedCopy &copy : made.copies)
    copy.isInPlace =
        std::all_of(info.uses.begin(), info.uses.end(), [&](auto &use) {
          return isTied(use) || getWanted(use) != copy.copy.layout;
        });
}

CopyPlacer::Placed CopyPlacer::place(unsigned tensor, EditedTensor &made,
                                     unsigned &cut) {
  const TensorFacts &info = facts.tensors[tensor];
  const std::vector<TensorUse> &uses =
      facts.getUses(plan.signatures, tensor, scratch);
  made.stage = plan.stageOf[info.producer];
  made.lastOp = facts.isArgument(info.producer) ? 0 : info.producer;
  alive.clear();
  for (size_t i = 0, begin = 0; i < uses.size(); ++i) {
    const TensorUse &use = uses[i];
    Placed placed = placeUse(made, tensor, use);
    cut = use.op;
    if (placed != Placed::Yes)
      return placed;
    if (i + 1 < uses.size() && problem.operators[uses[i + 1].op].pass ==
                                   problem.operators[use.op].pass)
      continue;
    endPass(made, tensor, uses, begin, i + 1);
    begin = i + 1;
  }
  if (!hasLimit)
    return Placed::Yes;
  setInPlace(made, tensor);
  const Layout &produced = getProduced(tensor);
  made.bytes = problem.getBytes(tensor, produced);
  made.isOverTime = facts.isOverTime(produced);
  if (made.isSummed)
    made.summedBytes = problem.getBytes(tensor, facts.getSummed(produced));
  return Placed::Yes;
}
