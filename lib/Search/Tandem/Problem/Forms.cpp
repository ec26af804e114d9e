//===- Forms.cpp - forms needed by given signatures -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Forms.h"
#include <algorithm>

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

/// Holds bytes from the stage of operator `birth` to that of `death`; not yet
/// in the stage of `birth` itself unless `countsAtBirth`.
void FixedForms::hold(int64_t bytes, int birth, unsigned death,
                      bool countsAtBirth) {
  if (countsAtBirth)
    madeBytes[std::max(birth, 0)] += bytes;
  int first = std::max(birth + 1, 0);
  if (first > static_cast<int>(death))
    return;
  aliveBytes[first] += bytes;
  aliveBytes[death + 1] -= bytes;
}

void FixedForms::holdTensor(unsigned tensor) {
  const TensorFacts &info = facts.tensors[tensor];
  int64_t bytes = facts.problem.getBytes(tensor, produced);
  if (facts.problem.operators[info.producer].kind == Operator::Kind::Resident) {
    residentBytes += bytes;
    return;
  }
  if (isInPlace)
    return;
  bool isArgument = facts.isArgument(info.producer);
  if (holdsLeast && isArgument && info.uses.empty())
    return;
  int birth = isArgument ? -1 : static_cast<int>(info.producer);
  unsigned death = holdsLeast && hasWaiting ? info.producer
                                            : std::max(lastUse, info.producer);
  if (!isSummed) {
    hold(bytes, birth, death, !isArgument);
    return;
  }
  hold(bytes, birth, keepsTerms ? death : std::max(birth, 0), !isArgument);
  hold(facts.problem.getBytes(tensor, facts.getSummed(produced)), birth, death,
       false);
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
    if (change.isPossible)
      need.sources.push_back({position, &change});
  };
  offer(base, facts.isArgument(producer) ? -1 : static_cast<int>(producer));
  for (bool ofThisPass : {true, false})
    for (const Live &copy : alive)
      if ((copy.madeIn == pass) == ofThisPass)
        offer(copy.layout, copy.position);
  if (need.sources.empty())
    return false;
  need.waits =
      std::binary_search(plan.waiting.begin(), plan.waiting.end(), need.copy);
  if (need.waits) {
    hasWaiting = true;
    leaving[producer] +=
        need.sources.front().change->getTotal(facts.numStrands);
  }
  alive.push_back({layout, pass, static_cast<int>(op), static_cast<int>(op)});
  needs.push_back(std::move(need));
  return true;
}

bool FixedForms::placeUse(const Plan &plan, unsigned tensor,
                          const TensorUse &use) {
  const Layout &layout = facts.getWanted(plan.signatures, use);
  bool sum = facts.takesSum(use.op, produced, layout);
  if (sum && !isSummed) {
    isSummed = true;
    sums[facts.tensors[tensor].producer] +=
        table.getCost(tensor, produced, facts.getSummed(produced)).local;
  }
  keepsTerms |= !sum;
  lastUse = use.op;
  isInPlace &= layout == produced;
  Layout base = sum ? facts.getSummed(produced) : produced;
  if (layout == base)
    return true;
  for (const Live &copy : alive)
    if (copy.layout == layout)
      return true;
  return makeNeed(plan, tensor, use.op, base, layout);
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
      hold(facts.problem.getBytes(tensor, copy.layout), copy.heldTo, last,
           !copy.isCounted);
    copy.heldTo = static_cast<int>(last);
    copy.isCounted = true;
    if (isKept)
      kept.push_back(copy);
  }
  alive = std::move(kept);
}

bool FixedForms::placeTensor(const Plan &plan, unsigned tensor) {
  const TensorFacts &info = facts.tensors[tensor];
  produced = facts.getProduced(plan.signatures, tensor);
  alive.clear();
  isSummed = keepsTerms = hasWaiting = false;
  isInPlace = info.hasOnlyTiedUses;
  lastUse = info.producer;
  for (unsigned i = 0; i < info.uses.size(); ++i) {
    const TensorUse &use = info.uses[i];
    if (!placeUse(plan, tensor, use))
      return false;
    Pass pass = facts.problem.operators[use.op].pass;
    if (i + 1 == info.uses.size() ||
        facts.problem.operators[info.uses[i + 1].op].pass != pass)
      endPass(plan, tensor, pass, use.op);
  }
  holdTensor(tensor);
  return true;
}

bool FixedForms::analyse(const Plan &plan, bool countsLeast) {
  holdsLeast = countsLeast;
  unsigned numOperators = facts.problem.operators.size();
  needs.clear();
  residentBytes = 0;
  sums.assign(numOperators, 0);
  leaving.assign(numOperators, 0);
  madeBytes.assign(numOperators, 0);
  aliveBytes.assign(numOperators + 1, 0);
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor)
    if (!placeTensor(plan, tensor))
      return false;
  for (unsigned op = 1; op <= numOperators; ++op)
    aliveBytes[op] += aliveBytes[op - 1];
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
  const TensorFacts &info = facts.tensors[tensor];
  const std::vector<Operator> &operators = facts.problem.operators;
  produced = facts.getProduced(plan.signatures, tensor);
  std::vector<Layout> ofPass, ofNext;
  auto collect = [&](unsigned begin, std::vector<Layout> &layouts) {
    layouts.clear();
    unsigned i = begin;
    for (; i < info.uses.size() && operators[info.uses[i].op].pass ==
                                       operators[info.uses[begin].op].pass;
         ++i) {
      const Layout &layout = facts.getWanted(plan.signatures, info.uses[i]);
      if (layout != facts.getBase(info.uses[i].op, produced, layout) &&
          std::find(layouts.begin(), layouts.end(), layout) == layouts.end())
        layouts.push_back(layout);
    }
    return i;
  };
  for (unsigned i = 0; i < info.uses.size();) {
    Pass pass = operators[info.uses[i].op].pass;
    unsigned next = collect(i, ofPass);
    if (next < info.uses.size()) {
      collect(next, ofNext);
      for (const Layout &layout : ofPass)
        if (std::find(ofNext.begin(), ofNext.end(), layout) != ofNext.end())
          chosen.kept.push_back({tensor, layout, pass});
    }
    // Only the first copy surely comes from the gradient itself.
    if (waits && pass == Pass::Update && i + 1 == next && ofPass.size() == 1 &&
        facts.mayWait(tensor) && i == 0) {
      const ChangeCost &change = table.getCost(
          tensor, facts.getBase(info.uses[i].op, produced, ofPass.front()),
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
