//===- Sum.cpp - additive problems ----------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Sums/Sum.h"
#include "Tandem/Limits.h"
#include "tandem/Cost/Slots.h"
#include <algorithm>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::search;

bool SumModel::isSum(const Facts &facts) {
  if (facts.problem.getNumQueues() > 1)
    return false;
  auto isOver = [&](const Signature &signature) {
    return facts.isPerStrand(signature);
  };
  return std::none_of(facts.problem.signatureSets.begin(),
                      facts.problem.signatureSets.end(),
                      [&](const SignatureSet &set) {
                        return std::any_of(set.begin(), set.end(), isOver);
                      });
}

SumModel::SumModel(const Facts &facts, ChangeTable &table, uint64_t maxEntries,
                   std::vector<unsigned> stages, double ceiling,
                   std::function<bool()> proceeds)
    : facts(facts), changes(table), maxEntries(maxEntries),
      fillWork(std::move(proceeds)), stageEnds(std::move(stages)) {
  Interference interference(facts.problem);
  beta = interference.beta;
  gamma = interference.beta < 1 ? interference.gamma : 1;
  addStages();
  addVariables();
  forbidden = std::min(forbidden, kForbidden * ceiling);
  addRooms();
  for (unsigned tensor = 0; tensor < facts.tensors.size() && complete; ++tensor)
    if (!facts.tensors[tensor].uses.empty())
      complete = addFactor(tensor);
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

SumModel::SumModel(const SumModel &other,
                   const std::vector<std::vector<unsigned>> &values,
                   const std::vector<Takes> &takes)
    : facts(other.facts), numOrigins(other.numOrigins),
      forbidden(other.forbidden), numStages(other.numStages),
      rooms(other.rooms), changes(other.changes), maxEntries(other.maxEntries),
      beta(other.beta), gamma(other.gamma), stageEnds(other.stageEnds),
      stageOf(other.stageOf) {
  for (unsigned i = 0; i < values.size(); ++i) {
    variables.push_back(other.variables[i]);
    variables.back().values = values[i];
  }
  for (unsigned i = 0; i < takes.size(); ++i)
    rooms[i].takes = takes[i];
  addRooms();
  std::map<std::vector<unsigned>, unsigned> known;
  for (unsigned i = 0; i < other.factors.size(); ++i)
    restrictFactor(other, i, known);
}

void SumModel::restrictFactor(
    const SumModel &other, unsigned index,
    std::map<std::vector<unsigned>, unsigned> &known) {
  const SumFactor &before = other.factors[index];
  SumFactor factor;
  factor.tensor = before.tensor;
  std::vector<std::vector<unsigned>> kept;
  std::vector<unsigned> key = {before.table}, numberOf;
  for (const SumSlot &whole : before.slots) {
    const std::vector<unsigned> &all = other.variables[whole.variable].values;
    std::vector<unsigned> &own = kept.emplace_back();
    SumSlot &slot = factor.slots.emplace_back();
    slot.variable = whole.variable;
    numberOf.assign(whole.origins.size(), ~0u);
    size_t place = 0;
    for (unsigned value : variables[slot.variable].values) {
      while (all[place] != value)
        ++place;
      unsigned role = whole.roleOf[place];
      if (numberOf[role] == ~0u) {
        numberOf[role] = own.size();
        own.push_back(role);
        slot.origins.push_back(whole.origins[role]);
      }
      slot.roleOf.push_back(numberOf[role]);
    }
    key.insert(key.end(), own.begin(), own.end());
    key.push_back(~0u);
  }
  auto [entry, isNew] = known.try_emplace(std::move(key), tables.size());
  if (isNew)
    tables.push_back(other.tables[before.table].restrict(kept));
  factor.table = entry->second;
  factors.push_back(std::move(factor));
}

SumTable
    SumTable::restrict(const std::vector<std::vector<unsigned>> &kept) const {
  SumTable result;
  result.waits = waits;
  for (const std::vector<unsigned> &roles : kept)
    result.sizes.push_back(roles.size());
  if (chain) {
    result.chain = chain->restrict(kept);
    return result;
  }
  std::vector<uint64_t> places = {0}, next;
  for (size_t slot = 0; slot < kept.size(); ++slot) {
    next.clear();
    for (uint64_t place : places)
      for (unsigned role : kept[slot])
        next.push_back(place * sizes[slot] + role);
    places.swap(next);
  }
  result.made.reserve(places.size());
  for (uint64_t place : places)
    result.made.push_back(made[place]);
  if (waits)
    for (uint64_t place : places)
      result.waiting.push_back(waiting[place]);
  return result;
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

void SumModel::addVariables() {
  double dearest = 0;
  for (unsigned op = 0; op < facts.problem.operators.size(); ++op) {
    double most = 0;
    for (const Signature &signature : facts.problem.getSignatures(op))
      most = std::max(most, signature.seconds);
    dearest += most;
  }
  for (const std::vector<unsigned> &group : facts.groups) {
    SumVariable &variable = variables.emplace_back();
    variable.operators = group;
    variable.values.resize(facts.problem.getSignatures(group.front()).size());
    std::iota(variable.values.begin(), variable.values.end(), 0);
  }
  forbidden = 1 + kSumForbidden * dearest;
}

void SumModel::addStages() {
  unsigned stage = 0;
  for (unsigned op = 0; op < facts.groupOf.size(); ++op) {
    if (!stageEnds.empty() && op == stageEnds[stage])
      ++stage;
    stageOf.push_back(stageEnds.empty() ? op : stage);
  }
  numStages = stageEnds.empty() ? facts.groupOf.size() : stageEnds.size();
  rooms.resize(numStages);
}

bool SumModel::mayWait(unsigned tensor, const TensorUse &use) const {
  return facts.problem.operators[use.op].pass == Pass::Update &&
         facts.mayWait(tensor);
}

/// Slots are variables: of one that uses the tensor twice, both layouts are
/// decided at once.
std::vector<SumModel::Role> SumModel::addSlots(SumFactor &factor,
                                               AllRoles &roles) {
  const TensorFacts &info = facts.tensors[factor.tensor];
  std::vector<std::vector<std::pair<unsigned, int>>> wanted; // per slot
  std::vector<Role> order;
  unsigned stage = ~0u; // of the role before
  auto addRole = [&](unsigned op, int operand, bool waits) {
    unsigned variable = facts.groupOf[op];
    auto place = std::find_if(
        factor.slots.begin(), factor.slots.end(),
        [&](const SumSlot &slot) { return slot.variable == variable; });
    unsigned slot = place - factor.slots.begin();
    if (place == factor.slots.end()) {
      factor.slots.push_back({variable, {}, {}});
      wanted.emplace_back();
    }
    order.push_back({slot, static_cast<unsigned>(wanted[slot].size()), waits,
                     stageOf[op] != stage});
    wanted[slot].emplace_back(op, operand);
    stage = facts.isArgument(op) ? ~0u : stageOf[op];
  };
  addRole(info.producer, -1, false);
  for (const TensorUse &use : info.uses)
    addRole(use.op, static_cast<int>(use.operand), mayWait(factor.tensor, use));
  for (unsigned i = 0; i < wanted.size(); ++i) {
    SumSlot &slot = factor.slots[i];
    std::vector<SumRoles> &all = roles.emplace_back();
    std::map<SumRoles, unsigned> known;
    for (unsigned value : variables[slot.variable].values) {
      SumRoles own;
      for (auto [op, operand] : wanted[i]) {
        const Signature &signature = facts.problem.getSignatures(op)[value];
        own.push_back(operand < 0 ? signature.results[info.result]
                                  : signature.operands[operand]);
      }
      auto [entry, isNew] = known.try_emplace(own, all.size());
      if (isNew) {
        all.push_back(std::move(own));
        slot.origins.push_back(numOrigins++);
      }
      slot.roleOf.push_back(entry->second);
    }
  }
  return order;
}

bool SumModel::addFactor(unsigned tensor) {
  SumFactor factor;
  factor.tensor = tensor;
  AllRoles all;
  std::vector<Role> order = addSlots(factor, all);
  // What the table depends on.
  const Tensor &data = facts.problem.tensors[tensor];
  std::vector<int64_t> key(data.shape);
  key.push_back(data.elementBytes);
  key.push_back(data.times);
  for (const Role &role : order) {
    key.push_back(role.slot);
    key.push_back(role.mayWait);
    key.push_back(role.beginsStage);
  }
  for (const std::vector<SumRoles> &roles : all) {
    key.push_back(-1 - static_cast<int64_t>(roles.size()));
    for (const SumRoles &own : roles)
      for (const Layout &layout : own)
        key.push_back(layout.getKey());
  }
  auto [place, isNew] = tableOf.try_emplace(std::move(key), tables.size());
  factor.table = place->second;
  if (isNew && !fillTable(tensor, all, order))
    return false;
  for (unsigned slot = 0; slot < factor.slots.size(); ++slot)
    variables[factor.slots[slot].variable].slots.emplace_back(factors.size(),
                                                              slot);
  factors.push_back(std::move(factor));
  return true;
}
