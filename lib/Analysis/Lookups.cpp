//===- Lookups.cpp - operators with indices -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Lookups.h"
#include "mlir/IR/Builders.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Analysis/UserLocation.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;

bool tandem::readsIndices(Operation *op) {
  return op->hasTrait<nn::ReadsIndices>();
}

std::optional<tandem::RowSum> tandem::getRowSum(Operation *op) {
  auto add = dyn_cast_or_null<nn::AddOp>(op);
  if (!add)
    return std::nullopt;
  for (auto [rows, base] : {std::pair(add.getRhs(), add.getLhs()),
                            std::pair(add.getLhs(), add.getRhs())}) {
    Operation *adder = rows.getDefiningOp(), *maker = base.getDefiningOp();
    bool liesInMemory =
        !maker || maker->getBlock() != op->getBlock() ||
        isa<nn::LibraryOpInterface, sched::LibraryCallOpInterface>(maker);
    if (adder && adder->hasTrait<nn::Sums>() && readsIndices(adder) &&
        adder->getBlock() == op->getBlock() && rows.hasOneUse() &&
        liesInMemory && rows.getType() == add.getType() &&
        base.getType() == add.getType())
      return RowSum{adder, base};
  }
  return std::nullopt;
}

Location tandem::addSites(Location location, ArrayRef<Operation *> ops) {
  Builder builder(location.getContext());
  SmallVector<Attribute> sites;
  for (Operation *op : ops) {
    if (!readsIndices(op))
      continue;
    std::string text = op->getName().stripDialect().str();
    if (std::string place = getUserLocation(op->getLoc()); !place.empty())
      text += " (" + place + ")";
    sites.push_back(builder.getStringAttr(text));
  }
  if (sites.empty())
    return location;
  return FusedLoc::get({location}, builder.getArrayAttr(sites),
                       location.getContext());
}

std::vector<std::string> tandem::getSites(Location location) {
  std::vector<std::string> sites;
  location = setOrigins(location, {});
  auto fused = dyn_cast<FusedLoc>(location);
  auto names =
      fused ? dyn_cast_if_present<ArrayAttr>(fused.getMetadata()) : ArrayAttr();
  for (Attribute name : names ? names.getValue() : ArrayRef<Attribute>())
    if (auto text = dyn_cast<StringAttr>(name))
      sites.push_back(text.str());
  return sites;
}
