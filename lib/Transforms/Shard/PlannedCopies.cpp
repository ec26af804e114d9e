//===- PlannedCopies.cpp - planned copies ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlannedCopies.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

/// Checks an attribute about the copy of a result, which has `numAxes` forms.
static LogicalResult check(Operation *op, Attribute copy, unsigned result,
                           size_t numResults, size_t numAxes, MeshAttr mesh) {
  if (result < numResults && numAxes == mesh.getNumAxes())
    return success();
  return op->emitError() << "has the copy " << copy << ", expected one of its "
                         << numResults << " results with a form per axis of "
                         << mesh;
}

LogicalResult PlannedCopies::add(Operation *op, ValueRange values,
                                 const Planned &planned, MeshAttr mesh) {
  for (CopyAttr copy : planned.copies) {
    if (failed(check(op, copy, copy.getResult(), values.size(),
                     copy.getNumAxes(), mesh)))
      return failure();
    copies[values[copy.getResult()]].push_back(copy.getCopy());
  }
  for (WaitAttr wait : planned.waits) {
    if (failed(check(op, wait, wait.getResult(), values.size(),
                     wait.getCodes().size(), mesh)))
      return failure();
    waits[values[wait.getResult()]].push_back(wait.getWait());
  }
  return success();
}

LogicalResult PlannedCopies::read(func::FuncOp step, MeshAttr mesh) {
  copies.clear();
  waits.clear();
  for (BlockArgument argument : step.getArguments())
    if (failed(add(step, {argument},
                   getPlannedArg(step, argument.getArgNumber()), mesh)))
      return failure();
  for (Operation &op : step.getBody().front())
    if (failed(add(&op, op.getResults(), getPlanned(&op), mesh)))
      return failure();
  return success();
}

ArrayRef<Copy> PlannedCopies::getCopies(Value value) const {
  auto it = copies.find(value);
  return it == copies.end() ? ArrayRef<Copy>() : it->second;
}

const Copy *PlannedCopies::find(Value value, const Forms &forms,
                                std::optional<nn::PassKind> pass) const {
  for (const Copy &copy : getCopies(value))
    if (copy.path.back() == forms && nn::symbolizePassKind(copy.pass) == pass)
      return &copy;
  return nullptr;
}

const Wait *PlannedCopies::findWait(Value value, const Forms &forms) const {
  auto it = waits.find(value);
  if (it != waits.end())
    for (const Wait &wait : it->second)
      if (wait.forms == forms)
        return &wait;
  return nullptr;
}
