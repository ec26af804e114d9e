//===- OfferSaved.cpp - sums that regions need not make again -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/DenseSet.h"
#include <map>

namespace tandem {
#define GEN_PASS_DEF_OFFERSAVEDPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::nn;

/// Name, attributes, operands and types.
using Computation = std::vector<const void *>;

namespace {
struct OfferSavedPass
    : tandem::StepPass<tandem::impl::OfferSavedPassBase<OfferSavedPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  Computation describe(Operation &op) const;
  Operation *findFirst(Operation &op);
  bool maySum(Operation &op) const;
  void offerSums(Block &block);

  /// The first operators that compute something, and their results by those of
  /// the operators that compute it again.
  std::map<Computation, Operation *> firsts;
  llvm::DenseMap<Value, Value> firstOf;
  llvm::DenseSet<Value> sums;
};
} // namespace

/// What is computed, in whatever pass and run.
Computation OfferSavedPass::describe(Operation &op) const {
  NamedAttrList facts(op.getDiscardableAttrDictionary());
  for (StringRef name : {kPassAttrName, kAgainAttrName, kIdAttrName})
    facts.erase(name);
  Computation computation{
      op.getName().getAsOpaquePointer(),
      op.getPropertiesAsAttribute().getAsOpaquePointer(),
      facts.getDictionary(op.getContext()).getAsOpaquePointer()};
  for (Value operand : op.getOperands()) {
    auto first = firstOf.find(operand);
    computation.push_back((first == firstOf.end() ? operand : first->second)
                              .getAsOpaquePointer());
  }
  for (Type type : op.getResultTypes())
    computation.push_back(type.getAsOpaquePointer());
  return computation;
}

Operation *OfferSavedPass::findFirst(Operation &op) {
  Operation *first = firsts.try_emplace(describe(op), &op).first->second;
  if (first != &op)
    for (auto [result, same] : llvm::zip(op.getResults(), first->getResults()))
      firstOf[result] = same;
  return first;
}

/// Whether its results may be left to be summed: those of a product, and of
/// what is linear in such.
bool OfferSavedPass::maySum(Operation &op) const {
  auto interface = dyn_cast<tandem::spmd::SignatureOpInterface>(op);
  if (!interface)
    return false;
  tandem::spmd::Rule rule = interface.getRule();
  auto isSum = [&](unsigned operand) {
    return sums.contains(op.getOperand(operand));
  };
  return rule.makesSums() || llvm::any_of(rule.linear, [&](const auto &group) {
           return llvm::all_of(group, isSum);
         });
}

/// A choice in front of the readers of what is made again.
static Operation *offer(Value saved, Value again) {
  OpBuilder builder(again.getContext());
  builder.setInsertionPointAfterValue(again);
  auto either = EitherOp::create(builder, again.getLoc(), again.getType(),
                                 ValueRange{saved, again});
  setPass(either, PassKind::Backward);
  either->setAttr(kAgainAttrName, builder.getUnitAttr());
  again.replaceAllUsesExcept(either, either);
  return either;
}

/// With numbers behind all others, if these have any.
void OfferSavedPass::offerSums(Block &block) {
  int64_t next = 0;
  SmallVector<std::pair<Value, Value>> offers;
  for (Operation &op : block.without_terminator()) {
    next = std::max(next, getId(&op).value_or(-1) + 1);
    if (op.getNumRegions() > 0)
      continue;
    Operation *first = findFirst(op);
    if (!maySum(op))
      continue;
    sums.insert_range(op.getResults());
    if (!isAgain(&op) || getPass(first) != PassKind::Forward)
      continue;
    for (auto [saved, again] : llvm::zip(first->getResults(), op.getResults()))
      offers.emplace_back(saved, again);
  }
  for (auto [saved, again] : offers)
    if (Operation *either = offer(saved, again); next > 0)
      tandem::setInteger(either, kIdAttrName, next++);
}

LogicalResult OfferSavedPass::runOnStep(func::FuncOp step) {
  firsts.clear();
  firstOf.clear();
  sums.clear();
  offerSums(step.getBody().front());
  return success();
}
