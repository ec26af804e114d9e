//===- TandemFactors.cpp - the additive relaxation as a factor graph ------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemFactors.h"
#include <algorithm>
#include <limits>

using namespace tandem::cost;
using namespace tandem::search;

FactorGraph::FactorGraph(const Facts &facts, ChangeTable &table)
    : facts(facts), table(table) {
  addVariables();
  addFactors();
  double dearest = 0;
  for (unsigned op = 0; op < facts.problem.operators.size(); ++op) {
    double most = 0;
    for (const Signature &signature : facts.problem.getSignatures(op))
      most = std::max(most, signature.seconds);
    dearest += most;
  }
  forbidden = 10 * dearest * static_cast<double>(facts.numStrands) + 1;
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

unsigned FactorGraph::getMap(unsigned op, bool isResult, unsigned index) {
  MapKey key{facts.problem.operators[op].signatureSet, isResult, index};
  auto [place, isNew] = mapOf.try_emplace(key, maps.size());
  if (!isNew)
    return place->second;
  LayoutMap map;
  std::map<Layout, uint16_t> indices;
  for (const Signature &signature : facts.problem.getSignatures(op)) {
    const Layout &layout =
        isResult ? signature.results[index] : signature.operands[index];
    auto [entry, isFirst] = indices.try_emplace(layout, map.layouts.size());
    if (isFirst)
      map.layouts.push_back(layout);
    map.ofSignature.push_back(entry->second);
  }
  maps.push_back(std::move(map));
  return place->second;
}

void FactorGraph::addVariables() {
  unsigned numOperators = facts.problem.operators.size();
  variableOf.resize(numOperators);
  std::map<std::vector<unsigned>, unsigned> unaryOf;
  for (unsigned op = 0; op < numOperators; ++op) {
    if (facts.groupOf[op] != op) {
      variableOf[op] = variableOf[facts.groupOf[op]];
      variables[variableOf[op]].operators.push_back(op);
      continue;
    }
    variableOf[op] = variables.size();
    unsigned size = facts.problem.getSignatures(op).size();
    variables.push_back({{op}, size, 0, {}});
  }
  for (Variable &variable : variables) {
    // What the price depends on: signatures, and the bytes that are held.
    std::vector<unsigned> key;
    for (unsigned op : variable.operators) {
      const Operator &info = facts.problem.operators[op];
      key.push_back(info.signatureSet);
      key.push_back(static_cast<unsigned>(info.kind) << 4 |
                    static_cast<unsigned>(info.pass));
      for (unsigned tensor : info.results)
        key.push_back(crossesPasses(tensor));
    }
    auto [place, isNew] = unaryOf.try_emplace(key, unaries.size());
    if (isNew)
      unaries.emplace_back();
    variable.unary = place->second;
  }
}

void FactorGraph::addFactors() {
  std::map<std::vector<unsigned>, unsigned> kindOf;
  std::map<std::pair<std::vector<int64_t>, int64_t>, unsigned> shapes;
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor) {
    const TensorFacts &info = facts.tensors[tensor];
    if (info.uses.empty())
      continue;
    const Tensor &data = facts.problem.tensors[tensor];
    unsigned shape =
        shapes.try_emplace({data.shape, data.elementBytes}, shapes.size())
            .first->second;
    bool mayWait = info.numUpdateUses > 0 && !facts.isArgument(info.producer) &&
                   facts.problem.operators[info.producer].pass != Pass::Update;
    FactorKind kind;
    kind.maps.push_back(getMap(info.producer, true, info.result));
    kind.passes.push_back(facts.problem.operators[info.producer].pass);
    std::vector<unsigned> key{shape, mayWait, kind.maps.front()};
    Factor factor{0, tensor, {variableOf[info.producer]}, {}};
    for (const TensorUse &use : info.uses) {
      kind.maps.push_back(getMap(use.op, false, use.operand));
      kind.passes.push_back(facts.problem.operators[use.op].pass);
      key.push_back(kind.maps.back());
      key.push_back(static_cast<unsigned>(kind.passes.back()));
      factor.variables.push_back(variableOf[use.op]);
    }
    auto [place, isNew] = kindOf.try_emplace(key, kinds.size());
    if (isNew) {
      kinds.push_back(std::move(kind));
      kindTensors.push_back(tensor);
      kindWaits.push_back(mayWait);
    }
    factor.kind = place->second;
    for (unsigned slot = 0; slot < factor.variables.size(); ++slot) {
      factor.messages.push_back(numMessages);
      numMessages += getMap(factor, slot).layouts.size();
      variables[factor.variables[slot]].slots.emplace_back(factors.size(),
                                                           slot);
    }
    factors.push_back(std::move(factor));
  }
}

