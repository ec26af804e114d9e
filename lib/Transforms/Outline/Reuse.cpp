//===- Reuse.cpp - what an earlier loop has made --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a loop reads a sum over all iterations, it makes again what the loop of
// the sum has made: iterations on one device hold nothing. Points hold what
// each microbatch makes. So a forward pass that is joined goes on where it
// stopped.
//
//===----------------------------------------------------------------------===//

#include "Actions.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/Hashing.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// Finds operators of several loops that make the same.
class Reuser {
public:
  Reuser(MeshAttr mesh, unsigned axis) : mesh(mesh), axis(axis) {}
  void visit(Operation *op);

private:
  Value getFirst(Value value) const {
    Value first = firsts.lookup(value);
    return first ? first : value;
  }
  llvm::hash_code hash(Operation *op) const;
  bool isSame(Operation *a, Operation *b) const;

  MeshAttr mesh;
  unsigned axis;
  /// Of what is made again: the value that was made first.
  llvm::DenseMap<Value, Value> firsts;
  llvm::DenseMap<size_t, SmallVector<Operation *>> made;
};
} // namespace

llvm::hash_code Reuser::hash(Operation *op) const {
  llvm::hash_code code =
      llvm::hash_combine(op->getName(), op->hashProperties());
  for (Value operand : op->getOperands())
    code = llvm::hash_combine(code, getFirst(operand));
  return code;
}

bool Reuser::isSame(Operation *a, Operation *b) const {
  return OperationEquivalence::isEquivalentTo(
      a, b,
      [&](Value own, Value other) {
        return success(getFirst(own) == getFirst(other));
      },
      /*markEquivalent=*/nullptr,
      OperationEquivalence::IgnoreLocations |
          OperationEquivalence::IgnoreDiscardableAttrs);
}

void Reuser::visit(Operation *op) {
  if (!getLoop(op) || isCarried(op) || !isMemoryEffectFree(op))
    return;
  auto &likely = made[hash(op)];
  auto found = llvm::find_if(
      likely, [&](Operation *other) { return isSame(op, other); });
  if (found == likely.end()) {
    likely.push_back(op);
    return;
  }
  bool isHeld = *getLoop(*found) < *getLoop(op) && !nn::isAgain(op);
  for (auto [own, first] :
       llvm::zip_equal(op->getResults(), (*found)->getResults())) {
    firsts[own] = first;
    // What all points have is made where it is read.
    if (isHeld && getForms(own.getType(), mesh)[axis].isAt())
      own.replaceAllUsesWith(first);
  }
}

void tandem::reuseEarlierLoops(func::FuncOp step, MeshAttr mesh,
                               unsigned axis) {
  Block &block = step.getBody().front();
  Reuser reuser(mesh, axis);
  for (Operation &op : block)
    reuser.visit(&op);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (getLoop(&op) && op.use_empty() && isMemoryEffectFree(&op))
      op.erase();
}
