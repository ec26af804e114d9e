//===- CarrySums.cpp - sums carried by a loop -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The zeros of a loop lie side by side, so that one command makes them. A sum
// over strands is taken apart, so that each product may add to them.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_CARRYSUMS
#include "tandem/Conversion/Lower/Passes.h.inc"

/// The terms of a sum over strands that nothing else reads.
static void collectTerms(Value value, SmallVectorImpl<Value> &terms) {
  auto add = value.getDefiningOp<nn::AddOp>();
  if (!add || !spmd::isPartOfChange(add) || !value.hasOneUse())
    return terms.push_back(value);
  collectTerms(add.getLhs(), terms);
  collectTerms(add.getRhs(), terms);
}

static void addTo(spmd::CarryOp carry, Value zeros) {
  SmallVector<Value> terms;
  collectTerms(carry.getInput(), terms);
  OpBuilder builder(carry);
  DictionaryAttr attributes = carry->getDiscardableAttrDictionary();
  Value sum = zeros;
  for (Value term : terms) {
    sum =
        nn::AddOp::create(builder, carry.getLoc(), zeros.getType(), sum, term);
    sum.getDefiningOp()->setDiscardableAttrs(attributes);
  }
  Value kept = sched::KeepOp::create(builder, carry.getLoc(), zeros.getType(),
                                     sum, zeros);
  kept.getDefiningOp()->setDiscardableAttrs(attributes);
  carry.replaceAllUsesWith(kept);
  carry.erase();
}

/// One step in front of the loop that `first` begins.
static void carry(sched::StepOp first, ArrayRef<spmd::CarryOp> carries) {
  OpBuilder builder(first);
  sched::QueueAttr queue =
      sched::Queues(first).getFirst(sched::QueueRole::Compute);
  auto step =
      sched::StepOp::create(builder, first.getLoc(), TypeRange(),
                            sched::EventType::get(builder.getContext()), queue,
                            first.getStage(), first.getStrand(), ValueRange());
  builder.createBlock(&step.getBody());
  auto yield = sched::YieldOp::create(builder, step.getLoc());
  builder.setInsertionPoint(yield);
  llvm::MapVector<Type, SmallVector<spmd::CarryOp>> byElement;
  for (spmd::CarryOp op : carries)
    byElement[op.getResult().getType().getElementType()].push_back(op);
  for (auto &[element, ops] : byElement) {
    SmallVector<Type> types;
    for (spmd::CarryOp op : ops)
      types.push_back(op.getResult().getType());
    auto zeros = sched::ZerosOp::create(builder, step.getLoc(), types);
    for (auto [op, zero] : llvm::zip_equal(ops, zeros.getResults()))
      addTo(op, zero);
  }
}

static void carrySums(func::FuncOp function) {
  llvm::MapVector<int64_t, sched::StepOp> first;
  llvm::MapVector<int64_t, SmallVector<spmd::CarryOp>> carries;
  for (auto step : function.getOps<sched::StepOp>())
    if (std::optional<int64_t> loop = spmd::getLoop(step)) {
      first.try_emplace(*loop, step);
      llvm::append_range(carries[*loop],
                         step.getBody().front().getOps<spmd::CarryOp>());
    }
  for (auto &[loop, ops] : carries)
    if (!ops.empty())
      carry(first[loop], ops);
}

namespace {
struct CarrySumsPass : impl::CarrySumsBase<CarrySumsPass> {
  void runOnOperation() override {
    if (failed(rewriteSteps(getOperation(), carrySums)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
