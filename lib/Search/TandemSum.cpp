//===- TandemSum.cpp - problems whose costs add up ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemSum.h"
#include "tandem/Cost/Slots.h"
#include <algorithm>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
                   const std::vector<std::vector<unsigned>> &values)
    : facts(facts), changes(table), variableOf(facts.problem.operators.size()),
      maxEntries(maxEntries) {
  Interference interference(facts.problem);
  beta = interference.beta;
  gamma = interference.beta < 1 ? interference.gamma : 1;
  addVariables(values);
  for (unsigned tensor = 0; tensor < facts.tensors.size() && complete; ++tensor)
    if (!facts.tensors[tensor].uses.empty())
      complete = addFactor(tensor);
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

void SumModel::addVariables(const std::vector<std::vector<unsigned>> &values) {
  double dearest = 0;
  for (unsigned op = 0; op < variableOf.size(); ++op) {
    const SignatureSet &signatures = facts.problem.getSignatures(op);
    double most = 0;
    for (const Signature &signature : signatures)
      most = std::max(most, signature.seconds);
    dearest += most;
    if (facts.groupOf[op] != op) {
      variableOf[op] = variableOf[facts.groupOf[op]];
      variables[variableOf[op]].operators.push_back(op);
      continue;
    }
    variableOf[op] = variables.size();
    SumVariable &variable = variables.emplace_back();
    variable.operators = {op};
    if (!values.empty())
      variable.values = values[variableOf[op]];
    else
      for (unsigned i = 0; i < signatures.size(); ++i)
        variable.values.push_back(i);
  }
  forbidden = 1 + 100 * dearest;
}

bool SumModel::mayWait(unsigned tensor, const TensorUse &use) const {
  const TensorFacts &info = facts.tensors[tensor];
  return facts.problem.operators[use.op].pass == Pass::Update &&
         !facts.isArgument(info.producer) &&
         facts.problem.operators[info.producer].pass != Pass::Update;
}

/// Slots are variables: of one that uses the tensor twice, both layouts are
/// decided at once.
std::vector<SumModel::Role> SumModel::addSlots(SumFactor &factor) {
  const TensorFacts &info = facts.tensors[factor.tensor];
  std::vector<std::vector<std::pair<unsigned, int>>> wanted; // per slot
  std::vector<Role> order;
  auto addRole = [&](unsigned op, int operand, bool waits) {
    unsigned variable = variableOf[op];
    auto place =
        std::find(factor.variables.begin(), factor.variables.end(), variable);
    unsigned slot = place - factor.variables.begin();
    if (place == factor.variables.end()) {
      factor.variables.push_back(variable);
      wanted.emplace_back();
    }
    order.push_back({slot, static_cast<unsigned>(wanted[slot].size()), waits});
    wanted[slot].emplace_back(op, operand);
  };
  addRole(info.producer, -1, false);
  for (const TensorUse &use : info.uses)
    addRole(use.op, static_cast<int>(use.operand), mayWait(factor.tensor, use));
  for (unsigned slot = 0; slot < wanted.size(); ++slot) {
    std::vector<SumRoles> &roles = factor.roles.emplace_back();
    std::vector<unsigned> &indices = factor.roleOf.emplace_back();
    std::map<SumRoles, unsigned> known;
    for (unsigned value : variables[factor.variables[slot]].values) {
      SumRoles own;
      for (auto [op, operand] : wanted[slot]) {
        const Signature &signature = facts.problem.getSignatures(op)[value];
        own.push_back(operand < 0 ? signature.results[info.result]
                                  : signature.operands[operand]);
      }
      auto [entry, isNew] = known.try_emplace(own, roles.size());
      if (isNew)
        roles.push_back(std::move(own));
      indices.push_back(entry->second);
    }
  }
  return order;
}

bool SumModel::addFactor(unsigned tensor) {
  SumFactor factor;
  factor.tensor = tensor;
  std::vector<Role> order = addSlots(factor);
  // What the table depends on.
  const Tensor &data = facts.problem.tensors[tensor];
  std::vector<int64_t> key(data.shape);
  key.push_back(data.elementBytes);
  for (const Role &role : order) {
    key.push_back(role.slot);
    key.push_back(role.mayWait);
  }
  for (const std::vector<SumRoles> &roles : factor.roles) {
    key.push_back(-1 - static_cast<int64_t>(roles.size()));
    for (const SumRoles &own : roles)
      for (const Layout &layout : own)
        key.push_back(layout.getKey());
  }
  auto [place, isNew] = tableOf.try_emplace(std::move(key), tables.size());
  factor.table = place->second;
  if (isNew && !fillTable(factor, order))
    return false;
  for (unsigned slot = 0; slot < factor.variables.size(); ++slot)
    variables[factor.variables[slot]].slots.emplace_back(factors.size(), slot);
  factors.push_back(std::move(factor));
  return true;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

bool SumModel::fillTable(const SumFactor &factor,
                         const std::vector<Role> &order) {
  SumTable &table = tables.emplace_back();
  uint64_t size = 1;
  for (const std::vector<SumRoles> &roles : factor.roles) {
    table.sizes.push_back(roles.size());
    size *= roles.size();
    if (numEntries + size > maxEntries)
      return false;
  }
  numEntries += size;
  // Layouts by number, and seconds between them.
  std::map<Layout, unsigned> numberOf;
  std::vector<Layout> layouts;
  for (const std::vector<SumRoles> &roles : factor.roles)
    for (const SumRoles &own : roles)
      for (const Layout &layout : own)
        if (numberOf.try_emplace(layout, layouts.size()).second)
          layouts.push_back(layout);
  numLayouts = layouts.size();
  distances.clear();
  for (const Layout &from : layouts)
    for (const Layout &to : layouts) {
      const ChangeCost &change = changes.getCost(factor.tensor, from, to);
      distances.push_back(from == to ? 0
                          : change.isPossible
                              ? change.getTotal(facts.numStrands)
                              : forbidden);
    }
  bool waits = std::any_of(order.begin(), order.end(),
                           [](const Role &role) { return role.mayWait; });
  table.made.reserve(size);
  if (waits)
    table.waiting.reserve(size);
  std::vector<unsigned> place(table.sizes.size()), chosen(order.size()), copies;
  for (uint64_t entry = 0; entry < size; ++entry) {
    for (unsigned i = 0; i < order.size(); ++i)
      chosen[i] = numberOf[factor.roles[order[i].slot][place[order[i].slot]]
                                       [order[i].index]];
    addEntry(table, chosen, order, copies);
    for (unsigned slot = place.size(); slot-- > 0;) {
      if (++place[slot] < table.sizes[slot])
        break;
      place[slot] = 0;
    }
  }
  return true;
}

/// Copies are made in the order of their first uses, from what was there. One
/// that may wait starts from what was produced; where another source would be
/// cheaper, the lesser seconds at the lesser price are charged, which no choice
/// undercuts.
void SumModel::addEntry(SumTable &table, const std::vector<unsigned> &layouts,
                        const std::vector<Role> &order,
                        std::vector<unsigned> &copies) const {
  double made = 0, waiting = 0;
  copies.assign(1, layouts.front());
  for (size_t i = 1; i < layouts.size(); ++i) {
    unsigned wanted = layouts[i];
    if (std::find(copies.begin(), copies.end(), wanted) != copies.end())
      continue;
    double least = kInfinity;
    for (unsigned from : copies)
      least = std::min(least, distances[from * numLayouts + wanted]);
    (order[i].mayWait && least < forbidden ? waiting : made) += least;
    copies.push_back(wanted);
  }
  table.made.push_back(std::min(made, forbidden));
  if (table.waiting.capacity() > 0)
    table.waiting.push_back(waiting);
}

uint64_t SumModel::getEntryOf(const SumFactor &factor,
                              const std::vector<unsigned> &choice) const {
  const SumTable &table = tables[factor.table];
  uint64_t entry = 0;
  for (unsigned slot = 0; slot < factor.variables.size(); ++slot)
    entry = entry * table.sizes[slot] +
            factor.roleOf[slot][choice[factor.variables[slot]]];
  return entry;
}

//===----------------------------------------------------------------------===//
// Prices
//===----------------------------------------------------------------------===//

SumPrices SumModel::getPrices(unsigned t) const {
  SumPrices prices;
  for (unsigned op = 0; op < variableOf.size(); ++op) {
    bool isUpdate = facts.problem.operators[op].pass == Pass::Update;
    prices.computation.push_back(op > t && !isUpdate ? gamma : 1);
    prices.waiting.push_back(op >= t ? 1 : beta);
  }
  return prices;
}

double SumModel::getUnary(const SumPrices &prices, unsigned variable,
                          unsigned value) const {
  double sum = 0;
  unsigned signature = variables[variable].values[value];
  for (unsigned op : variables[variable].operators)
    if (!facts.isArgument(op))
      sum += prices.computation[op] *
             facts.problem.getSignatures(op)[signature].seconds;
  return sum;
}

double SumModel::getCost(const SumPrices &prices,
                         const std::vector<unsigned> &choice) const {
  double sum = 0;
  for (unsigned i = 0; i < variables.size(); ++i)
    sum += getUnary(prices, i, choice[i]);
  for (unsigned i = 0; i < factors.size(); ++i)
    sum += getEntry(prices, i, getEntryOf(factors[i], choice));
  return sum;
}

unsigned SumModel::getWorst(const std::vector<unsigned> &choice) const {
  unsigned numOperators = variableOf.size();
  std::vector<double> waiting(numOperators), room(numOperators);
  for (const SumFactor &factor : factors)
    if (const SumTable &table = tables[factor.table]; !table.waiting.empty())
      waiting[facts.tensors[factor.tensor].producer] +=
          table.waiting[getEntryOf(factor, choice)];
  for (unsigned i = 0; i < variables.size(); ++i)
    for (unsigned op : variables[i].operators)
      if (!facts.isArgument(op) &&
          facts.problem.operators[op].pass != Pass::Update)
        room[op] =
            facts.problem.getSignatures(op)[variables[i].values[choice[i]]]
                .seconds;
  // What waits beyond the room behind t: (1 - beta) W(t) - (1 - gamma) P(t).
  unsigned worst = numOperators;
  double left = 0, most = 0;
  for (unsigned t = numOperators; t-- > 0;) {
    left += (1 - beta) * waiting[t];
    if (waiting[t] > 0 && left > most) {
      most = left;
      worst = t;
    }
    left -= (1 - gamma) * room[t];
  }
  return worst;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

std::optional<std::vector<unsigned>>
SumModel::getChoice(const std::vector<unsigned> &signatures) const {
  std::vector<unsigned> choice;
  for (const SumVariable &variable : variables) {
    auto place = std::find(variable.values.begin(), variable.values.end(),
                           signatures[variable.operators.front()]);
    if (place == variable.values.end())
      return std::nullopt;
    choice.push_back(place - variable.values.begin());
  }
  return choice;
}

/// Keeps copies up to the last pass that takes them or makes others of them.
void SumModel::addCopies(Plan &plan, unsigned index) const {
  const SumFactor &factor = factors[index];
  const TensorFacts &info = facts.tensors[factor.tensor];
  auto getPass = [&](const TensorUse &use) {
    return facts.problem.operators[use.op].pass;
  };
  struct Made {
    Layout layout;
    Pass pass, last;
  };
  Layout produced =
      facts.problem.getSignatures(info.producer)[plan.signatures[info.producer]]
          .results[info.result];
  std::vector<Made> copies;
  for (const TensorUse &use : info.uses) {
    Layout wanted = facts.problem.getSignatures(use.op)[plan.signatures[use.op]]
                        .operands[use.operand];
    Pass pass = getPass(use);
    auto known =
        std::find_if(copies.begin(), copies.end(),
                     [&](const Made &copy) { return copy.layout == wanted; });
    if (known != copies.end())
      known->last = pass;
    if (wanted == produced || known != copies.end())
      continue;
    double direct = changes.getCost(factor.tensor, produced, wanted)
                        .getTotal(facts.numStrands),
           least = direct;
    Made *source = nullptr;
    for (Made &copy : copies) {
      const ChangeCost &change =
          changes.getCost(factor.tensor, copy.layout, wanted);
      if (change.isPossible && change.getTotal(facts.numStrands) < least) {
        least = change.getTotal(facts.numStrands);
        source = &copy;
      }
    }
    if (source)
      source->last = pass;
    else if (mayWait(factor.tensor, use) && direct > 0)
      plan.waiting.push_back({factor.tensor, wanted, pass});
    copies.push_back({wanted, pass, pass});
  }
  std::set<Pass> passes;
  for (const TensorUse &use : info.uses)
    passes.insert(getPass(use));
  for (const Made &copy : copies)
    for (Pass pass : passes)
      if (pass >= copy.pass && pass < copy.last)
        plan.kept.push_back({factor.tensor, copy.layout, pass});
}

Plan SumModel::getPlan(const std::vector<unsigned> &choice) {
  Plan plan;
  for (unsigned op = 0; op < variableOf.size(); ++op) {
    unsigned variable = variableOf[op];
    plan.signatures.push_back(variables[variable].values[choice[variable]]);
    if (!facts.isArgument(op))
      plan.stageEnds.push_back(op + 1);
  }
  plan.stageEnds.back() = variableOf.size();
  for (unsigned i = 0; i < factors.size(); ++i)
    addCopies(plan, i);
  std::sort(plan.kept.begin(), plan.kept.end());
  std::sort(plan.waiting.begin(), plan.waiting.end());
  return plan;
}
