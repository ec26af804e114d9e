//===- FactorPrices.cpp - prices of factors under weights -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Factors.h"
#include <algorithm>
#include <array>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

/// Whether, with a signature per operator, users behind the place where memory
/// counts take what was produced, or copies that may be made from it.
bool FactorGraph::needsProduced(const std::vector<unsigned> &signatures,
                                unsigned tensor,
                                const std::vector<Layout> &copies) const {
  const Layout &produced = facts.getProduced(signatures, tensor);
  auto getTotal = [&](const Layout &from, const Layout &to) {
    const ChangeCost &change = table.getCost(tensor, from, to);
    return change.isPossible ? change.getTotal(facts.numStrands) : kInfinity;
  };
  const std::vector<TensorUse> &uses = facts.tensors[tensor].uses;
  auto first = uses.begin() + held.getNumEarly(tensor);
  return std::any_of(first, uses.end(), [&](const TensorUse &use) {
    if (facts.problem.operators[use.op].pass == Pass::Update)
      return false;
    const Layout &wanted = facts.getWanted(signatures, use);
    if (wanted.isAbsent())
      return false;
    return wanted == produced ||
           std::none_of(copies.begin(), copies.end(), [&](const Layout &copy) {
             return copy == wanted ||
                    getTotal(copy, wanted) < getTotal(produced, wanted);
           });
  });
}

int64_t FactorGraph::getHeldBytes(const std::vector<unsigned> &signatures,
                                  unsigned tensor) const {
  const Layout &produced = facts.getProduced(signatures, tensor);
  int64_t least = held.getBytes(tensor, produced);
  if (!held.isReplaceable(tensor))
    return least;
  std::vector<Layout> copies;
  for (unsigned i = 0; i < held.getNumEarly(tensor); ++i) {
    const TensorUse &use = facts.tensors[tensor].uses[i];
    if (const Layout &wanted = facts.getWanted(signatures, use);
        wanted != produced && !wanted.isAbsent())
      copies.push_back(wanted);
  }
  if (!needsProduced(signatures, tensor, copies))
    for (const Layout &copy : copies)
      least = std::min(least, facts.getShare(tensor, copy));
  return least;
}

int64_t
FactorGraph::getHeldBytes(const std::vector<unsigned> &signatures) const {
  int64_t sum = 0;
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor)
    if (held.isHeld(tensor))
      sum += getHeldBytes(signatures, tensor);
  return sum;
}

int64_t FactorGraph::getLeastBytes() const {
  int64_t sum = 0;
  for (const Variable &variable : variables) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (unsigned value = 0; value < variable.size; ++value) {
      int64_t bytes = 0;
      for (unsigned op : variable.operators) {
        const Operator &info = facts.problem.operators[op];
        for (unsigned i = 0; i < info.results.size(); ++i)
          if (unsigned tensor = info.results[i]; held.isHeld(tensor)) {
            int64_t own = held.getBytes(
                tensor, facts.problem.getSignatures(op)[value].results[i]);
            bytes += held.isReplaceable(tensor)
                         ? std::min(own, held.getLeastCopy(tensor))
                         : own;
          }
      }
      least = std::min(least, bytes);
    }
    sum += least;
  }
  return sum;
}

double FactorGraph::getOperatorCost(unsigned op,
                                    const Signature &signature) const {
  const Operator &info = facts.problem.operators[op];
  bool isSplit = facts.isPerStrand(signature);
  double price = 0;
  double weight = isSplit             ? weights.split
                  : facts.mayHide[op] ? weights.once
                                      : weights.alone;
  if (info.isAgain)
    weight = std::min(weight, weights.again);
  if (!facts.isArgument(op))
    price += weight * static_cast<double>(isSplit ? facts.numStrands : 1) *
             signature.seconds;
  for (unsigned i = 0; i < info.results.size(); ++i)
    if (isHeldByItself(info.results[i]))
      price += weights.memory * static_cast<double>(held.getBytes(
                                    info.results[i], signature.results[i]));
  return price;
}

