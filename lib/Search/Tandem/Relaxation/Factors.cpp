//===- Factors.cpp - the additive relaxation as a factor graph ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Relaxation/Factors.h"
#include "Tandem/Limits.h"
#include <algorithm>
#include <limits>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

FactorGraph::FactorGraph(const Facts &facts, ChangeTable &table)
    : facts(facts), held(facts), table(table), claims(facts) {
  addVariables();
  addFactors();
}

bool FactorGraph::prepare(const std::function<bool()> &ends) {
  for (; numPrepared < kinds.size(); ++numPrepared) {
    if (ends())
      return false;
    setParts(kinds[numPrepared], kindTensors[numPrepared],
             kindShapes[numPrepared]);
  }
  if (forbidden == 0)
    setForbidden();
  return true;
}

/// Dearer than any operator, or change, by itself; much more would drown the
/// messages.
void FactorGraph::setForbidden() {
  double dearest = 0;
  for (unsigned op = 0; op < facts.problem.operators.size(); ++op) {
    double most = 0;
    for (const Signature &signature : facts.problem.getSignatures(op))
      most = std::max(most, signature.seconds);
    dearest = std::max(dearest, most);
  }
  forbidden =
      kImpossible * dearest * static_cast<double>(facts.numStrands) + 1e-6;
  for (const FactorKind &kind : kinds)
    for (const auto *rows : {&kind.direct, &kind.summed})
      for (unsigned row : *rows)
        if (row != ~0u)
          for (const FactorKind::Parts &parts : changes[row])
            forbidden =
                std::max(forbidden, parts.once + parts.split + parts.local);
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

unsigned FactorGraph::getMap(unsigned op, bool isResult, unsigned index,
                             bool isClaimed) {
  MapKey key{facts.problem.operators[op].signatureSet, isResult, index,
             isClaimed};
  auto [place, isNew] = mapOf.try_emplace(key, maps.size());
  if (!isNew)
    return place->second;
  LayoutMap map;
  std::map<std::pair<Layout, bool>, uint16_t> indices;
  for (const Signature &signature : facts.problem.getSignatures(op)) {
    const Layout &layout =
        isResult ? signature.results[index] : signature.operands[index];
    bool isAtOnce = isClaimed && !facts.isPerStrand(signature);
    auto [entry, isFirst] =
        indices.try_emplace({layout, isAtOnce}, map.layouts.size());
    if (isFirst) {
      map.layouts.push_back(layout);
      map.isAtOnce.push_back(isAtOnce);
    }
    map.ofSignature.push_back(entry->second);
  }
  maps.push_back(std::move(map));
  return place->second;
}

void FactorGraph::addVariables() {
  std::map<std::vector<unsigned>, unsigned> unaryOf;
  std::map<std::pair<std::vector<int64_t>, int64_t>, unsigned> shapes;
  for (const std::vector<unsigned> &group : facts.groups) {
    unsigned size = facts.problem.getSignatures(group.front()).size();
    variables.push_back({group, size, 0, {}});
  }
  for (Variable &variable : variables) {
    // What the price depends on: signatures, and the bytes that are held.
    std::vector<unsigned> key;
    for (unsigned op : variable.operators) {
      const Operator &info = facts.problem.operators[op];
      key.push_back(info.signatureSet);
      key.push_back(static_cast<unsigned>(info.kind) << 4 |
                    static_cast<unsigned>(info.pass));
      key.push_back(facts.mayHide[op] | unsigned(info.isAgain) << 1);
      // Arguments of other shapes may share their signatures.
      for (unsigned tensor : info.results) {
        const Tensor &data = facts.problem.tensors[tensor];
        key.push_back(isHeldByItself(tensor)
                          ? shapes
                                .try_emplace({data.shape, data.elementBytes},
                                             shapes.size())
                                .first->second
                          : ~0u);
      }
    }
    auto [place, isNew] = unaryOf.try_emplace(key, unaries.size());
    if (isNew)
      unaries.emplace_back();
    variable.unary = place->second;
  }
}

void FactorGraph::addFactors() {
  std::map<std::vector<unsigned>, unsigned> kindOf;
  std::map<std::tuple<std::vector<int64_t>, int64_t, int64_t>, unsigned> shapes;
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor) {
    const TensorFacts &info = facts.tensors[tensor];
    if (info.uses.empty())
      continue;
    const Tensor &data = facts.problem.tensors[tensor];
    unsigned shape =
        shapes
            .try_emplace({data.shape, data.elementBytes, data.times},
                         shapes.size())
            .first->second;
    bool mayWait = info.numUpdateUses > 0 && facts.mayWait(tensor);
    FactorKind kind;
    kind.maps.push_back(getMap(info.producer, true, info.result));
    kind.passes.push_back(facts.problem.operators[info.producer].pass);
    kind.isClaimed = claims.isClaimed[info.uses.front().op];
    kind.isInUpdates = claims.updatesAreSerial && !mayWait &&
                       info.numUpdateUses == info.uses.size();
    std::vector<unsigned> key{shape, mayWait, kind.isClaimed, kind.isInUpdates,
                              kind.maps.front()};
    Factor factor{0, tensor, {facts.groupOf[info.producer]}, {}};
    for (const TensorUse &use : info.uses) {
      kind.maps.push_back(getMap(use.op, false, use.operand,
                                 kind.isClaimed && kind.maps.size() == 1));
      kind.passes.push_back(facts.problem.operators[use.op].pass);
      key.push_back(kind.maps.back());
      key.push_back(static_cast<unsigned>(kind.passes.back()));
      factor.variables.push_back(facts.groupOf[use.op]);
    }
    // Arguments are there in any case.
    unsigned numEarly = facts.isArgument(info.producer)
                            ? std::count(kind.passes.begin() + 1,
                                         kind.passes.end(), Pass::Forward)
                            : held.getNumEarly(tensor);
    if (facts.does(Mechanism::KeptPrices) && !mayWait &&
        numEarly < info.uses.size() && held.holdsKept(tensor))
      kind.numEarly = numEarly;
    key.push_back(kind.numEarly);
    key.push_back(held.isReplaceable(tensor));
    auto [place, isNew] = kindOf.try_emplace(key, kinds.size());
    if (isNew) {
      kinds.push_back(std::move(kind));
      kindTensors.push_back(tensor);
      kindShapes.push_back(shape);
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