//===----------------------------------------------------------------------===//
// Prices
//===----------------------------------------------------------------------===//

/// Whether the tensor is alive in its producer's layout where the backward pass
/// begins.
bool FactorGraph::crossesPasses(unsigned tensor) const {
  const TensorFacts &info = facts.tensors[tensor];
  const std::vector<Operator> &operators = facts.problem.operators;
  if (operators[info.producer].pass != Pass::Forward ||
      operators[info.producer].kind == Operator::Kind::Resident)
    return false;
  return std::any_of(info.uses.begin(), info.uses.end(),
                     [&](const TensorUse &use) {
                       return operators[use.op].pass == Pass::Backward;
                     });
}

bool FactorGraph::isHeld(unsigned tensor) const {
  const Operator &producer =
      facts.problem.operators[facts.tensors[tensor].producer];
  return producer.kind == Operator::Kind::Resident || crossesPasses(tensor);
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
          if (isHeld(info.results[i]))
            bytes += facts.problem.getBytes(
                info.results[i],
                facts.problem.getSignatures(op)[value].results[i]);
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
  double price = 0;
  if (!facts.isArgument(op)) {
    bool isSplit = facts.isPerStrand(signature);
    double strands = isSplit ? static_cast<double>(facts.numStrands) : 1;
    double weight = weights.computation;
    if (!isSplit && info.pass != Pass::Update)
      weight += weights.unsplit * (1 - weight);
    price += weight * strands * signature.seconds;
  }
  for (unsigned i = 0; i < info.results.size(); ++i)
    if (isHeld(info.results[i]))
      price += weights.memory * static_cast<double>(facts.problem.getBytes(
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

double FactorGraph::getWeighted(unsigned tensor, const Layout &from,
                                const Layout &to, bool mayWait) {
  const ChangeCost &change = table.getCost(tensor, from, to);
  if (!change.isPossible)
    return forbidden;
  double strands = static_cast<double>(facts.numStrands);
  // What waits is hidden beside computation, its local part included.
  double local = mayWait ? std::min(weights.computation, weights.waiting[0])
                         : weights.computation;
  double price = local * change.local;
  for (unsigned q = 0; q < kMaxAxes; ++q) {
    double weight = mayWait ? weights.waiting[q] : weights.collective[q];
    price += weight * (change.collectiveOnce[q] +
                       strands * change.collectivePerStrand[q]);
  }
  return price + (change.joins ? weights.join : 0);
}

void FactorGraph::setDistances(FactorKind &kind, unsigned tensor) {
  const std::vector<Layout> &produced = maps[kind.maps[0]].layouts;
  bool mayWait = kindWaits[kind.maps.empty() ? 0 : &kind - kinds.data()];
  // A copy may come from another copy: all layouts that are wanted can be
  // stations.
  std::vector<Layout> wanted;
  for (unsigned slot = 1; slot < kind.maps.size(); ++slot)
    for (const Layout &layout : maps[kind.maps[slot]].layouts)
      wanted.push_back(layout);
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  size_t count = wanted.size();
  auto findWanted = [&](const Layout &layout) {
    return std::lower_bound(wanted.begin(), wanted.end(), layout) -
           wanted.begin();
  };
  // Without and with waiting, between wanted layouts.
  std::vector<double> between[2];
  for (unsigned waits = 0; waits < (mayWait ? 2 : 1); ++waits) {
    between[waits].resize(count * count);
    for (size_t i = 0; i < count; ++i)
      for (size_t j = 0; j < count; ++j)
        between[waits][i * count + j] =
            getWeighted(tensor, wanted[i], wanted[j], waits);
  }
  kind.distances.assign(kind.maps.size() - 1, {});
  for (unsigned slot = 1; slot < kind.maps.size(); ++slot)
    kind.distances[slot - 1].resize(produced.size() *
                                    maps[kind.maps[slot]].layouts.size());
  kind.levels.assign(produced.size(), {});
  for (size_t from = 0; from < produced.size(); ++from) {
    for (unsigned waits = 0; waits < (mayWait ? 2 : 1); ++waits) {
      std::vector<double> best(count);
      Layout summed = facts.getSummed(produced[from]);
      bool isSum = facts.timeAxis >= 0 &&
                   produced[from][facts.timeAxis] == kReduce &&
                   facts.tensors[tensor].numUpdateUses > 0;
      double sum = isSum
                       ? weights.computation *
                             table.getCost(tensor, produced[from], summed).local
                       : 0;
      for (size_t to = 0; to < count; ++to) {
        best[to] = getWeighted(tensor, produced[from], wanted[to], waits);
        if (isSum)
          best[to] = std::min(
              best[to], sum + getWeighted(tensor, summed, wanted[to], waits));
      }
      for (bool isStable = false; !isStable;) {
        isStable = true;
        for (size_t mid = 0; mid < count; ++mid)
          for (size_t to = 0; to < count; ++to)
            if (double via = best[mid] + between[waits][mid * count + to];
                via < best[to] * (1 - 1e-12)) {
              best[to] = via;
              isStable = false;
            }
      }
      for (unsigned slot = 1; slot < kind.maps.size(); ++slot) {
        const std::vector<Layout> &layouts = maps[kind.maps[slot]].layouts;
        if (bool(waits) != (mayWait && kind.passes[slot] == Pass::Update))
          continue;
        for (size_t to = 0; to < layouts.size(); ++to)
          kind.distances[slot - 1][from * layouts.size() + to] =
              std::min(best[findWanted(layouts[to])], forbidden);
      }
    }
  }
  for (size_t from = 0; from < produced.size(); ++from) {
    std::vector<double> &levels = kind.levels[from];
    levels.push_back(0);
    for (unsigned slot = 1; slot < kind.maps.size(); ++slot) {
      size_t size = maps[kind.maps[slot]].layouts.size();
      const double *row = kind.distances[slot - 1].data() + from * size;
      levels.insert(levels.end(), row, row + size);
    }
    std::sort(levels.begin(), levels.end());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  }
  kind.levelOf.assign(kind.maps.size() - 1, {});
  for (unsigned slot = 1; slot < kind.maps.size(); ++slot) {
    size_t size = maps[kind.maps[slot]].layouts.size();
    for (size_t i = 0; i < produced.size() * size; ++i) {
      const std::vector<double> &levels = kind.levels[i / size];
      kind.levelOf[slot - 1].push_back(
          std::lower_bound(levels.begin(), levels.end(),
                           kind.distances[slot - 1][i]) -
          levels.begin());
    }
  }
}

void FactorGraph::setWeights(const Weights &given) {
  weights = given;
  setUnaries();
  for (unsigned i = 0; i < kinds.size(); ++i)
    setDistances(kinds[i], kindTensors[i]);
}

double FactorGraph::getChangeCost(const Factor &factor,
                                  const uint16_t *layouts) const {
  const FactorKind &kind = kinds[factor.kind];
  double price = 0;
  for (unsigned slot = 1; slot < kind.maps.size(); ++slot) {
    const std::vector<Layout> &wanted = maps[kind.maps[slot]].layouts;
    bool isFirst = true;
    for (unsigned other = 1; other < slot && isFirst; ++other)
      isFirst = maps[kind.maps[other]].layouts[layouts[other]] !=
                wanted[layouts[slot]];
    if (isFirst)
      price +=
          kind.distances[slot - 1][layouts[0] * wanted.size() + layouts[slot]];
  }
  return price;
}