void FactorGraph::setUnaries() {
  for (std::vector<double> &unary : unaries)
    unary.clear();
  for (const Variable &variable : variables) {
    std::vector<double> &unary = unaries[variable.unary];
    if (!unary.empty())
      continue;
    unary.resize(variable.size);
    for (unsigned op : variable.operators)
      for (unsigned i = 0; i < variable.size; ++i)
        unary[i] += getOperatorCost(op, facts.problem.getSignatures(op)[i]);
  }
}

void FactorGraph::setWanted(FactorKind &kind) {
  for (unsigned slot = 1; slot < kind.maps.size(); ++slot)
    for (const Layout &layout : maps[kind.maps[slot]].layouts)
      kind.wanted.push_back(layout);
  std::sort(kind.wanted.begin(), kind.wanted.end());
  kind.wanted.erase(std::unique(kind.wanted.begin(), kind.wanted.end()),
                    kind.wanted.end());
  for (unsigned slot = 1; slot < kind.maps.size(); ++slot) {
    std::vector<unsigned> &indices = kind.wantedOf.emplace_back();
    for (const Layout &layout : maps[kind.maps[slot]].layouts)
      indices.push_back(
          std::lower_bound(kind.wanted.begin(), kind.wanted.end(), layout) -
          kind.wanted.begin());
  }
}

FactorKind::Parts FactorGraph::getParts(unsigned tensor, const Layout &from,
                                        const Layout &to) const {
  const ChangeCost &change = table.getCost(tensor, from, to);
  FactorKind::Parts parts;
  if (!change.isPossible)
    return parts;
  parts.once = 0;
  parts.local = change.local;
  parts.joins = change.joins;
  for (unsigned q = 0; q < kMaxAxes; ++q) {
    parts.once += change.collectiveOnce[q];
    parts.split +=
        static_cast<double>(facts.numStrands) * change.collectivePerStrand[q];
  }
  return parts;
}

/// Changes of a layout to all that are wanted; `wanted` stands for these.
unsigned FactorGraph::getChanges(const FactorKind &kind, unsigned tensor,
                                 unsigned wanted, const Layout &from) {
  auto [place, isNew] = changesOf.try_emplace({wanted, from}, changes.size());
  if (isNew) {
    std::vector<FactorKind::Parts> &row = changes.emplace_back();
    for (const Layout &to : kind.wanted)
      row.push_back(getParts(tensor, from, to));
  }
  return place->second;
}

/// Takes the changes apart; once, whatever the prices.
void FactorGraph::setParts(FactorKind &kind, unsigned tensor, unsigned shape) {
  setWanted(kind);
  unsigned wanted =
      wantedOf.try_emplace({shape, kind.wanted}, wantedOf.size()).first->second;
  for (const Layout &layout : kind.wanted) {
    kind.wantedBytes.push_back(
        static_cast<double>(facts.getShare(tensor, layout)));
    kind.between.push_back(getChanges(kind, tensor, wanted, layout));
  }
  for (const Layout &from : maps[kind.maps[0]].layouts) {
    kind.producedBytes.push_back(
        held.isReplaceable(tensor)
            ? static_cast<double>(held.getBytes(tensor, from))
            : 0);
    // A gradient is summed where it is made.
    bool isSummed = facts.timeAxis >= 0 && from[facts.timeAxis] == kReduce &&
                    facts.tensors[tensor].numUpdateUses > 0;
    Layout summed = facts.getSummed(from);
    kind.sums.push_back(isSummed ? table.getCost(tensor, from, summed).local
                                 : -1);
    kind.direct.push_back(getChanges(kind, tensor, wanted, from));
    kind.summed.push_back(isSummed ? getChanges(kind, tensor, wanted, summed)
                                   : ~0u);
  }
}

