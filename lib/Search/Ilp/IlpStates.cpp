//===- IlpStates.cpp - states of a tensor between uses --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpStates.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// Sums of the same seconds in another order are equal.
static bool isNoMore(double a, double b) {
  constexpr double kRounding = 1e-12;
  return a <= b * (1 + kRounding);
}

unsigned TensorStates::addNode(const Layout &layout) {
  auto place = std::find(nodes.begin(), nodes.end(), layout);
  if (place == nodes.end())
    place = nodes.insert(nodes.end(), layout);
  return static_cast<unsigned>(place - nodes.begin());
}

TensorStates::TensorStates(const IlpForms &forms, ChangeTable &table,
                           unsigned index)
    : isScalar(forms.addsUp), knowsMemory(forms.freedom == IlpFreedom::None),
      forms(forms), tensor(forms.tensors[index]), index(index) {
  for (const IlpLayout &entry : tensor.produced) {
    Layout summed = entry.layout;
    if (int axis = forms.problem.getTimeAxis(); axis >= 0)
      summed[axis] = kFull;
    producedNodes.push_back(addNode(entry.layout));
    summedNodes.push_back(addNode(summed));
  }
  for (const IlpUse &use : tensor.uses) {
    wantedNodes.emplace_back();
    for (const IlpLayout &entry : use.wanted)
      wantedNodes.back().push_back(addNode(entry.layout));
  }
  if (int axis = forms.problem.getTimeAxis(); axis >= 0)
    for (const Layout &layout : nodes)
      isScalar &= layout[axis] == kFull;
  for (unsigned from = 0; from < nodes.size(); ++from)
    for (unsigned to = 0; to < nodes.size(); ++to) {
      const ChangeCost &change = findChange(table, from, to);
      changes.push_back(&change);
      totals.push_back(change.isPossible
                           ? change.getTotal(forms.problem.getNumStrands())
                           : kInfinity);
    }
}

/// Passes that stages run have a queue each.
static ChangeCost
toChangeCost(const std::optional<std::vector<PassChange>> &changes) {
  ChangeCost cost;
  cost.isPossible = changes.has_value();
  for (size_t pass = 0; changes && pass < changes->size(); ++pass)
    cost.collectiveOnce[pass] = (*changes)[pass].seconds;
  return cost;
}

const ChangeCost &TensorStates::findChange(ChangeTable &table, unsigned from,
                                           unsigned to) {
  if (!forms.rules.hasStagePasses())
    return table.getCost(index, nodes[from], nodes[to]);
  changesOfPasses.push_back(toChangeCost(
      getPassChanges(forms.problem, index, nodes[from][0], nodes[to][0])));
  return changesOfPasses.back();
}

IlpState TensorStates::getFirst(unsigned produced) const {
  IlpState state{static_cast<int>(produced), false, {}};
  if (!tensor.uses.empty())
    forget(state, 0);
  return state;
}

//===----------------------------------------------------------------------===//
// Ways
//===----------------------------------------------------------------------===//

bool TensorStates::isSum(const IlpState &state, unsigned use,
                         unsigned wanted) const {
  return state.produced >= 0 &&
         forms.isSum(nodes[producedNodes[state.produced]],
                     nodes[wantedNodes[use][wanted]], tensor.uses[use].pass);
}

int TensorStates::getBase(const IlpState &state, unsigned use,
                          unsigned wanted) const {
  if (state.produced < 0)
    return -1;
  return static_cast<int>(isSum(state, use, wanted)
                              ? summedNodes[state.produced]
                              : producedNodes[state.produced]);
}

/// Whether the change from `from` is no worse than that from `than` in any
/// respect: no slot is longer for it.
bool TensorStates::isNoWorse(unsigned from, unsigned than, unsigned to) const {
  const ChangeCost &a = getChange(from, to), &b = getChange(than, to);
  if (!a.isPossible || !b.isPossible)
    return !b.isPossible;
  if (isScalar)
    return isNoMore(getTotal(from, to), getTotal(than, to));
  for (unsigned q = 0; q < kMaxAxes; ++q)
    if (!isNoMore(a.collectivePerStrand[q], b.collectivePerStrand[q]) ||
        !isNoMore(a.collectiveOnce[q], b.collectiveOnce[q]))
      return false;
  // Joined strands can be better: a longer slot holds more of what waits.
  return isNoMore(a.local, b.local) && a.joins == b.joins;
}

/// A copy of an earlier pass that is made again is no source in its stage: one
/// that is kept would have to be. Where memory matters its state says that it
/// is not there.
bool TensorStates::mayBeMadeAgain(const IlpMember &copy, unsigned use) const {
  if (isScalar || knowsMemory || !copy.isEarlier || copy.isFresh ||
      use + 1 >= tensor.uses.size())
    return false;
  const IlpUse &now = tensor.uses[use], &next = tensor.uses[use + 1];
  return now.stage == next.stage && now.pass == next.pass;
}

