//===- Origins.cpp - operators of the step that values come from ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Origins.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;

namespace tandem {

/// Pairs of id and result, or null.
static DenseI64ArrayAttr getOwnPairs(Location location) {
  auto fused = dyn_cast<FusedLoc>(location);
  return fused ? dyn_cast_if_present<DenseI64ArrayAttr>(fused.getMetadata())
               : DenseI64ArrayAttr();
}

SmallVector<Origin> getOrigins(Location location) {
  SmallVector<Origin> origins;
  if (auto pairs = getOwnPairs(location))
    for (size_t i = 0; i + 1 < size_t(pairs.size()); i += 2)
      origins.push_back({pairs[i], pairs[i + 1]});
  return origins;
}

Location setOrigins(Location location, ArrayRef<Origin> origins) {
  if (getOwnPairs(location))
    location = cast<FusedLoc>(location).getLocations().front();
  if (llvm::all_of(origins, [](const Origin &each) { return each.id < 0; }))
    return location;
  SmallVector<int64_t> pairs;
  for (const Origin &each : origins)
    pairs.append({each.id, each.result});
  MLIRContext *context = location.getContext();
  return FusedLoc::get({location}, DenseI64ArrayAttr::get(context, pairs),
                       context);
}

/// Calls of libraries have the attributes of what they were made of, which
/// others may have joined since.
Origin getOrigin(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return {};
  Operation *op = result.getOwner();
  int64_t number = result.getResultNumber();
  SmallVector<Origin> origins = getOrigins(op->getLoc());
  if (number < static_cast<int64_t>(origins.size()))
    return origins[number];
  std::optional<int64_t> id = nn::getId(op);
  if (!id || isa<sched::LibraryCallOpInterface>(op))
    return {};
  return {*id, number};
}

void takeOrigin(Value made, Value old) {
  auto result = cast<OpResult>(made);
  Operation *op = result.getOwner();
  SmallVector<Origin> origins = getOrigins(op->getLoc());
  origins.resize(op->getNumResults());
  origins[result.getResultNumber()] = getOrigin(old);
  op->setLoc(setOrigins(op->getLoc(), origins));
}

} // namespace tandem
