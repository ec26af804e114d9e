//===- RecomputeCheap.cpp - recomputation of cheap values -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_RECOMPUTECHEAPPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

/// An argument this many times smaller than what is made of it is read again
/// (a scale, a bias); a larger one might have to be gathered again. A product
/// whose operands are all this many times smaller than it is made again: the
/// scores of attention (Korthikanti et al., 2022, section 5), which are most of
/// what a long sequence holds and take a small part of the computation.
static constexpr int64_t kSmall = 8;
/// Operators in a row that one value is made again of.
static constexpr unsigned kMaxDepth = 12;

namespace {
/// What the backward pass reads of the forward pass is held between them. A
/// view of what is held anyway, elementwise functions of it, and random masks
/// (which follow from seed, step and position) are made again instead: in the
/// kernels that read them, which read no more than before. So are softmax and
/// products much larger than their operands.
struct RecomputeCheapPass
    : tandem::StepPass<
          tandem::impl::RecomputeCheapPassBase<RecomputeCheapPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  bool canMake(Value value, int64_t bytes, unsigned depth) const;
  bool canMakeAgain(Operation *op, unsigned depth) const;

  /// Depends on no argument: exists wherever it is wanted.
  llvm::DenseSet<Operation *> pure;
};
} // namespace

static bool isBackward(Operation *op) {
  return getPass(op) == PassKind::Backward;
}

/// Whether a library makes much more than what it reads, as outer products are.
static bool isOuter(Operation *op) {
  int64_t bytes = getBytes(op->getResult(0).getType());
  return isa<LibraryOpInterface>(op) &&
         llvm::all_of(op->getOperandTypes(), [&](Type operand) {
           return getBytes(operand) * kSmall <= bytes;
         });
}

/// Also products that are much larger than their operands.
static bool isCheap(Operation *op) {
  return op->hasTrait<MadeAgain>() || isOuter(op);
}

/// Whether the backward pass reads the value itself.
static bool isHeld(Value value) {
  return llvm::any_of(value.getUsers(), isBackward);
}

bool RecomputeCheapPass::canMake(Value value, int64_t bytes,
                                 unsigned depth) const {
  Operation *producer = value.getDefiningOp();
  if (!producer)
    return getBytes(value.getType()) * kSmall <= bytes;
  return pure.contains(producer) || isBackward(producer) || isHeld(value) ||
         canMakeAgain(producer, depth + 1);
}

/// Whether `op` follows from what is held besides its own results.
bool RecomputeCheapPass::canMakeAgain(Operation *op, unsigned depth) const {
  if (depth > kMaxDepth || op->getNumResults() != 1 || !isCheap(op))
    return false;
  int64_t bytes = getBytes(op->getResult(0).getType());
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return canMake(operand, bytes, depth);
  });
}

/// The backward pass gets an operator of its own.
static void cloneBackward(Operation *op) {
  SmallVector<OpOperand *> uses;
  Operation *first = nullptr;
  for (OpOperand &use : op->getUses()) {
    if (!isBackward(use.getOwner()))
      continue;
    uses.push_back(&use);
    if (!first || use.getOwner()->isBeforeInBlock(first))
      first = use.getOwner();
  }
  if (!first)
    return;
  Operation *clone = OpBuilder(first).clone(*op);
  copyPass(first, clone);
  for (OpOperand *use : uses)
    use->set(clone->getResult(0));
}

LogicalResult RecomputeCheapPass::runOnStep(func::FuncOp step) {
  Block &block = step.getBody().front();
  SmallVector<Operation *> forward;
  pure.clear();
  for (Operation &op : block) {
    bool isPure = llvm::all_of(op.getOperands(), [&](Value operand) {
      return operand.getDefiningOp() && pure.contains(operand.getDefiningOp());
    });
    if (isPure && !op.hasTrait<OpTrait::IsTerminator>())
      pure.insert(&op);
    else if (getPass(&op) == PassKind::Forward)
      forward.push_back(&op);
  }
  // Users first: what a value is made again of becomes a use of that.
  for (Operation *op : llvm::reverse(forward))
    if (canMakeAgain(op, 0))
      cloneBackward(op);
  for (Operation *op : llvm::reverse(forward))
    if (isOpTriviallyDead(op))
      op->erase();
  return success();
}
