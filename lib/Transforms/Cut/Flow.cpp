//===- Flow.cpp - what the data flows through -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Flow.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem;

bool tandem::isForward(Operation &op) {
  return nn::getPass(&op) == nn::PassKind::Forward &&
         !op.hasTrait<OpTrait::IsTerminator>();
}

Value tandem::skipViews(Value value) {
  while (Operation *maker = value.getDefiningOp()) {
    if (!maker->hasTrait<nn::View>() && !isa<nn::ConvertOp>(maker) &&
        !nn::fetchesArgument(maker))
      break;
    value = maker->getOperand(0);
  }
  return value;
}

llvm::DenseSet<Value> tandem::findOfData(func::FuncOp step) {
  llvm::DenseSet<Value> ofData;
  for (BlockArgument argument : step.getArguments())
    if (nn::getRole(step.getArgAttrDict(argument.getArgNumber())) ==
        nn::Role::Input)
      ofData.insert(argument);
  for (Operation &op : step.getBody().front())
    if (isForward(op) && llvm::any_of(op.getOperands(), [&](Value operand) {
          return ofData.contains(operand);
        }))
      ofData.insert(op.result_begin(), op.result_end());
  return ofData;
}
