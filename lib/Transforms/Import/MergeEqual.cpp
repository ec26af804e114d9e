//===- MergeEqual.cpp - equal operators become one ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/OperationSupport.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/DenseSet.h"

namespace tandem {
#define GEN_PASS_DEF_MERGEEQUALPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;

namespace {
/// Operators are equal if name, operands, attributes (`nn.pass` included) and
/// types are. Two draws of random numbers differ in their ordinal.
struct EqualOperators : llvm::DenseMapInfo<Operation *> {
  static unsigned getHashValue(const Operation *op) {
    return OperationEquivalence::computeHash(
        const_cast<Operation *>(op), OperationEquivalence::directHashValue,
        OperationEquivalence::ignoreHashValue,
        OperationEquivalence::IgnoreLocations);
  }
  static bool isEqual(const Operation *lhs, const Operation *rhs) {
    if (lhs == rhs)
      return true;
    if (lhs == getTombstoneKey() || lhs == getEmptyKey() ||
        rhs == getTombstoneKey() || rhs == getEmptyKey())
      return false;
    return OperationEquivalence::isEquivalentTo(
        const_cast<Operation *>(lhs), const_cast<Operation *>(rhs),
        OperationEquivalence::IgnoreLocations);
  }
};

struct MergeEqualPass
    : tandem::StepPass<tandem::impl::MergeEqualPassBase<MergeEqualPass>> {
  LogicalResult runOnStep(func::FuncOp step) override {
    Block &block = step.getBody().front();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    llvm::DenseSet<Operation *, EqualOperators> seen;
    for (Operation &op :
         llvm::make_early_inc_range(block.without_terminator())) {
      // A region of regions runs an inner one twice, to hold neither run.
      if (tandem::nn::isAgain(&op))
        continue;
      auto [it, isNew] = seen.insert(&op);
      if (isNew)
        continue;
      op.replaceAllUsesWith(*it);
      op.erase();
    }
    return success();
  }
};
} // namespace
