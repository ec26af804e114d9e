//===- VerifyStep.cpp - the exit of the import stage ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYSTEPPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::nn;

namespace {
struct VerifyStepPass : tandem::impl::VerifyStepPassBase<VerifyStepPass> {
  using VerifyStepPassBase::VerifyStepPassBase;
  void runOnOperation() override;

private:
  LogicalResult verifyArguments(func::FuncOp step);
  LogicalResult verifyBody(func::FuncOp step);
  LogicalResult verifyOperator(Operation *op);
  LogicalResult verifyId(Operation *op);

  llvm::DenseMap<int64_t, Operation *> byId;
};
} // namespace

/// What a value of a step has to be and `type` is not; empty: it is. Later
/// stages divide by sizes, and multiply them in 64 bits.
static StringRef getWhatIsExpected(Type type) {
  constexpr int64_t kMaxElements = int64_t(1) << 48;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding())
    return "a tensor of static shape";
  int64_t elements = 1;
  for (int64_t size : tensor.getShape()) {
    if (size == 0)
      return "sizes of at least 1";
    if (size > kMaxElements / elements)
      return "at most 2^48 elements";
    elements *= size;
  }
  return "";
}

LogicalResult VerifyStepPass::verifyArguments(func::FuncOp step) {
  for (auto [i, type] : llvm::enumerate(step.getArgumentTypes()))
    if (StringRef expected = getWhatIsExpected(type); !expected.empty())
      return emitError(step.getLoc()) << "argument " << i << " is a " << type
                                      << ", expected " << expected;
  return success();
}

LogicalResult VerifyStepPass::verifyId(Operation *op) {
  std::optional<int64_t> id = getId(op);
  if (!id)
    return emitError(op->getLoc())
           << op->getName() << " has no '" << kIdAttrName
           << "': run the import stage first";
  auto [it, isNew] = byId.try_emplace(*id, op);
  if (isNew)
    return success();
  return emitError(op->getLoc())
         << op->getName() << " has the '" << kIdAttrName << "' " << *id
         << " of another operator, " << it->second->getName().getStringRef();
}

LogicalResult VerifyStepPass::verifyOperator(Operation *op) {
  bool isOfLoop = isa<tandem::spmd::EnterOp, tandem::spmd::CarryOp,
                      tandem::spmd::CollectOp, tandem::spmd::CoordinateOp>(op);
  if (!isOfLoop && !isa_and_nonnull<NNDialect>(op->getDialect()))
    return emitError(op->getLoc())
           << "operator '" << op->getName().getStringRef()
           << "' in a training step, expected operators of nn";
  for (Type type : op->getResultTypes())
    if (StringRef expected = getWhatIsExpected(type); !expected.empty())
      return emitError(op->getLoc()) << op->getName() << " gives a " << type
                                     << ", expected " << expected;
  if (!getPass(op))
    return emitError(op->getLoc())
           << op->getName() << " has no '" << kPassAttrName << "'";
  return numbered ? verifyId(op) : success();
}

LogicalResult VerifyStepPass::verifyBody(func::FuncOp step) {
  if (!step.getBody().hasOneBlock())
    return emitError(step.getLoc())
           << "the step has " << step.getBody().getBlocks().size()
           << " blocks, expected one";
  for (Operation &op : step.getBody().front().without_terminator())
    if (failed(verifyOperator(&op)))
      return failure();
  return success();
}

void VerifyStepPass::runOnOperation() {
  byId.clear();
  auto step = getOperation().lookupSymbol<func::FuncOp>("step");
  if (!step) {
    emitError(getOperation().getLoc())
        << "the module has no function @step, expected a training step";
    return signalPassFailure();
  }
  if (failed(verifyBody(step)) || failed(tandem::verifyDeclared(step)) ||
      failed(verifyArguments(step)))
    signalPassFailure();
}
