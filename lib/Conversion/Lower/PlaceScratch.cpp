//===- PlaceScratch.cpp - scratch of kernels in the arena -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Lower/PlaceScratch.h"
#include "CommandOrder.h"
#include "Counts.h"
#include "tandem/Conversion/Lower/Placement.h"
#include "tandem/Dialect/Sched/Host.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::lower;

/// Buffers with their places, and scratch, take whole lines.
static int64_t align(int64_t bytes, func::FuncOp step) {
  return static_cast<int64_t>(
      llvm::alignTo(bytes, sched::getDevice(step).getValueSpace().alignment));
}

static std::vector<Buffer> getPlaced(func::FuncOp step,
                                     const CommandOrder &order) {
  auto accesses = getAccesses(order);
  std::vector<Buffer> placed;
  for (auto alloc : step.getOps<sched::AllocOp>())
    if (auto uses = accesses.find(alloc.getBuffer());
        uses != accesses.end() && !alloc->hasAttr(sched::kHostBufferAttrName))
      placed.push_back({align(countBytes(alloc->getResults()), step),
                        getLifetime(getUsers(uses->second, order), order),
                        static_cast<int64_t>(*alloc.getOffset())});
  return placed;
}

ScratchPlaces
tandem::placeScratch(func::FuncOp step, int64_t arena,
                     llvm::function_ref<int64_t(sched::LaunchOp)> getBytes) {
  ScratchPlaces places;
  places.arena = arena;
  SmallVector<sched::LaunchOp> launches;
  for (auto launch : step.getOps<sched::LaunchOp>())
    if (getBytes(launch) > 0)
      launches.push_back(launch);
  if (launches.empty())
    return places;
  CommandOrder order(step);
  std::vector<Buffer> scratch;
  for (sched::LaunchOp launch : launches)
    scratch.push_back({align(getBytes(launch), step),
                       getLifetime({launch.getOperation()}, order), 0});
  int64_t size =
      placeBeside(getPlaced(step, order), scratch, order.getClocks());
  places.arena = std::max(arena, size);
  for (auto [launch, buffer] : llvm::zip_equal(launches, scratch))
    places.offsets[launch] = buffer.offset;
  return places;
}
