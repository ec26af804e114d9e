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

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_PLACEBUFFERS
#include "tandem/Conversion/Lower/Passes.h.inc"

/// Buffers begin at a cache line, which is also the widest vector, in bytes.
namespace {
struct PlaceBuffersPass : impl::PlaceBuffersBase<PlaceBuffersPass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    if (!function || failed(verifyCommands(function)))
      return signalPassFailure();
    int64_t alignment = sched::getDevice(function).getValueSpace().alignment;
    CommandOrder order(function);
    auto accesses = getAccesses(order);
    SmallVector<sched::AllocOp> allocs;
    std::vector<Buffer> buffers;
    for (auto alloc :
         llvm::make_early_inc_range(function.getOps<sched::AllocOp>())) {
      auto it = accesses.find(alloc.getBuffer());
      if (it != accesses.end()) {
        allocs.push_back(alloc);
        int64_t bytes = countBytes(alloc->getResults());
        buffers.push_back(
            {static_cast<int64_t>(llvm::alignTo(bytes, alignment)),
             getLifetime(getUsers(it->second, order), order), 0});
      } else if (alloc->use_empty()) {
        alloc.erase();
      }
    }
    int64_t size = place(buffers, order.getClocks());
    for (auto [alloc, buffer] : llvm::zip_equal(allocs, buffers))
      alloc.setOffset(buffer.offset);
    Builder builder(&getContext());
    getOperation()->setAttr(sched::kArenaAttrName,
                            builder.getI64IntegerAttr(size));
  }
};
} // namespace

} // namespace tandem::lower
