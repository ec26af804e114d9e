//===- AxisPlanner.cpp - signatures along one axis --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AxisPlanner.h"
#include "tandem/Analysis/Bytes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Weights of the cost, in bytes sent
//===----------------------------------------------------------------------===//

/// A collective of any size costs at least as much as sending this.
static constexpr double kCollectiveLatency = 4096;
/// Joining strands stops the overlap of computation and communication.
static constexpr double kJoinCost = 1e9;
/// Summing gradients over a batch axis is due in any case; what is left of its
/// cost decides where it happens.
static constexpr double kGradientWeight = 1e-3;
/// Activations gathered over a batch axis undo the split of the batch: memory
/// and work of all that follows grow by the size of the axis.
static constexpr double kGatherBatchWeight = 4;
/// Cutting a slice out of a whole tensor costs no communication; far below the
/// work on the whole, so that slices move to where whole tensors come from.
static constexpr double kSliceWeight = 1e-9;
/// Work on whole tensors that could be split, per FLOP and per byte of traffic:
/// decides between plans of equal communication. Over time it is done once, but
/// in one piece, and its result is kept for all strands.
static constexpr double kRedundantFlop = 1e-6;
static constexpr double kRedundantByte = 1e-6;
static constexpr double kImpossible = 1e30;
/// Improvements below this share of the cost are rounding.
static constexpr double kEpsilon = 1e-13;
/// Costs that differ by less bytes are equal.
static constexpr double kEqualCost = 1e-6;

AxisPlanner::AxisPlanner(StepGraph &graph, unsigned axis,
                         const AxisPolicy &policy)
    : graph(graph), axis(axis), policy(policy),
      size(graph.mesh.getSize(axis)), isTime(graph.mesh.isTime(axis)),
      candidates(graph.ops.size()), demands(graph.values.size()),
      forms(graph.values.size()), isGradient(graph.values.size()) {}

