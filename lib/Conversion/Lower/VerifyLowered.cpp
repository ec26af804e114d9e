//===- VerifyLowered.cpp - the exit check of lower ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandOrder.h"
#include "Counts.h"
#include "Steps.h"
#include "tandem/Conversion/Lower/Lower.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_VERIFYLOWERED
#include "tandem/Conversion/Lower/Passes.h.inc"

static LogicalResult verifyPlace(sched::AllocOp alloc, int64_t arena) {
  int64_t bytes = countBytes(ValueRange(alloc.getBuffer()));
  if (!alloc.getOffset())
    return alloc.emitError("buffer has no offset in the arena");
  int64_t offset = *alloc.getOffset();
  if (offset < 0 || offset + bytes > arena)
    return alloc.emitError("buffer lies at bytes ")
           << offset << " to " << offset + bytes << " of an arena of " << arena;
  return success();
}

/// Two uses of the same bytes, one of them writing, must be ordered.
static LogicalResult verifyOrdered(const Access &first, const Access &second,
                                   const CommandOrder &order) {
  if ((!first.isWrite && !second.isWrite) || first.command == second.command ||
      order.happensBefore(first.command, second.command) ||
      order.happensBefore(second.command, first.command))
    return success();
  InFlightDiagnostic diagnostic =
      second.command->emitError("uses bytes of a buffer that another command "
                                "uses at the same time: no event orders them");
  diagnostic.attachNote(first.command->getLoc()) << "the other command";
  return diagnostic;
}

/// Between two uses of an alloc no other alloc's use may fall: the values would
/// be lost.
static LogicalResult verifyLifetimes(sched::AllocOp a, ArrayRef<Access> usesA,
                                     sched::AllocOp b, ArrayRef<Access> usesB,
                                     const CommandOrder &order) {
  auto allBefore = [&](ArrayRef<Access> first, ArrayRef<Access> second) {
    return llvm::all_of(first, [&](const Access &x) {
      return llvm::all_of(second, [&](const Access &y) {
        return order.happensBefore(x.command, y.command);
      });
    });
  };
  if (allBefore(usesA, usesB) || allBefore(usesB, usesA))
    return success();
  InFlightDiagnostic diagnostic = b->emitError("buffer at bytes ")
                                  << *b.getOffset()
                                  << " overlaps another one that is alive at "
                                     "the same time, at bytes "
                                  << *a.getOffset();
  diagnostic.attachNote(a.getLoc()) << "the other buffer";
  return diagnostic;
}

static LogicalResult
verifyArena(func::FuncOp function, const CommandOrder &order,
            const llvm::DenseMap<Value, SmallVector<Access>> &accesses) {
  SmallVector<sched::AllocOp> allocs(function.getOps<sched::AllocOp>());
  llvm::sort(allocs, [](sched::AllocOp a, sched::AllocOp b) {
    if (*a.getOffset() != *b.getOffset())
      return *a.getOffset() < *b.getOffset();
    return a->isBeforeInBlock(b);
  });
  auto getUses = [&](sched::AllocOp alloc) -> ArrayRef<Access> {
    auto it = accesses.find(alloc.getBuffer());
    return it == accesses.end() ? ArrayRef<Access>() : it->second;
  };
  for (size_t i = 0; i < allocs.size(); ++i) {
    int64_t end =
        *allocs[i].getOffset() + countBytes(ValueRange(allocs[i].getBuffer()));
    for (size_t j = i + 1; j < allocs.size() &&
                           static_cast<int64_t>(*allocs[j].getOffset()) < end;
         ++j)
      if (countBytes(ValueRange(allocs[j].getBuffer())) != 0 &&
          failed(verifyLifetimes(allocs[i], getUses(allocs[i]), allocs[j],
                                 getUses(allocs[j]), order)))
        return failure();
  }
  return success();
}

/// The uses of one root are ordered, and an alloc or result is written first.
static LogicalResult verifyUses(ArrayRef<Access> uses,
                                const CommandOrder &order) {
  for (size_t i = 0; i < uses.size(); ++i)
    for (size_t j = i + 1; j < uses.size(); ++j)
      if (uses[i].range.overlaps(uses[j].range) &&
          failed(verifyOrdered(uses[i], uses[j], order)))
        return failure();
  if (isa<BlockArgument>(uses.front().range.root) || uses.front().isWrite)
    return success();
  return uses.front().command->emitError(
      "reads a buffer that no command wrote before");
}

static LogicalResult verify(func::FuncOp function, int64_t arena) {
  for (auto alloc : function.getOps<sched::AllocOp>())
    if (failed(verifyPlace(alloc, arena)))
      return failure();
  CommandOrder order(function);
  auto accesses = getAccesses(order);
  // In the order of the text, so that the first error is always the same one.
  llvm::SmallPtrSet<void *, 32> seen;
  for (sched::CommandOpInterface command : order.getCommands()) {
    SmallVector<Value> buffers = command.getReads();
    llvm::append_range(buffers, command.getWrites());
    for (Value buffer : buffers) {
      Value root = getRange(buffer).root;
      if (seen.insert(root.getAsOpaquePointer()).second &&
          failed(verifyUses(accesses[root], order)))
        return failure();
    }
  }
  return verifyArena(function, order, accesses);
}

namespace {
struct VerifyLoweredPass : impl::VerifyLoweredBase<VerifyLoweredPass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    auto arena = getOperation()->getAttrOfType<IntegerAttr>(kArenaAttrName);
    if (!function || failed(verifyCommands(function)))
      return signalPassFailure();
    if (!arena)
      getOperation().emitError("module has no attribute ") << kArenaAttrName;
    if (!arena || failed(verify(function, arena.getInt())))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
