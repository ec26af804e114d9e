//===- MarkJoins.cpp - where strands join ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Duplex/Duplex.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace {
struct MarkJoinsPass : PassWrapper<MarkJoinsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MarkJoinsPass)
  MarkJoinsPass() = default;
  MarkJoinsPass(const MarkJoinsPass &other) : PassWrapper(other) {}
  explicit MarkJoinsPass(bool isReporting) { report = isReporting; }

  StringRef getArgument() const override { return "tandem-mark-joins"; }
  StringRef getDescription() const override {
    return "Leaves nn.join only on operators that some strand's work needs";
  }
  void runOnOperation() override;

  Option<bool> report{*this, "report", llvm::cl::desc("Remark on every join"),
                      llvm::cl::init(false)};
};
} // namespace

void MarkJoinsPass::runOnOperation() {
  // Operators that a strand's work depends on.
  llvm::DenseSet<Operation *> needed;
  Block &block = getOperation().getBody().front();
  for (Operation &op : llvm::reverse(block)) {
    bool isNeeded = llvm::any_of(op.getUsers(), [&](Operation *user) {
      return user->hasAttr("nn.strand") || needed.contains(user);
    });
    if (isNeeded)
      needed.insert(&op);
    else
      op.removeAttr("nn.join");
  }
  if (!report)
    return;
  for (Operation &op : block)
    if (auto form = op.getAttrOfType<StringAttr>("nn.join"))
      op.emitRemark() << "strands join here: " << form.getValue();
}

std::unique_ptr<Pass> tandem::createMarkJoinsPass(bool report) {
  return std::make_unique<MarkJoinsPass>(report);
}
