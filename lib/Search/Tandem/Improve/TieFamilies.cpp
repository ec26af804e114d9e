//===- TieFamilies.cpp - forms that change together -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/TieFamilies.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

TieFamilies::TieFamilies(const Facts &facts)
    : facts(facts), problem(facts.problem) {
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    if (problem.operators[op].kind != Operator::Kind::Resident)
      continue;
    unsigned tensor = problem.operators[op].results.front();
    for (const TensorUse &use : facts.tensors[tensor].uses)
      if (problem.operators[use.op].pass == Pass::Update &&
          problem.operators[use.op].kind == Operator::Kind::Compute &&
          withFamily.insert(use.op).second)
        addUpdate(use.op);
    addResident(op);
  }
}

int64_t TieFamilies::getBytes(unsigned resident, unsigned value) const {
  return problem.getBytes(problem.operators[resident].results.front(),
                          problem.getSignatures(resident)[value].results[0]);
}

/// The family in the forms that one signature of its update wants; nothing if
/// they cannot be stored so.
std::optional<TieFamily::Choice>
TieFamilies::getChoice(const TieFamily &family, unsigned op,
                       const Signature &signature) const {
  const std::vector<unsigned> &operands = problem.operators[op].operands;
  TieFamily::Choice choice{0, {}};
  for (unsigned resident : family.residents) {
    unsigned tensor = problem.operators[resident].results.front();
    size_t operand =
        std::find(operands.begin(), operands.end(), tensor) - operands.begin();
    const SignatureSet &set = problem.getSignatures(resident);
    auto place = std::find_if(set.begin(), set.end(), [&](const Signature &s) {
      return s.results[0] == signature.operands[operand];
    });
    if (place == set.end())
      return std::nullopt;
    choice.values.push_back(place - set.begin());
    choice.bytes += getBytes(resident, choice.values.back());
  }
  return choice;
}

/// All that the choices of a family follow from.
std::vector<int64_t> TieFamilies::getKind(const TieFamily &family,
                                          unsigned op) const {
  const Operator &update = problem.operators[op];
  std::vector<int64_t> kind{update.signatureSet};
  for (unsigned resident : family.residents) {
    unsigned number = problem.operators[resident].results.front();
    const Tensor &tensor = problem.tensors[number];
    kind.push_back(problem.operators[resident].signatureSet);
    kind.push_back(
        std::find(update.operands.begin(), update.operands.end(), number) -
        update.operands.begin());
    kind.push_back(tensor.elementBytes);
    kind.push_back(static_cast<int64_t>(tensor.shape.size()));
    kind.insert(kind.end(), tensor.shape.begin(), tensor.shape.end());
  }
  return kind;
}

void TieFamilies::addUpdate(unsigned op) {
  TieFamily family;
  for (unsigned tensor : problem.operators[op].operands) {
    unsigned producer = facts.tensors[tensor].producer;
    if (problem.operators[producer].kind == Operator::Kind::Resident) {
      family.residents.push_back(producer);
      family.groups.push_back(facts.groupOf[producer]);
    }
  }
  family.groups.push_back(facts.groupOf[op]);
  auto [known, isNew] = choicesOf.try_emplace(getKind(family, op));
  const SignatureSet &set = problem.getSignatures(op);
  for (unsigned value = 0; isNew && value < set.size(); ++value)
    if (std::optional<TieFamily::Choice> choice =
            getChoice(family, op, set[value])) {
      choice->values.push_back(value);
      known->second.push_back(std::move(*choice));
    }
  family.choices = known->second;
  add(std::move(family));
}

void TieFamilies::addResident(unsigned op) {
  TieFamily family;
  family.residents = {op};
  family.groups = {facts.groupOf[op]};
  for (unsigned value = 0; value < problem.getSignatures(op).size(); ++value)
    family.choices.push_back({getBytes(op, value), {value}});
  add(std::move(family));
}

void TieFamilies::add(TieFamily family) {
  if (family.choices.size() < 2)
    return;
  std::sort(family.choices.begin(), family.choices.end());
  addNeighbours(family);
  list.push_back(std::move(family));
}

void TieFamilies::addNeighbours(TieFamily &family) {
  std::vector<unsigned> &next = family.neighbours;
  auto add = [&](unsigned op) {
    if (!isPartOfFamily(op) && problem.getSignatures(op).size() > 1)
      next.push_back(facts.groupOf[op]);
  };
  for (unsigned group : family.groups)
    for (unsigned op : facts.groups[group]) {
      for (unsigned tensor : problem.operators[op].operands)
        add(facts.tensors[tensor].producer);
      for (unsigned tensor : problem.operators[op].results)
        for (const TensorUse &use : facts.tensors[tensor].uses)
          add(use.op);
    }
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
}
