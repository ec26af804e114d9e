//===- Facts.cpp - attributes of a scheduled step -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Sched/Host.h"

using namespace mlir;

namespace tandem::sched {

/// Stages on a function, `unit` on a step.
static bool isSlot(Attribute value) {
  auto slot = dyn_cast<DenseI64ArrayAttr>(value);
  return slot && slot.size() == 3;
}

/// The queues of each role by their numbers, from 0 on.
static bool isQueueList(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  llvm::SmallVector<unsigned> next(getMaxEnumValForQueueRole() + 1, 0);
  bool isNumbered =
      list && llvm::all_of(list, [&](Attribute entry) {
        auto queue = dyn_cast<QueueAttr>(entry);
        return queue && queue.getNumber() ==
                            next[static_cast<size_t>(queue.getRole())]++;
      });
  return isNumbered && next[static_cast<size_t>(QueueRole::Compute)] > 0;
}

static constexpr Fact kFacts[] = {
    {kSlotAttrName, OnOperator, isSlot, "stage, strand and lane"},
    {kKernelAttrName, OnFunction, isUnit, "no value"},
    {kLabelAttrName, OnOperator, isString, "a string"},
    {kAgainAttrName, OnOperator, isUnit, "no value"},
    {kArenaAttrName, OnModule, isIndex, "an i64 from 0 on"},
    {kHostBufferAttrName, OnOperator, isUnit, "no value"},
    {kHostArenaAttrName, OnModule, isIndex, "an i64 from 0 on"},
    {kDraftAttrName, OnModule, isUnit, "no value"},
    {kInFlightAttrName, OnModule, isIndex, "an i64 from 0 on"},
    {kDeviceAttrName, OnModule, isOf<DeviceAttr>, "#sched.device<NAME>"},
    {kQueuesAttrName, OnModule, isQueueList,
     "a list of #sched.queue<...>, those of a role numbered from 0 on, and "
     "one that computes"},
};

void SchedDialect::addFacts() { addInterface<FactTable>(ArrayRef(kFacts)); }

LogicalResult SchedDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute attribute) {
  return verifyFact(kFacts, op, attribute);
}

LogicalResult SchedDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                     unsigned index,
                                                     NamedAttribute attribute) {
  return verifyFact(kFacts, op, attribute, OnArgument, index);
}

LogicalResult SchedDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned index, NamedAttribute attribute) {
  return verifyFact(kFacts, op, attribute, OnResult, index);
}

} // namespace tandem::sched
