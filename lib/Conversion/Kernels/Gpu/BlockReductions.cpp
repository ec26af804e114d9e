//===- BlockReductions.cpp - reductions over a team's threads -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gpu/BlockNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tandem;

/// All threads of a warp get the same, as it does not matter which of two is
/// the first.
SmallVector<Value> BlockNestEmitter::reduceWarp(linalg::GenericOp op,
                                                ValueRange values) {
  SmallVector<Value> sofar(values);
  for (int64_t distance = std::min(kWarp, numThreads) / 2; distance > 0;
       distance /= 2) {
    SmallVector<Value> others;
    for (Value value : sofar)
      others.push_back(kernel.shuffle(value, distance));
    sofar = combine(op, sofar, others);
  }
  return sofar;
}

/// The values of a team's threads as one, which all of them get: those of warps
/// in shared memory, in their order.
SmallVector<Value> BlockNestEmitter::reduceBlock(linalg::GenericOp op,
                                                 ValueRange values) {
  SmallVector<Value> sofar = reduceWarp(op, values);
  int64_t numWarps = numThreads / kWarp;
  if (numWarps <= 1)
    return sofar;
  int64_t slots = numWarps * values.size();
  Value shared = kernel.getShared(kSharedSlot * slots * teamsPerBlock);
  Value ofTeam = arith::DivUIOp::create(builder, loc, kernel.getThread(),
                                        kernel.constant(numThreads));
  ofTeam = arith::MulIOp::create(builder, loc, ofTeam, kernel.constant(slots));
  auto slot = [&](size_t number, Value warp) -> Value {
    Value first = arith::AddIOp::create(builder, loc, ofTeam,
                                        kernel.constant(number * numWarps));
    Value index = arith::AddIOp::create(builder, loc, warp, first);
    return LLVM::GEPOp::create(builder, loc, shared.getType(),
                               builder.getI64Type(), shared, ValueRange{index});
  };
  {
    OpBuilder::InsertionGuard guard(builder);
    Value thread = getMember(), size = kernel.constant(kWarp);
    Value lane = arith::RemUIOp::create(builder, loc, thread, size);
    Value warp = arith::DivUIOp::create(builder, loc, thread, size);
    kernel.beginIf(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                         lane, kernel.constant(0)));
    for (auto [number, value] : llvm::enumerate(sofar))
      kernel.store(slot(number, warp), kernel.constant(0), value);
  }
  kernel.emitBarrier();
  auto load = [&](int64_t warp) {
    SmallVector<Value> loaded;
    for (auto [number, value] : llvm::enumerate(values))
      loaded.push_back(kernel.load(slot(number, kernel.constant(warp)),
                                   kernel.constant(0), value.getType()));
    return loaded;
  };
  SmallVector<Value> totals = load(0);
  for (int64_t warp = 1; warp < numWarps; ++warp)
    totals = combine(op, totals, load(warp));
  kernel.emitBarrier(); // before the next one writes there
  return totals;
}
