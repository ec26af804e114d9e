//===- Points.cpp - programs of points ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Sched/Points.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace tandem::sched;

#define GET_OP_CLASSES
#include "tandem/Dialect/Sched/PointsOps.cpp.inc"

LogicalResult RunOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (symbols.lookupNearestSymbolFrom<ModuleOp>(*this, getActionAttr()))
    return success();
  return emitOpError("runs '")
         << getAction() << "', expected a module that is an action";
}

std::string RunOp::getPassName() {
  StringRef letter = getAction().split('.').second.take_front(1);
  return (getSection() + letter + Twine(getMicrobatch().value_or(0))).str();
}

/// Whether `whole` has rows like `row`, `count` of them if it is not negative.
static bool isStackOf(Type whole, Type row, int64_t count) {
  auto outer = cast<RankedTensorType>(whole);
  auto inner = cast<RankedTensorType>(row);
  return outer.getElementType() == inner.getElementType() &&
         outer.getRank() == inner.getRank() + 1 &&
         outer.getShape().drop_front() == inner.getShape() &&
         (count < 0 || outer.getDimSize(0) == count);
}

LogicalResult RowOp::verify() {
  auto whole = cast<RankedTensorType>(getWhole().getType());
  if (!isStackOf(whole, getRow().getType(), -1))
    return emitOpError("takes ") << getRow().getType() << " of " << whole
                                 << ", expected its shape behind the first "
                                    "dimension";
  if (static_cast<int64_t>(getMicrobatch()) >= whole.getDimSize(0))
    return emitOpError("takes microbatch ")
           << getMicrobatch() << " of " << whole.getDimSize(0);
  return success();
}

LogicalResult StackOp::verify() {
  for (Type row : getRows().getTypes())
    if (!isStackOf(getWhole().getType(), row, getRows().size()))
      return emitOpError("stacks ") << getRows().size() << " rows of " << row
                                    << " into " << getWhole().getType()
                                    << ", expected one row for each of the "
                                       "first dimension";
  return success();
}
