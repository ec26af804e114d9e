//===- Residence.cpp - where the values of a step lie ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Residence.h"
#include "OperatorGroups.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/FreeViews.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

void tandem::plan::cloneOperators(const StepGraph &graph,
                                  ArrayRef<unsigned> ops,
                                  ArrayRef<unsigned> returned, Block &block,
                                  CloneMap &clones, unsigned source) {
  OpBuilder builder(graph.mesh.getContext());
  builder.setInsertionPointToEnd(&block);
  IRMapping map;
  for (auto [member, number] : llvm::enumerate(ops)) {
    Operation *op = graph.ops[number].op;
    for (auto [operand, value] :
         llvm::zip(op->getOperands(), graph.ops[number].operands)) {
      // What an operand is, a region may choose.
      Value taken = graph.values[value].value;
      if (!map.contains(taken))
        map.map(taken, block.addArgument(taken.getType(), op->getLoc()));
      map.map(operand, map.lookup(taken));
    }
    if (auto either = dyn_cast<nn::EitherOp>(op)) {
      unsigned last = either.getSources().size() - 1;
      map.map(either.getResult(),
              map.lookup(either.getSources()[std::min(source, last)]));
    } else {
      clones.members[builder.clone(*op, map)] = member;
    }
  }
  SmallVector<Value> results;
  for (unsigned value : returned)
    results.push_back(map.lookup(graph.values[value].value));
  func::ReturnOp::create(builder, graph.step->getLoc(), results);
  for (unsigned number : ops) {
    const OpNode &op = graph.ops[number];
    for (const auto *values : {&op.operands, &op.results})
      for (unsigned value : *values)
        // Of a choice and what it takes, the latter.
        clones.values.try_emplace(map.lookup(graph.values[value].value), value);
  }
}

bool tandem::plan::isFree(Operation *op) {
  if (isa<nn::ReshapeOp, nn::EitherOp>(op))
    return true;
  return isa<nn::PermuteOp>(op) && isReadByStrides(op);
}

/// Whether `op` is a view of all of its operand. Of what a choice is a view the
/// plan decides.
static bool isWholeView(Operation *op) {
  return (isFree(op) || isFreeView(op)) && !isa<nn::EitherOp>(op) &&
         getBytes(op->getOperand(0).getType()) ==
             getBytes(op->getResult(0).getType());
}

/// Values that others than `ops` read, or surely read: not as choices, and not
/// as clones that may be left out.
static SmallVector<unsigned>
getReadOutside(const StepGraph &graph, ArrayRef<unsigned> ops, bool isSure) {
  llvm::DenseSet<unsigned> members(ops.begin(), ops.end());
  auto isOutside = [&](Use use) {
    bool mayBeAbsent =
        use.op < graph.ops.size() &&
        (graph.ops[use.op].isOptional || graph.ops[use.op].isEither());
    return !members.contains(use.op) && !(isSure && mayBeAbsent);
  };
  SmallVector<unsigned> values;
  for (unsigned op : ops)
    for (unsigned value : graph.ops[op].results)
      if (llvm::any_of(graph.values[value].uses, isOutside))
        values.push_back(value);
  return values;
}

/// The most operands of a choice.
static unsigned countSources(const StepGraph &graph) {
  unsigned most = 1;
  for (const OpNode &op : graph.ops)
    if (op.isEither())
      most = std::max<unsigned>(most, op.operands.size());
  return most;
}

Residence::Residence(const StepGraph &graph)
    : viewOf(graph.values.size(), -1), isInKernel(graph.values.size()),
      isHeldIfRead(graph.values.size()), isOutside(graph.values.size()) {
  llvm::MapVector<std::pair<PassKind, std::optional<int64_t>>,
                  SmallVector<unsigned>>
      parts;
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    if (graph.getGroups().groupOf[index] < 0)
      continue;
    if (isWholeView(op.op))
      viewOf[op.results[0]] = op.operands[0];
    if (op.pass != PassKind::Update)
      parts[{op.pass, spmd::getLoop(op.op)}].push_back(index);
  }
  for (unsigned source = 0; source < countSources(graph); ++source)
    for (auto &[key, ops] : parts)
      addPart(graph, ops, source);
  if (graph.hasChoices())
    addUnread(graph, parts[{PassKind::Forward, std::nullopt}]);
  // A term is added up where it is made, although its sum stands behind the
  // loop.
  for (unsigned value = 0; value < graph.values.size(); ++value)
    isInKernel[value] =
        graph.isTerm(value) || (isInKernel[value] && !isOutside[value]);
}

/// What lies in memory where a kernel writes `values`: also what they are views
/// of.
static llvm::DenseSet<Value> getWritten(ArrayRef<Value> values) {
  llvm::DenseSet<Value> written;
  for (Value value : values) {
    written.insert(value);
    for (Operation *op = value.getDefiningOp(); op && isWholeView(op);
         op = op->getOperand(0).getDefiningOp())
      written.insert(op->getOperand(0));
  }
  return written;
}

/// What `lower` makes within kernels and does not write there.
static llvm::DenseSet<Value> findInKernels(const StepGraph &graph,
                                           Block &block) {
  SmallVector<FusionGroup> groups =
      formFusionGroups(block, sched::getDevice(graph.step).fusion);
  llvm::DenseSet<Value> inKernels, written;
  for (const FusionGroup &group : groups) {
    if (group.kind != FusionGroup::Kind::Kernel)
      continue;
    for (Operation *op : group.ops)
      if (group.ops.size() > 1 || !isFree(op))
        inKernels.insert_range(op->getResults());
    written.insert_range(getWritten(getGroupOutputs(group, groups)));
  }
  for (Value value : written)
    inKernels.erase(value);
  return inKernels;
}

void Residence::addUnread(const StepGraph &graph, ArrayRef<unsigned> ops) {
  Block block;
  CloneMap clones;
  cloneOperators(graph, ops, getReadOutside(graph, ops, /*isSure=*/true), block,
                 clones);
  llvm::DenseSet<Value> inKernels = findInKernels(graph, block);
  for (auto [made, value] : clones.values)
    isHeldIfRead[value] = inKernels.contains(made) && !isInKernel[value];
}

void Residence::addPart(const StepGraph &graph, ArrayRef<unsigned> ops,
                        unsigned source) {
  Block block;
  CloneMap clones;
  cloneOperators(graph, ops, getReadOutside(graph, ops, /*isSure=*/false),
                 block, clones, source);
  llvm::DenseSet<Value> inKernels = findInKernels(graph, block);
  for (auto [made, value] : clones.values) {
    int producer = graph.values[value].producer;
    bool isOptional = producer >= 0 && graph.ops[producer].isOptional;
    bool isSeen = isOptional ? source > 0 && !made.use_empty() : source == 0;
    if (!isSeen || !made.getDefiningOp())
      continue;
    if (inKernels.contains(made))
      isInKernel[value] = true;
    else
      isOutside[value] = true;
  }
}
