//===- SplitReforms.cpp - reforms of one axis each ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReformPath.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using tandem::nn::NNDialect;

namespace {
class SplitReformsPass : public StepPass<SplitReformsPass> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitReformsPass)
  StringRef getArgument() const override { return "tandem-split-reforms"; }
  StringRef getDescription() const override {
    return "Takes reforms apart into cheapest sequences of legal reforms of "
           "one axis";
  }
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  LogicalResult split(ReformOp reform);
  using Path = SmallVector<RankedTensorType>;
  /// The search, once per pair of types.
  const std::optional<Path> &find(RankedTensorType from, RankedTensorType to);

  MeshAttr mesh;
  llvm::DenseMap<std::pair<Type, Type>, std::optional<Path>> paths;
  /// Steps that were made of a value in a pass: sequences share beginnings.
  llvm::DenseMap<Value, SmallVector<ReformOp, 1>> made;
};
} // namespace

const std::optional<SplitReformsPass::Path> &
SplitReformsPass::find(RankedTensorType from, RankedTensorType to) {
  auto [it, isNew] = paths.try_emplace({from, to});
  if (isNew)
    it->second = findReforms(from, to, mesh);
  return it->second;
}

LogicalResult SplitReformsPass::split(ReformOp reform) {
  const auto &path = find(reform.getInput().getType(), reform.getType());
  if (!path)
    return reform.emitError()
           << "no sequence of reforms changes " << reform.getInput().getType()
           << " into " << reform.getType();
  Value value = reform.getInput();
  Attribute pass = reform->getAttr(NNDialect::kPassAttrName);
  for (RankedTensorType type : *path) {
    ReformOp *known = llvm::find_if(made[value], [&](ReformOp step) {
      return step.getType() == type &&
             step->getAttr(NNDialect::kPassAttrName) == pass;
    });
    if (known != made[value].end()) {
      value = *known;
      continue;
    }
    OpBuilder builder(reform);
    auto step = ReformOp::create(builder, reform.getLoc(), type, value);
    if (pass)
      step->setAttr(NNDialect::kPassAttrName, pass);
    made[value].push_back(step);
    value = step;
  }
  reform.replaceAllUsesWith(value);
  reform.erase();
  return success();
}

LogicalResult SplitReformsPass::runOnStep(func::FuncOp step) {
  mesh = getMesh(step);
  paths.clear();
  made.clear();
  auto reforms = llvm::to_vector(step.getBody().front().getOps<ReformOp>());
  for (ReformOp reform : reforms)
    if (failed(split(reform)))
      return failure();
  return success();
}

std::unique_ptr<Pass> tandem::createSplitReformsPass() {
  return std::make_unique<SplitReformsPass>();
}
