//===- MarkJoins.cpp - where strands join ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Duplex/Duplex.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace {
struct MarkJoinsPass : tandem::StepPass<MarkJoinsPass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MarkJoinsPass)
  MarkJoinsPass() = default;
  MarkJoinsPass(const MarkJoinsPass &other) : StepPass(other) {}
  explicit MarkJoinsPass(bool isReporting) { report = isReporting; }

  StringRef getArgument() const override { return "tandem-mark-joins"; }
  StringRef getDescription() const override {
    return "Leaves nn.join only on operators that some strand's work needs";
  }
  LogicalResult runOnStep(func::FuncOp step) override;

  Option<bool> report{*this, "report", llvm::cl::desc("Remark on every join"),
                      llvm::cl::init(false)};
};
} // namespace

LogicalResult MarkJoinsPass::runOnStep(func::FuncOp step) {
  // Operators that a strand's work depends on.
  llvm::DenseSet<Operation *> needed;
  Block &block = step.getBody().front();
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
    return success();
  for (Operation &op : block)
    if (auto form = op.getAttrOfType<StringAttr>("nn.join"))
      op.emitRemark() << "strands join here: " << form.getValue();
  return success();
}

std::unique_ptr<Pass> tandem::createMarkJoinsPass(bool report) {
  return std::make_unique<MarkJoinsPass>(report);
}
