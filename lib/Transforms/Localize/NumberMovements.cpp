//===- NumberMovements.cpp - an id per collective and transfer ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Points.h"
#include "tandem/Transforms/Localize/Localize.h"

namespace tandem {
#define GEN_PASS_DEF_NUMBERMOVEMENTSPASS
#include "tandem/Transforms/Localize/Passes.h.inc"
} // namespace tandem

using namespace mlir;

namespace {
struct NumberMovementsPass
    : tandem::impl::NumberMovementsPassBase<NumberMovementsPass> {
  void runOnOperation() override {
    int64_t last = -1;
    SmallVector<Operation *> movements;
    getOperation()->walk([&](Operation *op) {
      std::optional<int64_t> id = tandem::nn::getId(op);
      last = std::max(last, id.value_or(-1));
      if (!id &&
          (tandem::spmd::isCollective(op) || isa<tandem::sched::ReceiveOp>(op)))
        movements.push_back(op);
    });
    if (last < 0)
      return;
    for (Operation *op : movements)
      tandem::setInteger(op, tandem::nn::kIdAttrName, ++last);
  }
};
} // namespace
