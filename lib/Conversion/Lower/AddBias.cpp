//===- AddBias.cpp - bias as part of products -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProductRows.h"
#include "Steps.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_ADDBIAS
#include "tandem/Conversion/Lower/Passes.h.inc"

static void addBias(nn::AddOp add) {
  for (auto [term, bias] : {std::pair(add.getLhs(), add.getRhs()),
                            std::pair(add.getRhs(), add.getLhs())}) {
    sched::MatmulOp product = getRowsProduct(term, /*isOwn=*/true);
    if (!product || product.getSum() || term.getType() != add.getType() ||
        product->getBlock() != add->getBlock() || !isBiasOf(bias, product) ||
        !isForLibraries(add.getResult()))
      continue;
    product.getBiasMutable().assign(bias);
    takeOrigin(product.getResult(), add.getResult());
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
