//===- Roles.cpp - roles of operators in a schedule -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Roles.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem::spmd;

namespace tandem {

bool isMove(Operation *op) {
  if (isa<nn::AddOp>(op))
    return isPartOfChange(op);
  return isa<nn::SliceOp, nn::CatOp, nn::ReshapeOp, LocalSliceOp, KeepFirstOp>(
      op);
}

bool isUpdate(Operation *op) { return nn::getPass(op) == nn::PassKind::Update; }

double getLatency(Operation *op, double seconds) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  if (!axes || axes.empty())
    return 0;
  ChangeKind kind = isa<AllGatherOp>(op)       ? ChangeKind::AllGather
                    : isa<ReduceScatterOp>(op) ? ChangeKind::ReduceScatter
                    : isa<AllReduceOp>(op)     ? ChangeKind::AllReduce
                                               : ChangeKind::AllToAll;
  std::optional<ChangePrice> price =
      getPrice(op, cast<StringAttr>(axes[0]).getValue(), kind);
  int64_t times = getLoop(op) ? getIterations(op) : 1;
  return price ? std::min(times * price->latency, seconds) : 0;
}

Operation *findLoss(func::FuncOp step) {
  Operation *ret = step.getBody().front().getTerminator();
  for (unsigned i = 0; i < ret->getNumOperands(); ++i)
    if (nn::getRole(step.getResultAttrDict(i)) == nn::Role::Loss)
      return ret->getOperand(i).getDefiningOp();
  return nullptr;
}

/// Whether `op` multiplies operand 0 by scalars: it is linear in it alone.
static bool isScaling(Operation *op) {
  auto isScalar = [](Type type) {
    return cast<RankedTensorType>(type).getRank() == 0;
  };
  return op->hasTrait<nn::Broadcasting>() &&
         llvm::all_of(llvm::drop_begin(op->getOperandTypes()), isScalar) &&
         llvm::is_contained(cast<SignatureOpInterface>(op).getRule().linear,
                            SmallVector<unsigned, 2>{0});
}

/// Whether `op` only passes a tensor on: views, pieces, scaling, and the sums
/// of strands. Such an operator moves with the collective beside it.
static bool passesOn(Operation *op) {
  if (isCollective(op) || op->hasTrait<nn::View>() ||
      isa<LocalSliceOp, KeepFirstOp>(op))
    return true;
  if (isa<nn::AddOp, nn::CatOp>(op))
    return isPartOfChange(op);
  return isScaling(op);
}

Roles::Roles(ArrayRef<Operation *> ops) : ops(ops) {
  findAhead();
  findWaiting();
  findLate();
}

void Roles::findAhead() {
  llvm::DenseSet<Operation *> free;
  for (Operation *op : ops) {
    // What is returned, as a loss that microbatches summed, is ahead of
    // nothing.
    bool isFree =
        !isSource(op) && passesOn(op) &&
        llvm::none_of(op->getUsers(),
                      [](Operation *user) {
                        return user->hasTrait<OpTrait::IsTerminator>();
                      }) &&
        llvm::all_of(op->getOperands(), [&](Value operand) {
          Operation *producer = operand.getDefiningOp();
          return !producer || isSource(producer) || free.contains(producer);
        });
    if (isFree)
      free.insert(op);
  }
  for (Operation *op : llvm::reverse(ops)) {
    bool isAhead = llvm::all_of(
        op->getUsers(), [&](Operation *user) { return ahead.contains(user); });
    if (free.contains(op) && (isCollective(op) || isAhead))
      ahead.insert(op);
  }
  while (dropOneAhead()) {
  }
}

/// Operators ahead are chains, placed as a whole, stages apart. What has
/// several readers, one of them ahead (a batch is sliced, and one strand
/// gathers the slice), is computed in its turn, and so are those that read it.
bool Roles::dropOneAhead() {
  for (Operation *op : ops) {
    if (!ahead.contains(op))
      continue;
    bool readsPlaced = llvm::any_of(op->getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return producer && !isSource(producer) && !ahead.contains(producer);
    });
    bool isPrepared = llvm::any_of(
        op->getUsers(), [&](Operation *user) { return ahead.contains(user); });
    bool isChained =
        isPrepared ? llvm::all_equal(op->getUsers()) : isCollective(op);
    if (readsPlaced || !isChained)
      return ahead.erase(op);
  }
  return false;
}

void Roles::findWaiting() {
  llvm::DenseSet<Operation *> tail;
  auto isEnd = [&](Operation *op) {
    return isUpdate(op) || op->hasTrait<OpTrait::IsTerminator>() ||
           isCarried(op) || tail.contains(op);
  };
  for (Operation *op : llvm::reverse(ops)) {
    bool isTail =
        isEnd(op) || (passesOn(op) && llvm::all_of(op->getUsers(), isEnd));
    if (!isTail)
      continue;
    tail.insert(op);
    if (isCollective(op) && !isUpdate(op) && !ahead.contains(op))
      waiting.insert(op);
  }
}

void Roles::findLate() {
  for (Operation *op : ops) {
    if (isSource(op) || ahead.contains(op))
      continue;
    bool readsLate = llvm::any_of(op->getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return producer &&
             (late.contains(producer) || waiting.contains(producer));
    });
    // A sum on two axes is two collectives in a row: both wait.
    if (isUpdate(op) || (readsLate && !waiting.contains(op))) {
      late.insert(op);
    } else if (waiting.contains(op) &&
               llvm::any_of(op->getOperands(), [&](Value operand) {
                 return late.contains(operand.getDefiningOp());
               })) {
      waiting.erase(op);
      late.insert(op);
    }
  }
}

} // namespace tandem
