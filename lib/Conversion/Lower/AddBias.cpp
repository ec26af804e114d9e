//===- AddBias.cpp - products add a bias to what they make ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_ADDBIAS
#include "tandem/Conversion/Lower/Passes.h.inc"

/// Whether libraries read `value`, or views of it, and nothing else does.
static bool isForLibraries(Value value) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [](auto *user) {
    if (isa<nn::StridedOpInterface>(user))
      return isForLibraries(user->getResult(0));
    return isa<sched::LibraryCallOpInterface>(user);
  });
}

/// A product of contiguous rows that only reshapes and `add` see.
static sched::MatmulOp getProduct(Value term) {
  while (auto reshape = term.getDefiningOp<nn::ReshapeOp>()) {
    if (!term.hasOneUse())
      return {};
    term = reshape.getInput();
  }
  auto product = term.getDefiningOp<sched::MatmulOp>();
  if (!product || !term.hasOneUse() || product.getSum() || product.getBias())
    return {};
  int64_t n = product.getN();
  bool isPlain = product.getBatch().empty() &&
                 product.getStridesC() == ArrayRef<int64_t>({n, 1});
  return isPlain ? product : sched::MatmulOp();
}

/// Whether `value` is there when the step of `product` comes to it.
static bool isThereFor(Value value, sched::MatmulOp product) {
  Operation *maker = value.getDefiningOp();
  return !maker || maker->getBlock() != product->getBlock() ||
         maker->isBeforeInBlock(product);
}

static void addBias(nn::AddOp add) {
  for (auto [term, bias] : {std::pair(add.getLhs(), add.getRhs()),
                            std::pair(add.getRhs(), add.getLhs())}) {
    sched::MatmulOp product = getProduct(term);
    auto type = cast<RankedTensorType>(bias.getType());
    if (!product || term.getType() != add.getType() || type.getRank() != 1 ||
        type.getDimSize(0) != static_cast<int64_t>(product.getN()) ||
        type.getElementType() != add.getType().getElementType() ||
        product->getBlock() != add->getBlock() || !isThereFor(bias, product) ||
        !isForLibraries(add.getResult()))
      continue;
    product.getBiasMutable().assign(bias);
    add.getResult().replaceAllUsesWith(term);
    add.erase();
    return;
  }
}

namespace {
struct AddBiasPass : impl::AddBiasBase<AddBiasPass> {
  void runOnOperation() override {
    auto rewrite = [](func::FuncOp function) {
      rewriteEach<nn::AddOp>(function, addBias);
    };
    if (failed(rewriteSteps(getOperation(), rewrite)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
