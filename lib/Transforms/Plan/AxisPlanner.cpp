//===- AxisPlanner.cpp - signatures along one axis ------------------------===//
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

AxisPlanner::AxisPlanner(StepGraph &graph, unsigned axis,
                         const AxisPolicy &policy)
    : graph(graph), axis(axis), policy(policy), size(graph.mesh.getSize(axis)),
      isTime(graph.mesh.isTime(axis)), candidates(graph.ops.size()),
      demands(graph.values.size()), forms(graph.values.size()),
      gradients(graph.values.size()), changedAt(graph.values.size()),
      isDue(graph.ops.size()), isBehind(graph.ops.size()),
      storedForms(graph.values.size()), feedsSum(graph.ops.size()) {
  settledAt.fill(std::vector<uint64_t>(graph.ops.size()));
}

void AxisPlanner::run() {
  findCandidates();
  findDueUpdates();
  findBehind();
  findGradients();
  findStoredForms();
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
    auto kept =
        graph.getViewForm(value, graph.arguments[argument].forms[axis], size);
    return !kept || form == *kept;
  }
  // What repeats a parameter (a token for each sample) may have the batch.
  auto type = cast<RankedTensorType>(graph.values[value].value.getType());
  bool repeats =
      type.getNumElements() > graph.arguments[argument].type.getNumElements();
  if (form.isFull() || repeats || !(isTime || policy.isBatchAxis))
    return true;
  // A view may keep what is stored in pieces; no other split is asked for.
  return op.isView &&
         form == graph.getViewForm(value, graph.arguments[argument].forms[axis],
                                   size);
}

