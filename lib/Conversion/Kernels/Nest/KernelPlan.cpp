//===- KernelPlan.cpp - the steps of one kernel ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nest/KernelPlan.h"
#include "Nest/KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Kinds of operators
//===----------------------------------------------------------------------===//

bool tandem::hasOwnLoop(Operation *op) { return op->hasTrait<nn::OwnLoops>(); }

bool tandem::hasReduction(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && generic.getNumReductionLoops() > 0;
}

bool tandem::isExpensive(Operation *op, const KernelLimits &limits) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return false;
  int size = 0;
  bool expensive = false;
  generic.getRegion().walk([&](Operation *inner) {
    ++size;
    bool isMath = inner->getDialect()->getNamespace() == "math" &&
                  !isa<math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp,
                       math::RoundEvenOp, math::SqrtOp>(inner);
    expensive |= isMath || isa<func::CallOp, arith::RemFOp>(inner);
  });
  return expensive || size > limits.maxCheapBody;
}

static SmallVector<Value> getTensorOperands(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    SmallVector<Value> values(generic.getDpsInputs());
    generic.getRegion().walk([&](tensor::ExtractOp extract) {
      values.push_back(extract.getTensor());
    });
    return values;
  }
  return SmallVector<Value>(op->getOperands());
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value KernelPlan::resolve(Value value) const {
  while (Value source = aliases.lookup(value))
    value = source;
  return value;
}

bool KernelPlan::isFree(Value value) const {
  return isa<BlockArgument>(value) || isFloating(value) ||
         isa_and_nonnull<nn::ConstantOp, spmd::CoordinateOp>(
             value.getDefiningOp());
}

void KernelPlan::requireMemory(Value value) {
  value = resolve(value);
  if (isa<BlockArgument>(value) || isa<nn::ConstantOp>(value.getDefiningOp()))
    return;
  inMemory.insert(value);
}

bool KernelPlan::canFloat(Operation *op) const {
  if (pinned.contains(op->getResult(0)) || hasReduction(op) ||
      isExpensive(op, device.kernels))
    return false;
  return llvm::all_of(getTensorOperands(op),
                      [&](Value value) { return isFree(value); });
}

//===----------------------------------------------------------------------===//
// Loops of a generic
//===----------------------------------------------------------------------===//

static LoopAccess getAccess(Value value, AffineMap map) {
  LoopAccess access;
  access.value = value;
  for (AffineExpr expr : map.getResults()) {
    auto constant = dyn_cast<AffineConstantExpr>(expr);
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      access.dims.push_back(dim.getPosition());
    else if (constant && constant.getValue() == 0)
      access.dims.push_back(LoopAccess::kUniform);
    else
      access.dims.push_back(LoopAccess::kElsewhere);
  }
  return access;
}

static LoopOp getLoops(linalg::GenericOp op) {
  LoopOp loops;
  loops.op = op;
  // A reduction's input has all loops; otherwise the result has.
  OpOperand *shape =
      hasReduction(op) ? op.getDpsInputOperand(0) : op.getDpsInitOperand(0);
  assert(op.getMatchingIndexingMap(shape).isIdentity());
  llvm::append_range(loops.sizes, op.getShape(shape));
  for (OpOperand *input : op.getDpsInputOperands())
    loops.inputs.push_back(
        getAccess(input->get(), op.getMatchingIndexingMap(input)));
  for (OpOperand &init : op.getDpsInitsMutable())
    loops.outputs.push_back(
        getAccess(op.getTiedOpResult(&init), op.getMatchingIndexingMap(&init)));
  return loops;
}

/// A reshape of something in memory, over its result.
static LoopOp getLoopsOfCopy(Operation *op) {
  LoopOp loops;
  loops.op = op;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  loops.sizes.assign(type.getShape().begin(), type.getShape().end());
  LoopAccess access;
  access.value = op->getResult(0);
  access.dims = llvm::to_vector(llvm::seq<int>(0, type.getRank()));
  loops.outputs.push_back(access);
  return loops;
}

//===----------------------------------------------------------------------===//
// Placing
//===----------------------------------------------------------------------===//

