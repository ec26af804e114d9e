//===- Completion.cpp - what labels cost at least -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Labels/Completion.h"
#include "Tandem/Limits.h"
#include "Tandem/Problem/Fold.h"
#include <algorithm>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::search;

//===----------------------------------------------------------------------===//
// Relaxations
//===----------------------------------------------------------------------===//

PricedRelaxations::Entry::Entry(const FactorGraph &given,
                                const Weights &weights)
    : graph(given), relaxation(graph, getUnfolded(graph)) {
  graph.setWeights(weights);
  uint64_t sweeps = kLambdaWork / (1 + relaxation.getWork());
  for (uint64_t i = 0; i < std::clamp<uint64_t>(sweeps, 1, kLambdaSweeps); ++i)
    relaxation.sweep();
}

const PricedRelaxations::Entry::Distances &
PricedRelaxations::Entry::getDistances(const Factor &factor, const Layout &from,
                                       uint64_t &work) {
  uint64_t key = uint64_t(factor.kind) << 32 | from.getKey();
  auto [place, isNew] = distances.try_emplace(key);
  if (isNew) {
    place->second = graph.getDistances(factor, from);
    size_t count = graph.kinds[factor.kind].wanted.size();
    work += kStationRounds * count * count;
  }
  return place->second;
}