void AxisPlanner::run() {
  findCandidates();
  addDemandsOfResults();
  chooseGreedily();
  constexpr int kMaxSweeps = 50;
  for (int i = 0; i < kMaxSweeps; ++i) {
    bool backwards = sweep(true), onwards = sweep(false);
    if (!backwards && !onwards)
      break;
  }
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

bool AxisPlanner::isAllowedOperand(const OpNode &op, unsigned operand,
                                   AxisForm form) const {
  unsigned value = op.operands[operand];
  int argument = graph.values[value].viewOf;
  if (argument < 0 || graph.arguments[argument].role != Role::Parameter ||
      policy.isFree[argument])
    return true;
  if (policy.keepStored[argument]) {
    auto kept = graph.getViewForm(
        value, graph.arguments[argument].forms[axis], size);
    return !kept || form == *kept;
  }
  return op.isView || form.isFull() || !(isTime || policy.isBatchAxis);
}

bool AxisPlanner::isAllowed(const OpNode &op,
                            const Signature &signature) const {
  auto isReduce = [](AxisForm form) { return form.isReduce(); };
  auto isFull = [](AxisForm form) { return form.isFull(); };
  if (op.pass == PassKind::Update) {
    // A sum is finished before the update: once, however often it is used.
    if (llvm::any_of(signature.operands, isReduce) ||
        llvm::any_of(signature.results, isReduce))
      return false;
    // State is updated once, not per strand.
    return !isTime || (llvm::all_of(signature.operands, isFull) &&
                       llvm::all_of(signature.results, isFull));
  }
  for (auto [operand, form] : llvm::enumerate(signature.operands))
    if (!isAllowedOperand(op, operand, form))
      return false;
  return true;
}

bool AxisPlanner::isLinear(const OpNode &op, unsigned operand) const {
  return llvm::any_of(op.rule.linear, [&](const auto &group) {
    return llvm::is_contained(group, operand);
  });
}

void AxisPlanner::findCandidates() {
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    auto all = op.rule.enumerate(size);
    for (const Signature &signature : all)
      if (isAllowed(op, signature))
        candidates[index].push_back(signature);
    if (candidates[index].empty())
      candidates[index].push_back(all.front());
  }
  for (unsigned value = graph.values.size(); value-- > 0;)
    isGradient[value] =
        !graph.values[value].uses.empty() &&
        llvm::all_of(graph.values[value].uses, [&](Use use) {
          if (use.op == graph.ops.size())
            return true;
          const OpNode &op = graph.ops[use.op];
          return op.pass == PassKind::Update ||
                 (isLinear(op, use.operand) && isGradient[op.results[0]]);
        });
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

double AxisPlanner::getTimeCost(double bytes, AxisForm from, AxisForm to,
                                PassKind pass) const {
  if (from.isFull())
    return to.isGather() ? kSliceWeight * bytes : kImpossible;
  if (to.isReduce())
    return kImpossible;
  if (from.isReduce() && to.isFull() && pass == PassKind::Update)
    return kGradientWeight * bytes;
  return kJoinCost + bytes;
}

double AxisPlanner::getSpaceCost(double bytes, AxisForm from, AxisForm to,
                                 PassKind pass) const {
  if (from.isFull())
    return to.isGather() ? kSliceWeight * bytes : kImpossible;
  if (to.isReduce())
    return kImpossible;
  double share = double(size - 1) / size;
  if (from.isReduce()) {
    double cost =
        kCollectiveLatency + (to.isFull() ? 2 : 1) * share * bytes;
    bool isDue = policy.isBatchAxis && pass == PassKind::Update;
    return isDue ? kGradientWeight * cost : cost;
  }
  if (to.isGather())
    return kCollectiveLatency + share * bytes / size;
  double weight = policy.isBatchAxis ? kGatherBatchWeight : 1;
  return kCollectiveLatency + weight * share * bytes;
}

double AxisPlanner::getReformCost(unsigned value, AxisForm from, AxisForm to,
                                  PassKind pass) const {
  if (from == to)
    return 0;
  double bytes = graph.values[value].bytes;
  return isTime ? getTimeCost(bytes, from, to, pass)
                : getSpaceCost(bytes, from, to, pass);
}

double AxisPlanner::getValueCost(unsigned value) const {
  double cost = 0;
  for (const Demand &demand : demands[value])
    cost += getReformCost(value, forms[value], demand.form, demand.pass);
  return cost;
}

double AxisPlanner::getRedundancy(const OpNode &op,
                                  const Signature &signature) const {
  auto isWhole = [](AxisForm form) { return !form.isGather(); };
  if (!llvm::all_of(signature.operands, isWhole) ||
      !llvm::all_of(signature.results, isWhole))
    return 0;
  double traffic = 0;
  for (unsigned value : op.operands)
    traffic += graph.values[value].bytes;
  for (unsigned value : op.results)
    traffic += graph.values[value].bytes;
  return (kRedundantFlop * op.flops + kRedundantByte * traffic) *
         double(size - 1) / size;
}

double AxisPlanner::getLocalCost(unsigned index) const {
  const OpNode &op = graph.ops[index];
  double cost = getRedundancy(op, op.signatures[axis]);
  for (auto [operand, value] : llvm::enumerate(op.operands))
    if (!llvm::is_contained(ArrayRef(op.operands).take_front(operand), value))
      cost += getValueCost(value);
  for (unsigned value : op.results)
    cost += getValueCost(value);
  return cost;
}

/// What `signature` costs with the operands as they come, and the finishing of
/// sums, which the users of a result will want.
double AxisPlanner::getGreedyCost(unsigned index,
                                  const Signature &signature) const {
  const OpNode &op = graph.ops[index];
  double cost = 0;
  // Do not split what nobody asked to be split.
  auto isGather = [](AxisForm form) { return form.isGather(); };
  if (op.operands.empty() && llvm::any_of(signature.results, isGather))
    cost += 1;
  for (auto [value, form] : llvm::zip(op.operands, signature.operands)) {
    if (form == forms[value] || hasDemand(value, form, op.pass))
      continue;
    // Half an all-reduce now is followed by the other half: operators between
    // the two would work on slices, for which nothing speaks yet.
    AxisForm finished = forms[value].isReduce() ? AxisForm::full() : form;
    cost += getReformCost(value, forms[value], finished, op.pass);
    // Nor cut what is whole. Sums wait through views and additions, where they
    // may meet other sums, and are finished before anything else.
    if (forms[value].isFull() || op.isView || isa<nn::AddOp>(op.op))
      cost += 1;
  }
  for (auto [value, form] : llvm::zip(op.results, signature.results))
    if (form.isReduce())
      cost += getReformCost(value, form, AxisForm::full(),
                            isGradient[value] ? PassKind::Update : op.pass);
  return cost;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

void AxisPlanner::addDemand(unsigned value, AxisForm form, PassKind pass,
                            int change) {
  auto &list = demands[value];
  auto *it = llvm::find_if(list, [&](const Demand &demand) {
    return demand.form == form && demand.pass == pass;
  });
  if (it == list.end())
    it = list.insert(list.end(), {form, pass, 0});
  it->count += change;
  if (it->count == 0)
    list.erase(it);
}

bool AxisPlanner::hasDemand(unsigned value, AxisForm form,
                            PassKind pass) const {
  return llvm::any_of(demands[value], [&](const Demand &demand) {
    return demand.form == form && demand.pass == pass;
  });
}

void AxisPlanner::setSignature(unsigned index, unsigned candidate,
                               bool isFirst) {
  OpNode &op = graph.ops[index];
  if (!isFirst)
    for (auto [value, form] :
         llvm::zip(op.operands, op.signatures[axis].operands))
      addDemand(value, form, op.pass, -1);
  op.signatures[axis] = candidates[index][candidate];
  const Signature &signature = op.signatures[axis];
  for (auto [value, form] : llvm::zip(op.operands, signature.operands))
    addDemand(value, form, op.pass, 1);
  for (auto [value, form] : llvm::zip(op.results, signature.results))
    forms[value] = form;
}

void AxisPlanner::addDemandsOfResults() {
  for (unsigned i = 0; i < graph.arguments.size(); ++i)
    forms[i] = graph.arguments[i].forms[axis];
  for (auto [index, result] : llvm::enumerate(graph.results))
    addDemand(result.value, graph.getResultForm(index, axis), PassKind::Update,
              1);
}

void AxisPlanner::chooseGreedily() {
  for (unsigned index = 0; index < graph.ops.size(); ++index) {
    unsigned best = 0;
    double bestCost = 2 * kImpossible;
    for (unsigned i = 0; i < candidates[index].size(); ++i) {
      double cost = getGreedyCost(index, candidates[index][i]);
      if (cost >= bestCost)
        continue;
      best = i;
      bestCost = cost;
    }
    setSignature(index, best, /*isFirst=*/true);
  }
}

double AxisPlanner::getResultCost(unsigned index) const {
  double cost = 0;
  for (unsigned value : graph.ops[index].results)
    cost += getValueCost(value);
  return cost;
}

/// Takes the best signature of operator `index`. With `raises`, also one of
/// equal cost if a change of form thereby moves from the results to the
/// operands: it may meet an equal one there.
bool AxisPlanner::improve(unsigned index, bool raises) {
  unsigned count = candidates[index].size();
  if (count < 2)
    return false;
  const auto &all = candidates[index];
  unsigned current = llvm::find(all, graph.ops[index].signatures[axis]) -
                     all.begin();
  unsigned best = current;
  double bestCost = getLocalCost(index), bestResults = getResultCost(index);
  for (unsigned i = 0; i < count; ++i) {
    if (i == current)
      continue;
    setSignature(index, i);
    double cost = getLocalCost(index), results = getResultCost(index);
    bool isBetter = cost < bestCost - kEpsilon * bestCost;
    bool isHigher = raises && cost <= bestCost + kEqualCost &&
                    results < bestResults - 1;
    if (!isBetter && !isHigher)
      continue;
    best = i;
    bestCost = cost;
    bestResults = results;
  }
  setSignature(index, best);
  return best != current;
}

bool AxisPlanner::sweep(bool backwards) {
  bool changed = false;
  unsigned count = graph.ops.size();
  for (unsigned i = 0; i < count; ++i)
    changed |= improve(backwards ? count - 1 - i : i, /*raises=*/backwards);
  return changed;
}
