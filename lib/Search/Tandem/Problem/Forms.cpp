//===- Forms.cpp - forms needed by given signatures -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Forms.h"
#include "Infinity.h"
#include "tandem/Cost/Ahead.h"
#include <algorithm>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::search;

const ChangeCost *CopyNeed::getChange(unsigned begin,
                                      int64_t numStrands) const {
  const ChangeCost *best = nullptr;
  for (const CopySource &source : sources)
    if (source.position < static_cast<int>(begin) &&
        (!best ||
         source.change->getTotal(numStrands) < best->getTotal(numStrands)))
      best = source.change;
  return best;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void HeldBytes::clear(unsigned numOperators) {
  for (std::vector<int64_t> *bytes : {&alive, &copies, &terms, &between, &made,
                                      &onceMade, &onceCopies, &onceAlive})
    bytes->assign(numOperators + 1, 0);
  arguments = 0;
}

void HeldBytes::sumUp() {
  for (std::vector<int64_t> *bytes : {&alive, &between, &onceAlive})
    std::partial_sum(bytes->begin(), bytes->end(), bytes->begin());
}

/// Holds bytes behind operator `birth` to `death`.
void FixedForms::holdOnce(int64_t bytes, int birth, unsigned death) {
  int first = std::max(birth + 1, 0);
  if (first > static_cast<int>(death))
    return;
  held.onceAlive[first] += bytes;
  held.onceAlive[death + 1] -= bytes;
}

/// Holds bytes of all strands from operator `first` to `last`; `first` makes
/// them if `isMade`.
void FixedForms::holdShare(int64_t bytes, unsigned first, unsigned last,
                           bool isMade) {
  int64_t share = bytes / facts.numStrands;
  if (first > last)
    return;
  held.alive[first] += share;
  held.alive[last + 1] -= share;
  held.between[first + isMade] += share;
  held.between[last + 1] -= share;
}

/// Holds a copy from where it was made, or kept last, to operator `last`.
void FixedForms::holdCopy(unsigned tensor, const Live &copy, unsigned last) {
  int64_t bytes = facts.problem.getBytes(tensor, copy.layout);
  auto birth = static_cast<unsigned>(copy.heldTo);
  if (!facts.isOverTime(copy.layout)) {
    held.onceCopies[birth] += copy.isCounted ? 0 : bytes;
    holdOnce(bytes, copy.heldTo, last);
    return;
  }
  if (!copy.isCounted)
    held.copies[birth] += bytes / facts.numStrands;
  holdShare(bytes, copy.isCounted ? birth + 1 : birth, last, !copy.isCounted);
}

/// In its producer's layout until operator `last`, and as a sum over time.
void FixedForms::holdTensor(unsigned tensor, unsigned last) {
  const TensorFacts &info = facts.tensors[tensor];
  const Placed &made = placed[tensor];
  int64_t bytes = facts.problem.getBytes(tensor, made.produced);
  bool isArgument = facts.isArgument(info.producer);
  if (isArgument)
    held.arguments += bytes;
  if (made.isInPlace)
    return;
  if (made.isSummed)
    holdOnce(facts.problem.getBytes(tensor, facts.getSummed(made.produced)),
             isArgument ? -1 : static_cast<int>(info.producer), made.lastOp);
  if (isArgument || facts.isInKernel(tensor, made.isSummed, last))
    return;
  unsigned first = facts.problem.tensors[tensor].getFirstHeld(info.producer);
  if (first == info.producer && facts.isOverTime(made.produced))
    held.made[first] += bytes / facts.numStrands;
  if (made.isSummed && !made.keepsTerms) {
    held.terms[first] += bytes / facts.numStrands;
  } else if (facts.isOverTime(made.produced)) {
    holdShare(bytes, first, last, true);
  } else {
    held.onceMade[first] += bytes;
    holdOnce(bytes, static_cast<int>(first), last);
  }
}

void FixedForms::holdTensors() {
  std::vector<unsigned> lastOps;
  for (const Placed &tensor : placed)
    lastOps.push_back(tensor.lastOp);
  auto isFolded = [&](unsigned tensor) {
    return facts.isFolded(tensor, placed[tensor].produced,
                          placed[facts.roots[tensor]].produced,
                          placed[tensor].isSummed);
  };
  for (unsigned tensor : facts.views)
    if (isFolded(tensor)) {
      unsigned &last = lastOps[facts.roots[tensor]];
      last = std::max(last, placed[tensor].lastOp);
    }
  for (unsigned tensor = 0; tensor < placed.size(); ++tensor)
    if (!isFolded(tensor))
      holdTensor(tensor, lastOps[tensor]);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

bool FixedForms::makeNeed(const Plan &plan, unsigned tensor, unsigned op,
                          const Layout &base, const Layout &layout) {
  Pass pass = facts.problem.operators[op].pass;
  CopyNeed need{{tensor, layout, pass}, op, {}, false};
  unsigned producer = facts.tensors[tensor].producer;
  auto offer = [&](const Layout &from, int position) {
    const ChangeCost &change = table.getCost(tensor, from, layout);
    if (!change.isPossible)
      return kInfinity;
    need.sources.push_back({position, &change});
    return change.getTotal(facts.numStrands);
  };
  double nearest =
      offer(base, facts.isArgument(producer) ? -1 : static_cast<int>(producer));
  bool needsBase = nearest < kInfinity;
  for (bool ofThisPass : {true, false})
    for (const Live &copy : alive)
      if ((copy.madeIn == pass) == ofThisPass) {
        double total = offer(copy.layout, copy.position);
        needsBase &= ofThisPass || total >= nearest;
      }
  if (need.sources.empty())
    return false;
  need.waits =
      std::binary_search(plan.waiting.begin(), plan.waiting.end(), need.copy);
  if (need.waits)
    leaving[producer] +=
        need.sources.front().change->getTotal(facts.numStrands);
  // When what waits is done the queue says.
  if (needsBase && !(need.waits && holdsLeast))
    made->lastOp = op;
  alive.push_back({layout, pass, static_cast<int>(op), static_cast<int>(op)});
  needs.push_back(std::move(need));
  return true;
}

bool FixedForms::placeUse(const Plan &plan, unsigned tensor,
                          const TensorUse &use) {
  const Layout &layout = facts.getWanted(plan.signatures, use),
               &produced = made->produced;
  bool sum = facts.takesSum(use.op, produced, layout);
  if (sum && !made->isSummed) {
    made->isSummed = true;
    sums[facts.tensors[tensor].producer] +=
        table.getCost(tensor, produced, facts.getSummed(produced)).local;
  }
  made->keepsTerms |= !sum;
  made->isInPlace &= layout == produced;
  Layout base = sum ? facts.getSummed(produced) : produced;
  if (layout == base) {
    made->lastOp = use.op;
    return true;
  }
  auto taken = std::find_if(alive.begin(), alive.end(), [&](const Live &copy) {
    return copy.layout == layout;
  });
  int position = taken == alive.end() ? int(use.op) : taken->position;
  if (!isFreeOfArgument(facts.problem, facts.tensors[tensor].producer,
                        table.getCost(tensor, base, layout)))
    copiesFrom[use.op] =
        std::max(copiesFrom[use.op], static_cast<unsigned>(position) + 1);
  return taken != alive.end() || makeNeed(plan, tensor, use.op, base, layout);
}

/// What goes to an argument's memory only holds nothing of its own.
bool FixedForms::isCopyInPlace(const Plan &plan, unsigned tensor,
                               const Layout &layout) const {
  const TensorFacts &info = facts.tensors[tensor];
  return info.hasTiedUse &&
         std::all_of(info.uses.begin(), info.uses.end(),
                     [&](const TensorUse &use) {
                       return facts.isTiedOutput[use.op] ||
                              facts.getWanted(plan.signatures, use) != layout;
                     });
}

void FixedForms::endPass(const Plan &plan, unsigned tensor, Pass pass,
                         unsigned last) {
  std::vector<Live> kept;
  for (Live &copy : alive) {
    Copy key{tensor, copy.layout, pass};
    bool isKept = std::binary_search(plan.kept.begin(), plan.kept.end(), key);
    // From where it was made, or from where it was kept last.
    if (!isCopyInPlace(plan, tensor, copy.layout))
      holdCopy(tensor, copy, last);
    copy.heldTo = static_cast<int>(last);
    copy.isCounted = true;
    if (isKept)
      kept.push_back(copy);
  }
  alive = std::move(kept);
}

bool FixedForms::placeTensor(const Plan &plan, unsigned tensor) {
  const TensorFacts &info = facts.tensors[tensor];
  made = &placed[tensor];
  *made = {facts.getProduced(plan.signatures, tensor), info.producer};
  made->isInPlace = info.hasOnlyTiedUses;
  alive.clear();
  const std::vector<TensorUse> &uses =
      facts.getUses(plan.signatures, tensor, scratch);
  for (unsigned i = 0; i < uses.size(); ++i) {
    const TensorUse &use = uses[i];
    if (!placeUse(plan, tensor, use))
      return false;
    Pass pass = facts.problem.operators[use.op].pass;
    if (i + 1 == uses.size() ||
        facts.problem.operators[uses[i + 1].op].pass != pass)
      endPass(plan, tensor, pass, use.op);
  }
  return true;
}

bool FixedForms::analyse(const Plan &plan, bool countsLeast) {
  holdsLeast = countsLeast;
  unsigned numOperators = facts.problem.operators.size();
  needs.clear();
  sums.assign(numOperators, 0);
  leaving.assign(numOperators, 0);
  copiesFrom.assign(numOperators, 0);
  held.clear(numOperators);
  placed.resize(facts.tensors.size());
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor)
    if (!placeTensor(plan, tensor))
      return false;
  holdTensors();
  held.sumUp();
  if (facts.hasAgain)
    aheadFrom = findAheadFrom(facts.problem, facts.producers, plan.signatures,
                              copiesFrom);
  std::stable_sort(
      needs.begin(), needs.end(),
      [](const CopyNeed &a, const CopyNeed &b) { return a.op < b.op; });
  firstNeed.assign(numOperators + 1, needs.size());
  for (unsigned i = needs.size(); i-- > 0;)
    firstNeed[needs[i].op] = i;
  for (unsigned op = numOperators; op-- > 0;)
    firstNeed[op] = std::min(firstNeed[op], firstNeed[op + 1]);
  return true;
}

//===----------------------------------------------------------------------===//
// Kept and waiting copies
//===----------------------------------------------------------------------===//

void FixedForms::chooseTensor(const Plan &plan, unsigned tensor, bool waits,
                              Plan &chosen) {
  const std::vector<TensorUse> &uses =
      facts.getUses(plan.signatures, tensor, scratch);
  const std::vector<Operator> &operators = facts.problem.operators;
  Layout produced = facts.getProduced(plan.signatures, tensor);
  std::vector<Layout> ofPass, ofNext;
  auto collect = [&](unsigned begin, std::vector<Layout> &layouts) {
    layouts.clear();
    unsigned i = begin;
    for (; i < uses.size() &&
           operators[uses[i].op].pass == operators[uses[begin].op].pass;
         ++i) {
      const Layout &layout = facts.getWanted(plan.signatures, uses[i]);
      if (layout != facts.getBase(uses[i].op, produced, layout) &&
          std::find(layouts.begin(), layouts.end(), layout) == layouts.end())
        layouts.push_back(layout);
    }
    return i;
  };
  for (unsigned i = 0; i < uses.size();) {
    Pass pass = operators[uses[i].op].pass;
    unsigned next = collect(i, ofPass);
    if (next < uses.size()) {
      collect(next, ofNext);
      for (const Layout &layout : ofPass)
        if (std::find(ofNext.begin(), ofNext.end(), layout) != ofNext.end())
          chosen.kept.push_back({tensor, layout, pass});
    }
    // Only the first copy surely comes from the gradient itself.
    if (waits && pass == Pass::Update && i + 1 == next && ofPass.size() == 1 &&
        facts.mayWait(tensor) && i == 0) {
      const ChangeCost &change = table.getCost(
          tensor, facts.getBase(uses[i].op, produced, ofPass.front()),
          ofPass.front());
      if (change.isPossible && !change.joins &&
          change.getTotal(facts.numStrands) > 0)
        chosen.waiting.push_back({tensor, ofPass.front(), pass});
    }
    i = next;
  }
}

bool FixedForms::choose(Plan &plan, bool waits) {
  Plan chosen;
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor)
    chooseTensor(plan, tensor, waits, chosen);
  std::sort(chosen.kept.begin(), chosen.kept.end());
  std::sort(chosen.waiting.begin(), chosen.waiting.end());
  plan.kept = std::move(chosen.kept);
  plan.waiting = std::move(chosen.waiting);
  return analyse(plan);
}