bool AxisPlanner::isAllowed(const OpNode &op,
                            const Signature &signature) const {
  auto isFull = [](AxisForm form) { return form.isFull(); };
  // What iterations add up has one buffer, not one per strand.
  if (isTime && isa<CarryOp>(op.op))
    return llvm::all_of(signature.results, isFull);
  if (op.pass == PassKind::Update) {
    // A sum that comes to the update is finished before it: once, however often
    // it is used. One that the update makes may wait.
    for (auto [value, form] : llvm::zip(op.operands, signature.operands))
      if (form.isReduce() && !graph.values[value].isSummedInUpdate)
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

/// Whether `op` hands on a sum that operand `operand` brings, as it is but for
/// its shape, other terms and scalar factors.
bool AxisPlanner::passesSum(const OpNode &op, unsigned operand) const {
  bool isLinear = llvm::any_of(op.rule.linear, [&](const auto &group) {
    return llvm::is_contained(group, operand);
  });
  auto isScalar = [&](unsigned value) {
    return cast<RankedTensorType>(graph.values[value].value.getType())
               .getRank() == 0;
  };
  if (isa<nn::MulOp, nn::DivOp>(op.op))
    return isLinear && isScalar(op.operands[1 - operand]);
  return isLinear &&
         (op.isView || isa<CarryOp>(op.op) || op.op->hasTrait<nn::Sums>());
}

void AxisPlanner::findCandidates() {
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    if (!policy.fixed.empty() && policy.fixed[index]) {
      candidates[index].push_back(*policy.fixed[index]);
      continue;
    }
    auto all = op.rule.enumerate(size);
    const Signature full = all.front();
    llvm::erase_if(all, [&](const Signature &signature) {
      return !graph.obeysPins(op, signature, axis);
    });
    for (const Signature &signature : all)
      if (isAllowed(op, signature))
        candidates[index].push_back(signature);
    if (candidates[index].empty())
      candidates[index].push_back(all.empty() ? full : all.front());
  }
}

/// Over a batch axis, the sum of what result `index` comes from is due: not for
/// what is stored in pieces although its gradient could be whole (experts).
bool AxisPlanner::isDueResult(unsigned index) const {
  return isTime ||
         (policy.isBatchAxis && (policy.scattersGradients ||
                                 graph.getResultForm(index, axis).isFull()));
}

void AxisPlanner::findDueUpdates() {
  for (unsigned index = graph.ops.size(); index-- > 0;) {
    const OpNode &op = graph.ops[index];
    auto isDueUse = [&](Use use) {
      return use.op == graph.ops.size() ? isDueResult(use.operand)
                                        : bool(isDue[use.op]);
    };
    isDue[index] = op.pass == PassKind::Update &&
                   llvm::all_of(op.results, [&](unsigned value) {
                     return llvm::all_of(graph.values[value].uses, isDueUse);
                   });
  }
}

/// A maximum that is returned and that nothing else reads joins no strands, as
/// the rows beside it that are returned do not. What is carried is of one
/// iteration, and the next one waits for it.
void AxisPlanner::findBehind() {
  if (!isTime)
    return;
  for (unsigned index = graph.ops.size(); index-- > 0;) {
    const OpNode &op = graph.ops[index];
    auto isBehindUse = [&](Use use) {
      return use.op == graph.ops.size() || isBehind[use.op];
    };
    isBehind[index] =
        op.pass == PassKind::Forward && !isa<CarryOp>(op.op) &&
        llvm::all_of(op.results, [&](unsigned value) {
          return llvm::all_of(graph.values[value].uses, isBehindUse);
        });
  }
}

void AxisPlanner::findStoredForms() {
  for (unsigned value = graph.values.size(); value-- > 0;) {
    const ValueNode &node = graph.values[value];
    for (Use use : node.uses) {
      if (use.op == graph.ops.size()) {
        storedForms[value] = graph.getResultForm(use.operand, axis);
        continue;
      }
      if (graph.ops[use.op].pass != PassKind::Update)
        continue;
      const ValueNode &made = graph.values[graph.ops[use.op].results[0]];
      if (node.producer >= 0)
        feedsSum[node.producer] = feedsSum[node.producer] ||
                                  made.isSummedInUpdate || feedsSum[use.op];
      auto getShape = [](const ValueNode &of) {
        return cast<RankedTensorType>(of.value.getType()).getShape();
      };
      if (AxisForm form = storedForms[graph.ops[use.op].results[0]];
          form.isGather() && getShape(made) == getShape(node))
        storedForms[value] = form;
    }
  }
}

void AxisPlanner::findGradients() {
  for (unsigned value = graph.values.size(); value-- > 0;) {
    std::optional<Wanter> last;
    bool ends = !graph.values[value].uses.empty();
    for (Use use : graph.values[value].uses) {
      std::optional<Wanter> wanter;
      if (use.op == graph.ops.size())
        wanter = getResultWanter(use.operand);
      else if (graph.ops[use.op].pass == PassKind::Update)
        wanter = getWanter(use.op);
      else if (passesSum(graph.ops[use.op], use.operand))
        wanter = gradients[graph.ops[use.op].results[0]];
      ends &= wanter.has_value();
      last = std::min(last.value_or(Wanter::Due), wanter.value_or(Wanter::Due));
    }
    if (ends)
      gradients[value] = last;
  }
}

/// Whether `index` adds, in the backward pass, to a gradient what is whole (the
/// gradient of a penalty): the sum that is due must be finished here.
bool AxisPlanner::isGradientSum(unsigned index) const {
  const OpNode &op = graph.ops[index];
  return isa<nn::AddOp>(op.op) && gradients[op.results[0]] == Wanter::Due;
}

AxisPlanner::Wanter AxisPlanner::getResultWanter(unsigned index) const {
  return isDueResult(index) ? Wanter::Due : Wanter::Update;
}

AxisPlanner::Wanter AxisPlanner::getWanter(unsigned index) const {
  switch (graph.ops[index].pass) {
  case PassKind::Forward:
    return isBehind[index] ? Wanter::Behind : Wanter::Forward;
  case PassKind::Backward:
    return isGradientSum(index) ? Wanter::DueEarly : Wanter::Backward;
  case PassKind::Update:
    return isDue[index] ? Wanter::Due : Wanter::Update;
  }
  llvm_unreachable("all passes are named");
}