int KernelPlan::getFirstStep(Operation *op) const {
  int first = 0;
  auto consider = [&](Value value, bool atIndex) {
    Value source = resolve(value);
    auto it = stepOf.find(source);
    if (it == stepOf.end())
      return;
    bool inNest = !atIndex && source == value && !steps[it->second].op;
    first = std::max(first, it->second + (inNest ? 0 : 1));
  };
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic) {
    for (Value value : op->getOperands())
      consider(value, /*atIndex=*/false);
    return first;
  }
  for (Value value : generic.getDpsInputs())
    consider(value, /*atIndex=*/false);
  generic.getRegion().walk([&](tensor::ExtractOp extract) {
    consider(extract.getTensor(), /*atIndex=*/true);
  });
  return first;
}

bool KernelPlan::canShare(const Nest &nest, Operation *op) const {
  return nest.members.empty() ||
         (!target.needsOwnNest(op) &&
          llvm::none_of(nest.members, [&](const auto &member) {
            return target.needsOwnNest(member.op);
          }));
}

void KernelPlan::addToNest(const LoopOp &op, int first) {
  int step = first, end = steps.size();
  while (step < end && (steps[step].op || !canShare(steps[step].nest, op.op) ||
                        !steps[step].nest.tryAdd(op)))
    ++step;
  if (step == end) {
    steps.emplace_back(device.fusion.maxColumns);
    bool added = steps.back().nest.tryAdd(op);
    assert(added && "an operator fits into an empty nest");
    (void)added;
  }
  for (Value result : op.op->getResults())
    stepOf[result] = step;
  for (Value value : getTensorOperands(op.op)) {
    auto it = stepOf.find(resolve(value));
    if (it != stepOf.end() && it->second < step)
      requireMemory(value);
  }
}

void KernelPlan::placeReshape(Operation *op) {
  Value from = op->getOperand(0), to = op->getResult(0);
  if (isFree(from)) {
    if (pinned.contains(to))
      addToNest(getLoopsOfCopy(op), 0);
    else
      floating.insert(to);
    return;
  }
  auto it = stepOf.find(from);
  if (it != stepOf.end() && !steps[it->second].op &&
      canShare(steps[it->second].nest, op) &&
      steps[it->second].nest.tryAddReshape(op, from, to)) {
    stepOf[to] = it->second;
    return;
  }
  aliases[to] = from;
  requireMemory(from);
}

void KernelPlan::placeOwnLoop(Operation *op) {
  for (Value value : op->getOperands())
    requireMemory(value);
  for (Value value : op->getResults()) {
    requireMemory(value);
    stepOf[resolve(value)] = steps.size();
  }
  steps.emplace_back(device.fusion.maxColumns);
  steps.back().op = op;
}

void KernelPlan::placeGeneric(linalg::GenericOp op) {
  if (canFloat(op)) {
    int cost = 1;
    for (Value value : getTensorOperands(op))
      cost += floatingCost.lookup(value);
    if (cost <= device.kernels.maxFloatingCost) {
      floating.insert(op.getResult(0));
      floatingCost[op.getResult(0)] = cost;
      return;
    }
  }
  addToNest(getLoops(op), getFirstStep(op));
}

/// What the loop adds up is the sum.
void KernelPlan::findBases() {
  for (auto add : function.front().getOps<nn::AddOp>())
    if (auto sum = getRowSum(add)) {
      bases[sum->rows] = sum->base;
      aliases[sum->rows->getResult(0)] = add.getResult();
    }
}

void KernelPlan::place(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    placeGeneric(generic);
  else if (isa<nn::ReshapeOp>(op))
    placeReshape(op);
  else if (hasOwnLoop(op))
    placeOwnLoop(op);
}

KernelPlan::KernelPlan(const KernelTarget &target, func::FuncOp function)
    : function(function), target(target), device(target.device) {
  Operation *terminator = function.front().getTerminator();
  for (Operation &op : function.front())
    if (hasOwnLoop(&op) || &op == terminator)
      pinned.insert(op.operand_begin(), op.operand_end());
  findBases();
  for (Operation &op : function.front())
    place(&op);
  for (Value value : terminator->getOperands())
    requireMemory(value);
  // A reduction over rows is complete only in memory.
  for (Step &step : steps)
    for (auto &[value, info] : step.nest.made)
      if (!info.reduced.empty() && !info.isRead)
        inMemory.insert(value);
}