double FactorGraph::getDistance(const FactorKind::Parts &parts,
                                Price kind) const {
  if (parts.once < 0)
    return forbidden;
  double price = weights.collectiveOnce * parts.once +
                 weights.collectiveSplit * parts.split;
  if (kind == Price::Serial && weights.serial >= 0)
    price = weights.serial * (parts.once + parts.split);
  // What joins the strands makes its stage serial; beside its local work others
  // may wait.
  if (parts.joins)
    price = weights.joined * (parts.once + parts.split) +
            weights.once * parts.local + weights.join;
  // What waits does so with its local part.
  if (kind == Price::Waiting)
    price = weights.waiting * (parts.once + parts.split + parts.local);
  return std::min(forbidden, price);
}

/// Four lanes, so that no minimum waits for the one before it.
double tandem::search::getLeastSum(const double *a, const double *b,
                                   size_t size) {
  constexpr size_t kLanes = 4;
  std::array<double, kLanes> least;
  least.fill(kInfinity);
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      least[lane] = std::min(least[lane], a[i + lane] + b[i + lane]);
  for (; i < size; ++i)
    least[0] = std::min(least[0], a[i] + b[i]);
  return *std::min_element(least.begin(), least.end());
}

/// Copies may be made from copies. Changes are the cheapest by all seconds, so
/// that stations help only where the seconds of the direct one have not the
/// lowest price.
void FactorGraph::addStations(const FactorKind &kind,
                              const std::vector<double> &steps,
                              const std::vector<bool> &isFinal,
                              std::vector<double> &best) const {
  size_t count = kind.wanted.size();
  for (bool isStable = false; !isStable;) {
    isStable = true;
    for (size_t to = 0; to < count; ++to) {
      if (isFinal[to])
        continue;
      double least = getLeastSum(best.data(), &steps[to * count], count);
      if (least < best[to] * (1 - kEqualCost)) {
        best[to] = least;
        isStable = false;
      }
    }
  }
}

/// Distances from a produced layout to all that are wanted.
std::vector<double>
FactorGraph::getRow(const FactorKind &kind, size_t produced, Price price,
                    const std::vector<double> &steps) const {
  size_t count = kind.wanted.size();
  std::vector<double> best(count);
  std::vector<bool> isFinal(count);
  double sum = kind.sums[produced];
  for (size_t to = 0; to < count; ++to) {
    const FactorKind::Parts &direct = changes[kind.direct[produced]][to];
    best[to] = getDistance(direct, price);
    isFinal[to] =
        price == Price::Waiting || (direct.once == 0 && !direct.joins);
    if (sum < 0)
      continue;
    const FactorKind::Parts &summed = changes[kind.summed[produced]][to];
    if (summed.once >= 0)
      best[to] =
          std::min(best[to], weights.sums * sum + getDistance(summed, price));
  }
  // The first user finds no copies.
  bool isFirst = price == Price::Serial && !kind.isInUpdates;
  if (weights.isBound && !isFirst)
    addStations(kind, steps, isFinal, best);
  return best;
}

/// How the changes to a user's layout are priced.
FactorGraph::Price FactorGraph::getPrice(const FactorKind &kind, bool mayWait,
                                         unsigned slot, size_t layout) const {
  if (mayWait && kind.passes[slot] == Pass::Update)
    return Price::Waiting;
  bool isSerial = kind.isInUpdates || maps[kind.maps[slot]].isAtOnce[layout];
  return isSerial ? Price::Serial : Price::Usual;
}

/// Appends the distances from a produced layout for the users of this price.
void FactorGraph::addRow(FactorKind &kind, size_t produced, bool mayWait,
                         Price price, const std::vector<double> &row) const {
  size_t numProduced = kind.sums.size();
  for (unsigned user = 0; user < kind.wantedOf.size(); ++user) {
    std::vector<double> &distances = kind.distances[user];
    size_t size = kind.wantedOf[user].size();
    distances.resize(numProduced * size);
    for (size_t i = 0; i < size; ++i)
      if (getPrice(kind, mayWait, user + 1, i) == price)
        distances[produced * size + i] = row[kind.wantedOf[user][i]];
  }
}

