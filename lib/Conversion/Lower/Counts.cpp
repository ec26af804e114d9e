//===- Counts.cpp - FLOPs and bytes of commands ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Counts.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;

namespace tandem::lower {

int64_t countFlops(func::FuncOp kernel) {
  double flops = 0;
  for (Operation &op : kernel.getBody().front().without_terminator())
    flops += getFlops(&op);
  return static_cast<int64_t>(flops);
}

/// Of a table only the rows, and elements, that are asked for.
static int64_t countRead(BlockArgument argument) {
  int64_t rows = 0;
  for (OpOperand &use : argument.getUses()) {
    Operation *op = use.getOwner();
    bool readsAtIndices = op->hasTrait<nn::Lookup>() || isa<nn::GatherOp>(op);
    if (!readsAtIndices || use.getOperandNumber() != 0)
      return countBytes(argument);
    rows += countBytes(op->getResults());
  }
  return std::min(rows, countBytes(argument));
}

int64_t countTraffic(func::FuncOp kernel) {
  Block &body = kernel.getBody().front();
  int64_t bytes = countBytes(body.getTerminator()->getOperands());
  for (BlockArgument argument : body.getArguments())
    bytes += countRead(argument);
  return bytes;
}

int64_t countUntouched(func::FuncOp kernel, unsigned result) {
  Value sum = kernel.front().getTerminator()->getOperand(result);
  Operation *rows = getRowSum(sum.getDefiningOp())->rows;
  return 2 * std::max<int64_t>(0, countBytes(sum) -
                                      countBytes(rows->getOperand(0)));
}

int64_t countSentBytes(Operation *op) {
  int64_t members = 1;
  spmd::MeshAttr mesh = spmd::getMesh(op);
  for (Attribute axis : op->getAttrOfType<ArrayAttr>("axes"))
    if (auto index = mesh.lookup(cast<StringAttr>(axis).getValue()))
      members *= mesh.getSize(*index);
  int64_t in = countBytes(op->getOperand(0));
  if (isa<spmd::AllReduceOp>(op))
    return 2 * in * (members - 1) / members;
  if (isa<spmd::AllGatherOp>(op))
    return in * (members - 1);
  return in * (members - 1) / members;
}

} // namespace tandem::lower
