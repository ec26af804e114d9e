//===- StageOf.cpp - last stage of IR -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StageOf.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;

namespace tandem {

/// Whether any operator of the step is as `test` says.
static bool has(func::FuncOp step, llvm::function_ref<bool(Operation *)> test) {
  return step
      .walk([&](Operation *op) {
        return test(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

static bool hasForms(func::FuncOp step) {
  auto hasForm = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getEncoding();
  };
  return llvm::any_of(step.getArgumentTypes(), hasForm) ||
         has(step, [&](Operation *op) {
           return llvm::any_of(op->getResultTypes(), hasForm);
         });
}

static bool hasLayouts(func::FuncOp step) {
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (spmd::getLayout(step.getArgAttrDict(i)))
      return true;
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (spmd::getLayout(step.getResultAttrDict(i)))
      return true;
  return false;
}

const Stage *findStageOf(ModuleOp module, const Stage *named) {
  // All actions of a pipeline have left the same stage.
  for (ModuleOp action : module.getOps<ModuleOp>())
    return findStageOf(action, named);
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step)
    return nullptr;
  if (has(step, llvm::IsaPred<sched::CommandOpInterface, sched::AllocOp>))
    return findStage("lower");
  if (has(step, llvm::IsaPred<sched::StepOp>))
    return findStage("schedule");
  if (hasLayouts(step)) {
    if (hasForms(step))
      return findStage("localize");
    bool isSplit =
        has(step, [](Operation *op) { return nn::getStrand(op).has_value(); });
    bool isNamed = named && named->name == "localize" && !isSplit;
    return isNamed ? named : findStage("duplex");
  }
  if (hasForms(step))
    return findStage("shard");
  if (has(step, [](Operation *op) { return op->hasAttr(spmd::kPlanAttrName); }))
    return findStage("plan");
  if (module->hasAttr(spmd::kMeshAttrName))
    return findStage("shard");
  bool hasLoops =
      has(step, [](Operation *op) { return spmd::getLoop(op).has_value(); });
  return findStage(hasLoops ? "accumulate" : "import");
}

} // namespace tandem
