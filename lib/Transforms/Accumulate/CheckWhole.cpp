//===- CheckWhole.cpp - operators on the whole batch ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckWhole.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

static bool isNothingCut(func::FuncOp step,
                         llvm::function_ref<bool(Operation *)> isOnce) {
  return llvm::all_of(step.getBody().front(),
                      [&](Operation &op) { return isOnce(&op); });
}

/// What reads the batch and runs once, on the whole of it.
static SmallVector<Operation *>
findWhole(func::FuncOp step, llvm::function_ref<bool(Operation *)> isOnce) {
  SmallVector<Operation *> whole;
  llvm::DenseSet<Value> ofBatch;
  for (BlockArgument argument : step.getArguments()) {
    DictionaryAttr attrs = step.getArgAttrDict(argument.getArgNumber());
    if (attrs && nn::getRole(attrs) == nn::Role::Input)
      ofBatch.insert(argument);
  }
  for (Operation &op : step.getBody().front()) {
    auto isOfBatch = [&](Value value) { return ofBatch.contains(value); };
    if (nn::getPass(&op) == nn::PassKind::Update ||
        llvm::none_of(op.getOperands(), isOfBatch))
      continue;
    ofBatch.insert_range(op.getResults());
    if (isOnce(&op) && !isa<ReformOp>(op))
      whole.push_back(&op);
  }
  return whole;
}

LogicalResult tandem::checkWhole(func::FuncOp step, int64_t count,
                                 llvm::function_ref<bool(Operation *)> isOnce) {
  SmallVector<Operation *> whole = findWhole(step, isOnce), products;
  llvm::copy_if(whole, std::back_inserter(products),
                llvm::IsaPred<nn::LibraryOpInterface>);
  auto title = [&](InFlightDiagnostic line, Operation *first) {
    line << "accumulate=" << count << ": '" << first->getName().getStringRef()
         << "' runs on the whole batch, with " << products.size()
         << " products in all: rows are taken one by one, chosen, moved or "
            "compared in front of it; ";
    return line;
  };
  if (isNothingCut(step, isOnce)) {
    if (whole.empty())
      return step.emitError()
             << "accumulate=" << count
             << ": nothing is computed per row, expected a batch that is cut";
    return title(whole.front()->emitError(), whole.front())
           << "expected operators that compute each row alone";
  }
  if (!products.empty())
    title(products.front()->emitWarning(), products.front())
        << "its memory is not that of one iteration";
  return success();
}