/// Claims (Tandem/Problem/Serial.h) have no price: what hides a collective may
/// lie in front of the open stage, where labels no longer know it.
PricedRelaxations::PricedRelaxations(const FactorGraph &graph,
                                     const std::function<bool()> &proceeds) {
  for (int second = 0; second <= kLambdaSteps; ++second)
    for (int first = 0; first <= second; ++first) {
      Weights weights =
          getBoundWeights(graph.facts.problem, double(first) / kLambdaSteps,
                          double(second) / kLambdaSteps);
      weights.serial = -1;
      entries.push_back(std::make_unique<Entry>(graph, weights));
      if (!proceeds())
        return;
    }
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Completion::Completion(const Facts &facts, const LabelWalk &walk,
                       const PricedRelaxations &priced)
    : facts(facts), walk(walk), priced(priced),
      factorOf(facts.tensors.size(), -1) {
  const std::vector<Factor> &factors = priced.entries.front()->graph.factors;
  for (unsigned i = 0; i < factors.size(); ++i)
    factorOf[factors[i].tensor] = i;
  addRest();
}

const Factor &Completion::getFactor(unsigned tensor) const {
  return priced.entries.front()->graph.factors[factorOf[tensor]];
}

/// The layouts that the user in a slot may have: one, which has paid its
/// messages, if it is decided.
Completion::Choices Completion::getChoices(const Known &known, unsigned slot,
                                           unsigned entry, unsigned produced) {
  PricedRelaxations::Entry &at = *priced.entries[entry];
  const Factor &factor = getFactor(known.tensor);
  const LayoutMap &map = at.graph.getMap(factor, slot);
  size_t size = map.layouts.size();
  const double *row =
      at.graph.kinds[factor.kind].distances[slot - 1].data() + produced * size;
  std::vector<double> changes(row, row + size);
  auto addSource = [&](const Layout &from) {
    const std::vector<double> &more =
        at.getDistances(factor, from, work)[slot - 1];
    for (size_t i = 0; i < size; ++i)
      changes[i] = std::min(changes[i], more[i]);
  };
  if (known.live && known.live->isSummed)
    addSource(facts.getSummed(known.live->produced));
  if (known.live)
    for (const LiveCopy &copy : known.live->copies)
      addSource(copy.layout);
  // Copies that wait are paid for where the tensor is made.
  if (known.live)
    for (const WaitGuess &guess : known.live->waits)
      addSource(guess.layout);
  for (const Decided &user : known.decided)
    if (user.slot == slot)
      return {{changes[user.layout], 0}};
  const double *taken = at.relaxation.getTaken(factorOf[known.tensor], slot);
  Choices choices;
  for (unsigned layout = 0; layout < size; ++layout)
    choices.push_back({changes[layout], -taken[layout]});
  return choices;
}

/// The dearest of the changes that users need, and what they pay themselves.
double Completion::getLeast(const Known &known, unsigned entry,
                            unsigned produced) {
  unsigned first = 1 + (known.live ? known.live->numUsed : 0);
  unsigned numSlots = getFactor(known.tensor).variables.size();
  levels.clear();
  for (unsigned slot = first; slot < numSlots; ++slot)
    for (const Choice &choice : getChoices(known, slot, entry, produced))
      levels.push_back({choice.change, choice.own, slot - first});
  std::sort(levels.begin(), levels.end(),
            [](const Level &a, const Level &b) { return a.change < b.change; });
  // What users cost at least whose changes are no dearer than the level.
  best.assign(numSlots - first, kInfinity);
  work += levels.size() * (1 + best.size());
  double least = kInfinity;
  for (const Level &level : levels) {
    best[level.user] = std::min(best[level.user], level.own);
    least = std::min(least,
                     std::accumulate(best.begin(), best.end(), level.change));
  }
  return least;
}

Completion::Seconds Completion::compute(const Known &known) {
  Seconds seconds;
  for (unsigned entry = 0; entry < priced.entries.size(); ++entry) {
    const PricedRelaxations::Entry &at = *priced.entries[entry];
    const LayoutMap &map = at.graph.getMap(getFactor(known.tensor), 0);
    if (known.live) {
      unsigned produced = std::find(map.layouts.begin(), map.layouts.end(),
                                    known.live->produced) -
                          map.layouts.begin();
      seconds.push_back(getLeast(known, entry, produced));
      continue;
    }
    const double *taken = at.relaxation.getTaken(factorOf[known.tensor], 0);
    double least = kInfinity;
    for (unsigned produced = 0; produced < map.layouts.size(); ++produced)
      least =
          std::min(least, getLeast(known, entry, produced) - taken[produced]);
    seconds.push_back(least);
  }
  return seconds;
}

static void append(std::string &key, uint32_t value) {
  key.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

const Completion::Seconds &Completion::getTensor(const Known &at) {
  key.clear();
  append(key, at.tensor);
  if (const LiveTensor *live = at.live) {
    append(key, live->numUsed << 1 | (live->isSummed ? 1 : 0));
    append(key, live->produced.getKey());
    for (const LiveCopy &copy : live->copies)
      append(key, copy.layout.getKey());
    for (const WaitGuess &guess : live->waits)
      append(key, guess.layout.getKey());
  }
  append(key, ~0u);
  for (const Decided &user : at.decided) {
    append(key, user.slot);
    append(key, user.layout);
  }
  auto [place, isNew] = known.try_emplace(key);
  if (isNew)
    place->second = compute(at);
  return place->second;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

static void add(std::vector<double> &sums, const std::vector<double> &more,
                double factor = 1) {
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] += factor * more[i];
}

/// Of tied operators the first one stands for all.
void Completion::addRest() {
  unsigned numOperators = facts.problem.operators.size();
  rest.assign(numOperators + 1, Seconds(priced.entries.size()));
  for (unsigned place = numOperators; place-- > 0;) {
    unsigned op = walk.operators[place];
    rest[place] = rest[place + 1];
    for (unsigned entry = 0; entry < priced.entries.size(); ++entry) {
      const PricedRelaxations::Entry &at = *priced.entries[entry];
      if (!walk.isFirstOfGroup(op))
        continue;
      double least = kInfinity;
      unsigned variable = at.graph.variableOf[op];
      for (unsigned value = 0; value < at.graph.variables[variable].size;
           ++value)
        least = std::min(least, at.relaxation.getBelief(variable, value));
      // Sums are rounded.
      rest[place][entry] += least - kRounding * at.graph.forbidden;
    }
    for (unsigned tensor : facts.problem.operators[op].results)
      if (factorOf[tensor] >= 0)
        add(rest[place], getTensor({tensor}));
  }
}

//===----------------------------------------------------------------------===//
// Labels
//===----------------------------------------------------------------------===//

/// Operands from `place` on of groups of which one is decided.
void Completion::addDecided(const Label &label, unsigned place) {
  decided.clear();
  const FactorGraph &graph = priced.entries.front()->graph;
  for (auto [group, signature] : label.groups) {
    const Variable &variable = graph.variables[graph.variableOf[group]];
    for (auto [index, slot] : variable.slots) {
      const Factor &factor = graph.factors[index];
      if (slot == 0)
        continue;
      unsigned user = facts.tensors[factor.tensor].uses[slot - 1].op;
      if (walk.placeOf[user] < place)
        continue;
      decided.push_back({factor.tensor, slot,
                         graph.getMap(factor, slot).ofSignature[signature]});
    }
  }
  std::sort(
      decided.begin(), decided.end(), [](const Decided &a, const Decided &b) {
        return a.tensor != b.tensor ? a.tensor < b.tensor : a.slot < b.slot;
      });
}

/// What is in no closed slot yet.
double Completion::getOpen(const Label &label, const Weights &weights) const {
  const StageWork &work = label.work;
  double strands = static_cast<double>(facts.numStrands);
  auto sum = [](const auto &seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  };
  double open = weights.sums * (label.line.previous + work.sums) +
                weights.once * work.computationOnce +
                weights.split * strands * work.computationPerStrand +
                weights.waiting *
                    (label.line.waiting + label.line.arriving + label.leaving);
  double once = work.joins ? weights.joined : weights.collectiveOnce;
  double split = work.joins ? weights.joined : weights.collectiveSplit;
  return open + once * sum(work.collectiveOnce) +
         split * strands * sum(work.collectivePerStrand);
}

double Completion::getLeast(const Label &label, unsigned place) {
  Seconds sums = rest[place];
  addDecided(label, place);
  Known at;
  auto next = decided.begin();
  auto takeDecided = [&](unsigned tensor) {
    at = {tensor};
    for (; next != decided.end() && next->tensor == tensor; ++next)
      at.decided.push_back(*next);
  };
  for (const LiveTensor &live : label.tensors) {
    next = std::lower_bound(
        decided.begin(), decided.end(), live.tensor,
        [](const Decided &a, unsigned tensor) { return a.tensor < tensor; });
    takeDecided(live.tensor);
    at.live = &live;
    add(sums, getTensor(at));
  }
  // Outputs of what is not made yet.
  for (next = decided.begin(); next != decided.end();) {
    unsigned tensor = next->tensor;
    takeDecided(tensor);
    if (walk.placeOf[facts.tensors[tensor].producer] < place)
      continue;
    add(sums, getTensor(at));
    add(sums, getTensor({tensor}), -1);
  }
  double most = 0;
  for (unsigned entry = 0; entry < priced.entries.size(); ++entry)
    most = std::max(most,
                    sums[entry] +
                        getOpen(label, priced.entries[entry]->graph.weights));
  return label.line.seconds + most;
}