std::vector<IlpWay> TensorStates::getWays(const IlpState &state, unsigned use,
                                          unsigned wanted) const {
  const IlpUse &info = tensor.uses[use];
  unsigned to = wantedNodes[use][wanted];
  // It reads nothing.
  if (nodes[to].isAbsent())
    return {IlpWay()};
  bool sums = isSum(state, use, wanted),
       existed = tensor.stage < int(info.stage);
  int base = getBase(state, use, wanted);
  if (sums && !existed)
    return {};
  IlpWay way;
  way.sums = sums && !state.isSummed;
  if (base == static_cast<int>(to))
    return {way};
  for (size_t i = 0; i < state.copies.size(); ++i)
    if (state.copies[i].node == to) {
      std::vector<IlpWay> ways{way};
      if (!mayBeMadeAgain(state.copies[i], use))
        return ways;
      IlpState without = state;
      without.copies.erase(without.copies.begin() + static_cast<ptrdiff_t>(i));
      for (const IlpWay &again : getWays(without, use, wanted))
        ways.push_back(again);
      return ways;
    }
  if (!forms.rules.decidesCopies && !state.copies.empty())
    return {};
  double lowest = existed && base >= 0 ? getTotal(base, to) : kInfinity;
  for (const IlpMember &copy : state.copies)
    if (!copy.isFresh && (knowsMemory || !copy.isEarlier))
      lowest = std::min(lowest, getTotal(copy.node, to));
  std::vector<unsigned> sources;
  auto offer = [&](unsigned from) {
    if (getTotal(from, to) < kInfinity && isNoMore(getTotal(from, to), lowest))
      sources.push_back(from);
  };
  if (existed && base >= 0)
    offer(base);
  for (const IlpMember &copy : state.copies)
    if (!copy.isFresh)
      offer(copy.node);
  std::stable_sort(sources.begin(), sources.end(), [&](unsigned a, unsigned b) {
    return getTotal(a, to) < getTotal(b, to);
  });
  std::vector<IlpWay> ways;
  for (unsigned from : sources) {
    auto isBetter = [&](const IlpWay &other) {
      return isNoWorse(other.from, from, to);
    };
    if (std::any_of(ways.begin(), ways.end(), isBetter))
      continue;
    way.from = static_cast<int>(from);
    way.change = &getChange(from, to);
    ways.push_back(way);
  }
  // A free copy waits for the sake of its gradient's bytes.
  bool mayWait = forms.canWait(index, info.pass) && existed && base >= 0 &&
                 (knowsMemory || getTotal(base, to) > 0) &&
                 getTotal(base, to) < kInfinity && !getChange(base, to).joins;
  if (mayWait && forms.freedom != IlpFreedom::OfSources &&
      !isNoMore(getTotal(base, to), lowest))
    hasSourcesOfWaiting = true;
  else if (mayWait) {
    way.from = base;
    way.change = &getChange(base, to);
    way.waits = true;
    ways.push_back(way);
  }
  return ways;
}

bool TensorStates::needsProduced(const IlpState &state, unsigned use,
                                 unsigned wanted, const IlpWay &way) const {
  int base = getBase(state, use, wanted);
  unsigned to = wantedNodes[use][wanted];
  if (nodes[to].isAbsent())
    return false;
  if (base == static_cast<int>(to))
    return true;
  if (base < 0 || way.from < 0 || way.waits || !getChange(base, to).isPossible)
    return false;
  return std::none_of(
      state.copies.begin(), state.copies.end(), [&](const IlpMember &copy) {
        return copy.isEarlier && getTotal(copy.node, to) < getTotal(base, to);
      });
}

//===----------------------------------------------------------------------===//
// The next state
//===----------------------------------------------------------------------===//

std::vector<IlpState> TensorStates::getNext(const IlpState &state, unsigned use,
                                            unsigned wanted,
                                            const IlpWay &way) const {
  IlpState next = state;
  if (use + 1 >= tensor.uses.size())
    return {IlpState()};
  const IlpUse &now = tensor.uses[use], &later = tensor.uses[use + 1];
  next.isSummed |= isSum(state, use, wanted);
  unsigned to = wantedNodes[use][wanted];
  if (way.from >= 0) {
    std::erase_if(next.copies, [&](const IlpMember &copy) {
      return copy.node == to ||
             (copy.isEarlier && !copy.isFresh &&
              !isNoMore(getTotal(way.from, to), getTotal(copy.node, to)));
    });
    next.copies.push_back({to, true, false});
  }
  for (IlpMember &copy : next.copies) {
    copy.isFresh &= now.stage == later.stage;
    copy.isEarlier |= now.pass != later.pass;
  }
  std::sort(next.copies.begin(), next.copies.end());
  forget(next, use + 1);
  std::vector<IlpState> states{std::move(next)};
  if (!knowsMemory || now.pass == later.pass)
    return states;
  for (size_t i = states.front().copies.size(); i-- > 0;)
    for (size_t j = states.size(); j-- > 0;) {
      IlpState without = states[j];
      without.copies.erase(without.copies.begin() + static_cast<ptrdiff_t>(i));
      states.push_back(std::move(without));
    }
  return states;
}

