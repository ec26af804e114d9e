//===- SplitReforms.cpp - reforms of one axis each ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReformPath.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/Rates.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_SPLITREFORMSPASS
#include "tandem/Transforms/Shard/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using tandem::nn::NNDialect;

namespace {
class SplitReformsPass
    : public tandem::StepPass<
          tandem::impl::SplitReformsPassBase<SplitReformsPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  LogicalResult split(ReformOp reform);
  void markPlanned(ReformOp step) const;
  double getSeconds(ReformOp step, unsigned axis) const;
  using Path = SmallVector<RankedTensorType>;
  /// The search, once per pair of types.
  const std::optional<Path> &find(RankedTensorType from, RankedTensorType to);

  MeshAttr mesh;
  DictionaryAttr rates;
  llvm::DenseMap<std::pair<Type, Type>, std::optional<Path>> paths;
  /// Steps that were made of a value in a pass: sequences share beginnings.
  llvm::DenseMap<Value, SmallVector<ReformOp, 1>> made;
};
} // namespace

const std::optional<SplitReformsPass::Path> &
SplitReformsPass::find(RankedTensorType from, RankedTensorType to) {
  auto [it, isNew] = paths.try_emplace({from, to});
  if (isNew)
    it->second = findReforms(from, to, mesh, rates);
  return it->second;
}

/// The price of a change along `axis` (Cost/SearchProblem.h, `ChangeRate`):
/// bytes are those of one device and strand if the axis were `full`.
double SplitReformsPass::getSeconds(ReformOp step, unsigned axis) const {
  Forms from = getForms(step.getInput().getType(), mesh);
  Forms to = getForms(step.getType(), mesh);
  if (from[axis].isFull())
    return 0;
  ChangeKind kind =
      to[axis].isFull() ? ChangeKind::AllGather : ChangeKind::AllToAll;
  if (from[axis].isReduce())
    kind =
        to[axis].isFull() ? ChangeKind::AllReduce : ChangeKind::ReduceScatter;
  std::optional<ChangePrice> price = getPrice(step, mesh.getName(axis), kind);
  if (!price)
    return 0;
  double bytes = getBytes(step.getType());
  for (unsigned other = 0; other < mesh.getNumAxes(); ++other)
    if (other != axis && from[other].isGather())
      bytes /= mesh.getSize(other);
  int64_t times = getLoop(step) ? getIterations(step) : 1;
  return times * (price->latency + bytes * price->secondsPerByte);
}

/// Notes where strands join, and what the plan counts for the change. The sum
/// of a gradient, in the stage that makes it, is no join.
void SplitReformsPass::markPlanned(ReformOp step) const {
  std::optional<int64_t> stage = getPlannedStage(step);
  auto axis = getReformedAxis(mesh, getForms(step.getInput().getType(), mesh),
                              getForms(step.getType(), mesh));
  if (!axis)
    return;
  bool isSlice = getForms(step.getInput().getType(), mesh)[*axis].isFull();
  Operation *producer = step.getInput().getDefiningOp();
  bool isSum = producer && !isa<ReformOp>(producer) &&
               getPlannedStage(producer) == stage;
  editPlanned(step, [&](Planned &planned) {
    planned.joins |= stage && mesh.isTime(*axis) && !isSlice && !isSum;
    planned.seconds = getSeconds(step, *axis);
  });
}

LogicalResult SplitReformsPass::split(ReformOp reform) {
  // What a plan names is one change already.
  if (getPlannedStage(reform) &&
      getReformedAxis(mesh, getForms(reform.getInput().getType(), mesh),
                      getForms(reform.getType(), mesh))) {
    markPlanned(reform);
    return success();
  }
  const auto &path = find(reform.getInput().getType(), reform.getType());
  if (!path)
    return reform.emitError()
           << "no sequence of reforms changes " << reform.getInput().getType()
           << " into " << reform.getType();
  Value value = reform.getInput();
  std::optional<nn::PassKind> pass = nn::getPass(reform);
  for (RankedTensorType type : *path) {
    ReformOp *known = llvm::find_if(made[value], [&](ReformOp step) {
      return step.getType() == type && nn::getPass(step) == pass &&
             getLoop(step) == getLoop(reform);
    });
    if (known != made[value].end()) {
      value = *known;
      continue;
    }
    OpBuilder builder(reform);
    auto step = ReformOp::create(builder, reform.getLoc(), type, value);
    if (pass)
      nn::setPass(step, *pass);
    setLoopOf(step, reform);
    if (std::optional<int64_t> stage = getPlannedStage(reform))
      setPlannedStage(step, *stage);
    markPlanned(step);
    made[value].push_back(step);
    value = step;
  }
  reform.replaceAllUsesWith(value);
  reform.erase();
  return success();
}

LogicalResult SplitReformsPass::runOnStep(func::FuncOp step) {
  mesh = getMesh(step);
  rates = getRates(step);
  paths.clear();
  made.clear();
  auto reforms = llvm::to_vector(step.getBody().front().getOps<ReformOp>());
  for (ReformOp reform : reforms)
    if (failed(split(reform)))
      return failure();
  return success();
}