/// What changes between wanted layouts cost, by target first, as they are read.
std::vector<double> FactorGraph::getSteps(const FactorKind &kind,
                                          Price price) const {
  size_t count = kind.wanted.size();
  std::vector<double> steps(weights.isBound ? count * count : 0);
  for (size_t from = 0; weights.isBound && from < count; ++from)
    for (size_t to = 0; to < count; ++to)
      steps[to * count + from] =
          getDistance(changes[kind.between[from]][to], price);
  return steps;
}

void FactorGraph::setDistances(FactorKind &kind, bool mayWait) {
  size_t numProduced = kind.sums.size();
  kind.distances.assign(kind.wantedOf.size(), {});
  kind.rows.clear();
  for (Price price : {Price::Usual, Price::Waiting, Price::Serial}) {
    if ((price == Price::Waiting && !mayWait) ||
        (price == Price::Serial && !kind.isClaimed && !kind.isInUpdates) ||
        (price == Price::Usual && kind.isInUpdates))
      continue;
    std::vector<double> steps = getSteps(kind, price);
    for (size_t produced = 0; produced < numProduced; ++produced) {
      std::vector<double> row = getRow(kind, produced, price, steps);
      addRow(kind, produced, mayWait, price, row);
      if (kind.numEarly > 0 && price == Price::Usual)
        kind.rows.insert(kind.rows.end(), row.begin(), row.end());
    }
  }
}

/// Distances do not depend on the price of bytes; what copies that are kept
/// cost does.
void FactorGraph::setWeights(const Weights &given) {
  prepare([] { return false; });
  Weights before = std::exchange(weights, given);
  before.memory = weights.memory;
  bool keepsDistances = numPriced > 0 && before == weights;
  ++numPriced;
  setUnaries();
  for (unsigned i = 0; i < kinds.size(); ++i) {
    if (!keepsDistances)
      setDistances(kinds[i], kindWaits[i]);
    if (!keepsDistances || kinds[i].numEarly > 0)
      setLevels(kinds[i]);
  }
}

uint64_t FactorGraph::getSweepWork(unsigned variable) const {
  uint64_t work = 0;
  for (auto [index, slot] : variables[variable].slots) {
    const Factor &factor = factors[index];
    uint64_t layouts = 0;
    for (unsigned user = 1; user < factor.variables.size(); ++user)
      layouts += getMap(factor, user).layouts.size();
    work += 2 * layouts * getMap(factor, 0).layouts.size();
  }
  return work;
}

double FactorGraph::getChangeCost(const Factor &factor,
                                  const uint16_t *layouts) const {
  const FactorKind &kind = kinds[factor.kind];
  double price = 0;
  bool needsProduced = false;
  const Layout &produced = maps[kind.maps[0]].layouts[layouts[0]];
  for (unsigned slot = 1; slot < kind.maps.size(); ++slot) {
    unsigned wanted = kind.wantedOf[slot - 1][layouts[slot]];
    bool isKept = false, isKnown = false;
    for (unsigned other = 1; other < slot && !isKnown; ++other) {
      bool isEqual = kind.wantedOf[other - 1][layouts[other]] == wanted;
      bool isBefore =
          kind.isPriced && other <= kind.numEarly && slot > kind.numEarly;
      isKept |= isEqual && isBefore;
      isKnown = isEqual && !isBefore;
    }
    if (isKnown)
      continue;
    size_t size = maps[kind.maps[slot]].layouts.size();
    double distance =
        kind.distances[slot - 1][layouts[0] * size + layouts[slot]];
    price += isKept ? std::min(distance, getKeptPrice(kind, wanted)) : distance;
    needsProduced |= slot > kind.numEarly && !kind.wanted[wanted].isAbsent() &&
                     (!isKept || kind.wanted[wanted] == produced);
  }
  if (kind.isPriced && needsProduced)
    price += weights.memory * kind.producedBytes[layouts[0]];
  return price;
}