bool TensorStates::isThere(const IlpMember &copy, unsigned use,
                           unsigned next) const {
  return !copy.isFresh || tensor.uses[use].stage > tensor.uses[next].stage;
}

/// Whether some copy other than `without` is no worse a source than `from`, and
/// holds no more where memory matters.
bool TensorStates::canServe(const IlpState &state, size_t without,
                            unsigned from, unsigned to, unsigned use,
                            unsigned next) const {
  for (size_t i = 0; i < state.copies.size(); ++i)
    if (const IlpMember &copy = state.copies[i];
        i != without &&
        (copy.node == to ||
         (isThere(copy, use, next) && isNoWorse(copy.node, from, to))) &&
        (!knowsMemory || getBytes(copy.node) <= getBytes(from)))
      return true;
  return false;
}

bool TensorStates::isUsefulCopyFor(const IlpState &state, size_t which,
                                   unsigned use, unsigned wanted,
                                   unsigned next) const {
  const IlpMember &copy = state.copies[which];
  unsigned to = wantedNodes[use][wanted];
  int base = getBase(state, use, wanted);
  if (base == static_cast<int>(to) || nodes[to].isAbsent())
    return false;
  bool isSame = copy.node == to;
  if (!isSame &&
      (!isThere(copy, use, next) || !getChange(copy.node, to).isPossible))
    return false;
  if (isSame && knowsMemory)
    return true;
  // What was produced is not held for what it is nearer to.
  if (knowsMemory && copy.isEarlier && base >= 0 &&
      tensor.uses[use].pass == tensor.uses[next].pass &&
      getTotal(copy.node, to) < getTotal(base, to))
    return true;
  if (canServe(state, which, copy.node, to, use, next))
    return false;
  bool hasBase = base >= 0 && tensor.stage < int(tensor.uses[use].stage);
  if (!hasBase)
    return true;
  // The producer's layout comes first where it is nearer.
  return !isNoWorse(base, copy.node, to) &&
         (isSame || isNoMore(getTotal(copy.node, to), getTotal(base, to)));
}

bool TensorStates::isUsefulCopy(const IlpState &state, size_t which,
                                unsigned next) const {
  for (unsigned use = next; use < tensor.uses.size(); ++use)
    for (unsigned w = 0; w < wantedNodes[use].size(); ++w)
      if (isUsefulCopyFor(state, which, use, w, next))
        return true;
  return false;
}

bool TensorStates::isProducedUsefulFor(const IlpState &state, unsigned use,
                                       unsigned wanted, unsigned next) const {
  const IlpUse &info = tensor.uses[use];
  unsigned to = wantedNodes[use][wanted];
  unsigned base = static_cast<unsigned>(getBase(state, use, wanted));
  if (nodes[to].isAbsent())
    return false;
  if (isSum(state, use, wanted) && !state.isSummed)
    return true;
  bool isThere = base == to || tensor.stage < int(info.stage);
  if (!isThere || !getChange(base, to).isPossible)
    return false;
  double total = getTotal(base, to);
  if (forms.canWait(index, info.pass) && total > 0 &&
      !getChange(base, to).joins)
    return true;
  return !canServe(state, state.copies.size(), base, to, use, next);
}

bool TensorStates::isProducedUseful(const IlpState &state,
                                    unsigned next) const {
  for (unsigned use = next; use < tensor.uses.size(); ++use)
    for (unsigned w = 0; w < wantedNodes[use].size(); ++w)
      if (isProducedUsefulFor(state, use, w, next))
        return true;
  return false;
}

/// Forgets what no later use is better off with. An only copy is none too many,
/// wanted or not.
void TensorStates::forget(IlpState &state, unsigned next) const {
  if (!forms.rules.decidesCopies)
    return;
  for (size_t i = state.copies.size(); i-- > 0;)
    if (!isUsefulCopy(state, i, next))
      state.copies.erase(state.copies.begin() + static_cast<ptrdiff_t>(i));
  if (state.produced >= 0 && !knowsMemory && !isProducedUseful(state, next))
    state.produced = -1;
  if (state.produced < 0)
    state.isSummed = false;
}
