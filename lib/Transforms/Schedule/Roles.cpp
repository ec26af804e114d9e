//===- Roles.cpp - what operators are to a schedule -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Roles.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem::spmd;
using tandem::nn::NNDialect;

namespace tandem {

bool isCollective(Operation *op) {
  return isa<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp>(op);
}

bool isMove(Operation *op) {
  if (isa<nn::AddOp>(op))
    return !op->hasAttr(NNDialect::kIdAttrName);
  return isa<nn::SliceOp, nn::CatOp, nn::ReshapeOp, LocalSliceOp, KeepFirstOp>(
      op);
}

bool isSource(Operation *op) {
  return isa<nn::ConstantOp, nn::IotaOp, CoordinateOp>(op);
}

bool isUpdate(Operation *op) {
  auto pass = op->getAttrOfType<StringAttr>(NNDialect::kPassAttrName);
  return pass && pass.getValue() == "update";
}

std::optional<int64_t> getStrand(Operation *op) {
  auto strand = op->getAttrOfType<IntegerAttr>("nn.strand");
  return strand ? std::optional(strand.getInt()) : std::nullopt;
}

int64_t getBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() *
         std::max(1u, type.getElementTypeBitWidth() / 8);
}

Operation *findLoss(func::FuncOp step) {
  Operation *ret = step.getBody().front().getTerminator();
  for (unsigned i = 0; i < ret->getNumOperands(); ++i) {
    auto role =
        step.getResultAttrOfType<StringAttr>(i, NNDialect::kRoleAttrName);
    if (role && role.getValue() == "loss")
      return ret->getOperand(i).getDefiningOp();
  }
  return nullptr;
}

/// Whether `op` only passes a tensor on: views, pieces, conversions, scaling,
/// and the sums of strands. Such an operator moves with the collective beside
/// it.
static bool passesOn(Operation *op) {
  if (isCollective(op) ||
      isa<nn::ReshapeOp, nn::PermuteOp, nn::ConvertOp, nn::SliceOp, nn::NegOp,
          LocalSliceOp, KeepFirstOp>(op))
    return true;
  if (isa<nn::MulOp, nn::DivOp>(op))
    return cast<RankedTensorType>(op->getOperand(1).getType()).getRank() == 0;
  return isa<nn::AddOp, nn::CatOp>(op) && !op->hasAttr(NNDialect::kIdAttrName);
}

Roles::Roles(func::FuncOp step) {
  Block &block = step.getBody().front();
  findAhead(block);
  findWaiting(block);
  findLate(block);
}

void Roles::findAhead(Block &block) {
  llvm::DenseSet<Operation *> free;
  for (Operation &op : block.without_terminator()) {
    bool isFree =
        !isSource(&op) && passesOn(&op) &&
        llvm::all_of(op.getOperands(), [&](Value operand) {
          Operation *producer = operand.getDefiningOp();
          return !producer || isSource(producer) || free.contains(producer);
        });
    if (isFree)
      free.insert(&op);
  }
  for (Operation &op : llvm::reverse(block)) {
    bool isAhead = llvm::all_of(
        op.getUsers(), [&](Operation *user) { return ahead.contains(user); });
    if (free.contains(&op) && (isCollective(&op) || isAhead))
      ahead.insert(&op);
  }
  while (dropOneAhead(block)) {
  }
}

/// Operators ahead are chains, placed as a whole, stages apart. What has
/// several readers, one of them ahead (a batch is sliced, and one strand
/// gathers the slice), is computed in its turn, and so are those that read it.
bool Roles::dropOneAhead(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (!ahead.contains(&op))
      continue;
    bool readsPlaced = llvm::any_of(op.getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return producer && !isSource(producer) && !ahead.contains(producer);
    });
    bool isPrepared = llvm::any_of(
        op.getUsers(), [&](Operation *user) { return ahead.contains(user); });
    bool isChained =
        isPrepared ? llvm::all_equal(op.getUsers()) : isCollective(&op);
    if (readsPlaced || !isChained)
      return ahead.erase(&op);
  }
  return false;
}

void Roles::findWaiting(Block &block) {
  llvm::DenseSet<Operation *> tail;
  for (Operation &op : llvm::reverse(block)) {
    bool isTail =
        isUpdate(&op) || op.hasTrait<OpTrait::IsTerminator>() ||
        (passesOn(&op) && llvm::all_of(op.getUsers(), [&](Operation *user) {
           return tail.contains(user);
         }));
    if (!isTail)
      continue;
    tail.insert(&op);
    if (isCollective(&op) && !isUpdate(&op) && !ahead.contains(&op))
      waiting.insert(&op);
  }
}

void Roles::findLate(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (isSource(&op) || ahead.contains(&op))
      continue;
    bool readsLate = llvm::any_of(op.getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return producer &&
             (late.contains(producer) || waiting.contains(producer));
    });
    // A sum on two axes is two collectives in a row: both wait.
    if (isUpdate(&op) || (readsLate && !waiting.contains(&op))) {
      late.insert(&op);
    } else if (waiting.contains(&op) &&
               llvm::any_of(op.getOperands(), [&](Value operand) {
                 return late.contains(operand.getDefiningOp());
               })) {
      waiting.erase(&op);
      late.insert(&op);
    }
  }
}

} // namespace tandem
