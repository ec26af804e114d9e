//===- PlaceBuffers.cpp - offsets in the arena ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandOrder.h"
#include "Counts.h"
#include "Steps.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Conversion/Lower/Placement.h"
#include "tandem/Dialect/Sched/Host.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_PLACEBUFFERS
#include "tandem/Conversion/Lower/Passes.h.inc"

using Accesses = llvm::DenseMap<Value, SmallVector<Access>>;

/// Gives what lies on the device, or what lies on the host, offsets in an
/// arena. Returns its bytes. Buffers begin at a cache line, which is also the
/// widest vector.
static int64_t placeBuffers(func::FuncOp function, const CommandOrder &order,
                            const Accesses &accesses, bool onHost) {
  int64_t alignment = sched::getDevice(function).getValueSpace().alignment;
  SmallVector<sched::AllocOp> allocs;
  std::vector<Buffer> buffers;
  for (auto alloc : function.getOps<sched::AllocOp>()) {
    auto it = accesses.find(alloc.getBuffer());
    if (it == accesses.end() ||
        alloc->hasAttr(sched::kHostBufferAttrName) != onHost)
      continue;
    allocs.push_back(alloc);
    int64_t bytes = countBytes(alloc->getResults());
    buffers.push_back({static_cast<int64_t>(llvm::alignTo(bytes, alignment)),
                       getLifetime(getUsers(it->second, order), order), 0});
  }
  bool isDraft = function->getParentOp()->hasAttr(sched::kDraftAttrName);
  int64_t size = place(buffers, order.getClocks(), isDraft);
  for (auto [alloc, buffer] : llvm::zip_equal(allocs, buffers))
    alloc.setOffset(buffer.offset);
  return size;
}

namespace {
struct PlaceBuffersPass : impl::PlaceBuffersBase<PlaceBuffersPass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    if (!function || failed(verifyCommands(function)))
      return signalPassFailure();
    CommandOrder order(function);
    Accesses accesses = getAccesses(order);
    for (auto alloc :
         llvm::make_early_inc_range(function.getOps<sched::AllocOp>()))
      if (!accesses.contains(alloc.getBuffer()) && alloc->use_empty())
        alloc.erase();
    Builder builder(&getContext());
    auto set = [&](StringRef name, int64_t bytes) {
      getOperation()->setAttr(name, builder.getI64IntegerAttr(bytes));
    };
    set(sched::kArenaAttrName,
        placeBuffers(function, order, accesses, /*onHost=*/false));
    if (int64_t bytes = placeBuffers(function, order, accesses,
                                     /*onHost=*/true))
      set(sched::kHostArenaAttrName, bytes);
  }
};
} // namespace

} // namespace tandem::lower
