//===- ProductRows.cpp - products and their consumers' rows ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProductRows.h"

using namespace mlir;

namespace tandem::lower {

Value skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

sched::MatmulOp getRowsProduct(Value term, bool isOwn) {
  for (Value value = term; isOwn;
       value = value.getDefiningOp()->getOperand(0)) {
    if (!value.hasOneUse())
      return {};
    if (!value.getDefiningOp<nn::ReshapeOp>())
      break;
  }
  Value made = skipReshapes(term);
  auto product = made.getDefiningOp<sched::MatmulOp>();
  if (!product || made != product.getResult() || product.getBias() ||
      product.getEpilogue() != sched::Epilogue::None || product.getSums())
    return {};
  int64_t n = product.getN();
  bool isPlain = product.getBatch().empty() &&
                 product.getStridesC() == ArrayRef<int64_t>({n, 1});
  return isPlain ? product : sched::MatmulOp();
}

bool isDoneBefore(Operation *first, Operation *second) {
  if (first->getBlock() == second->getBlock())
    return first->isBeforeInBlock(second);
  auto from = first->getParentOfType<sched::StepOp>();
  auto to = second->getParentOfType<sched::StepOp>();
  return from && to && from->getBlock() == to->getBlock() &&
         from.getQueue() == to.getQueue() && from->isBeforeInBlock(to);
}

/// Whether `value`, which the step of `product` reads, is there when it comes
/// to it.
static bool isThereFor(Value value, sched::MatmulOp product) {
  Operation *maker = value.getDefiningOp();
  return !maker || maker->getBlock() != product->getBlock() ||
         maker->isBeforeInBlock(product);
}

bool isBiasOf(Value value, sched::MatmulOp product) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getRank() == 1 &&
         type.getDimSize(0) == static_cast<int64_t>(product.getN()) &&
         type.getElementType() ==
             product.getResult().getType().getElementType() &&
         isThereFor(value, product);
}

/// Whether nothing else reads `value`; nobody may.
static bool isForNoneElse(Value value,
                          llvm::function_ref<bool(Operation *)> isFree) {
  return llvm::all_of(value.getUsers(), [&](auto *user) {
    if (isa<nn::StridedOpInterface>(user))
      return isForNoneElse(user->getResult(0), isFree);
    return isa<sched::LibraryCallOpInterface>(user) || isFree(user);
  });
}

bool isForLibraries(Value value, llvm::function_ref<bool(Operation *)> isFree) {
  return !value.use_empty() && isForNoneElse(value, isFree);
}

} // namespace tandem::lower
