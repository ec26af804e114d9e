//===- AxisCost.cpp - what forms on one axis cost -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AxisPlanner.h"
#include "tandem/Analysis/Bytes.h"
#include "llvm/ADT/SmallSet.h"

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
//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

double AxisPlanner::getTimeCost(double bytes, AxisForm from, AxisForm to,
                                Wanter wanter) const {
  if (from.isFull())
    return to.isGather() ? kSliceWeight * bytes : kImpossible;
  if (to.isReduce())
    return kImpossible;
  if (from.isReduce() && to.isFull() && wanter == Wanter::DueEarly)
    return 2 * kGradientWeight * bytes;
  // Results and updates come behind all strands: they join nothing. Nor do rows
  // of which results are made; a sum may be one that strands read as well.
  if (to.isFull() && (wanter >= Wanter::Update ||
                      (wanter == Wanter::Behind && from.isGather())))
    return kGradientWeight * bytes;
  return kJoinCost + bytes;
}

double AxisPlanner::getSpaceCost(double bytes, AxisForm from, AxisForm to,
                                 Wanter wanter) const {
  // In an update, one term of a sum may be whole: one point keeps it.
  if (from.isFull())
    return to.isGather() || wanter >= Wanter::Update ? kSliceWeight * bytes
                                                     : kImpossible;
  if (to.isReduce())
    return kImpossible;
  double share = double(size - 1) / size;
  if (from.isReduce()) {
    double cost = kCollectiveLatency + (to.isFull() ? 2 : 1) * share * bytes;
    // Early is dearer, so that it is chosen only where it must be.
    if (wanter == Wanter::DueEarly)
      return 2 * kGradientWeight * cost;
    return wanter == Wanter::Due ? kGradientWeight * cost : cost;
  }
  if (to.isGather())
    return kCollectiveLatency + share * bytes / size;
  double weight = policy.isBatchAxis ? kGatherBatchWeight : 1;
  return kCollectiveLatency + weight * share * bytes;
}

/// How often operand `operand` of operator `index` changes form: per strand,
/// but once where it is wanted full over time (a sum is finished there first).
int64_t AxisPlanner::countCopies(unsigned index, unsigned operand) const {
  int64_t count = 1;
  for (unsigned other = graph.mesh.getNumSpaceAxes();
       other < graph.mesh.getNumAxes(); ++other)
    if (other != axis &&
        !graph.ops[index].signatures[other].operands[operand].isFull())
      count *= graph.mesh.getSize(other);
  return count;
}

AxisPlanner::Demand AxisPlanner::getDemand(unsigned index, unsigned operand,
                                           AxisForm form) const {
  return {form, getWanter(index), countCopies(index, operand)};
}

double AxisPlanner::getReformCost(unsigned value, AxisForm from,
                                  const Demand &demand) const {
  if (from == demand.form)
    return 0;
  double bytes = graph.values[value].bytes;
  if (isTime)
    return getTimeCost(bytes, from, demand.form, demand.wanter);
  return demand.copies * getSpaceCost(bytes, from, demand.form, demand.wanter);
}

double AxisPlanner::getValueCost(unsigned value) const {
  double cost = 0;
  for (const Demand &demand : demands[value])
    if (!isMetInForward(value, demand))
      cost += getReformCost(value, forms[value], demand);
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

double AxisPlanner::getCost(const Choices &choices) const {
  double cost = 0;
  llvm::SmallSet<unsigned, 8> counted;
  for (auto [index, candidate] : choices) {
    const OpNode &op = graph.ops[index];
    cost += getRedundancy(op, op.signatures[axis]);
    for (const auto *values : {&op.operands, &op.results})
      for (unsigned value : *values)
        if (counted.insert(value).second)
          cost += getValueCost(value);
  }
  return cost;
}

double AxisPlanner::getResultCost(unsigned index) const {
  double cost = 0;
  for (unsigned value : graph.ops[index].results)
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
  for (unsigned i = 0; i < op.operands.size(); ++i) {
    unsigned value = op.operands[i];
    Demand demand = getDemand(index, i, signature.operands[i]);
    if (demand.form == forms[value] || hasDemand(value, demand) ||
        isMetInForward(value, demand))
      continue;
    // What is whole joins a sum for nothing.
    if (demand.form.isReduce()) {
      cost += getReformCost(value, forms[value], demand);
      continue;
    }
    // Half an all-reduce now is followed by the other half: operators between
    // the two would work on slices, for which nothing speaks yet.
    if (forms[value].isReduce()) {
      demand.form = AxisForm::full();
      // But a sum in the update is one of what the update has.
      if (op.pass == PassKind::Update && feedsSum[index] &&
          signature.operands[i] != storedForms[value])
        cost += 0.5;
    }
    cost += getReformCost(value, forms[value], demand);
    // Nor cut what is whole. Sums wait through views and additions, where they
    // may meet other sums, and are finished before anything else.
    if (forms[value].isFull() || op.isView || isa<nn::AddOp, CarryOp>(op.op))
      cost += 1;
  }
  for (auto [value, form] : llvm::zip(op.results, signature.results))
    if (form.isReduce())
      cost += getReformCost(value, form,
                            {AxisForm::full(),
                             gradients[value].value_or(getWanter(index)),
                             op.operands.empty() ? 1 : countCopies(index, 0)});
  return cost;
}
