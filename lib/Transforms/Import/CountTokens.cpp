//===- CountTokens.cpp - the positions of the sequences of a batch --------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/NN/ModelFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "llvm/ADT/SetVector.h"

namespace tandem {
#define GEN_PASS_DEF_COUNTTOKENSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct CountTokensPass : tandem::impl::CountTokensPassBase<CountTokensPass> {
  void runOnOperation() override;
};
} // namespace

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Rows of the input, of rows and positions, that indices are made of; 0 where
/// they come from elsewhere.
static int64_t countRows(Value indices, func::FuncOp step) {
  llvm::SetVector<Value> makers;
  makers.insert(indices);
  for (size_t i = 0; i < makers.size(); ++i) {
    if (Operation *op = makers[i].getDefiningOp()) {
      makers.insert_range(op->getOperands());
      continue;
    }
    unsigned number = cast<BlockArgument>(makers[i]).getArgNumber();
    auto batch =
        step.getArgAttrOfType<IntegerAttr>(number, nn::kBatchDimAttrName);
    RankedTensorType type = getType(makers[i]);
    if (batch && batch.getInt() == 0 && type.getRank() == 2 &&
        !isa<FloatType>(type.getElementType()))
      return type.getDimSize(0);
  }
  return 0;
}

/// Whether each row becomes one vector: its positions are columns of a table.
static bool becomesVectors(Value found, int64_t rows) {
  int64_t count = getType(found).getNumElements();
  llvm::SetVector<Value> same;
  same.insert(found);
  for (size_t i = 0; i < same.size(); ++i)
    for (Operation *user : same[i].getUsers())
      for (Value result : user->getResults()) {
        RankedTensorType type = getType(result);
        if (nn::getPass(user) != nn::PassKind::Forward ||
            isa<nn::LibraryOpInterface>(user) || type.getNumElements() != count)
          continue;
        if (type.getRank() == 2 && type.getDimSize(0) == rows)
          return true;
        same.insert(result);
      }
  return false;
}

void CountTokensPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step || step.isExternal())
    return;
  module->removeAttr(nn::kTokensAttrName);
  for (auto lookup : step.getOps<nn::EmbeddingOp>()) {
    int64_t rows = countRows(lookup.getIndices(), step);
    int64_t count = getType(lookup.getIndices()).getNumElements();
    if (rows == 0 || count <= rows || becomesVectors(lookup.getResult(), rows))
      continue;
    module->setAttr(nn::kTokensAttrName,
                    Builder(module.getContext()).getI64IntegerAttr(count));
    return;
  }
}
