//===- Slot.h - slot of an operator -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SCHEDULE_SLOT_H
#define TANDEM_TRANSFORMS_SCHEDULE_SLOT_H

#include "tandem/Dialect/Sched/Sched.h"
#include "llvm/ADT/DenseMap.h"
#include <tuple>

namespace tandem {

/// The steps of a slot, in the order in which they are enqueued. What waits
/// goes before the slot's own collectives where these follow the computation
/// beside it.
enum class Lane : int64_t { Early = -1, Comm, Waiting, Compute };

struct Slot {
  int64_t stage = 0;
  int64_t strand = 0;
  Lane lane = Lane::Compute;

  bool operator<(const Slot &other) const {
    return std::tie(stage, strand, lane) <
           std::tie(other.stage, other.strand, other.lane);
  }
};

using sched::kSlotAttrName;

inline void setSlot(mlir::Operation *op, const Slot &slot) {
  op->setAttr(kSlotAttrName,
              mlir::DenseI64ArrayAttr::get(
                  op->getContext(),
                  {slot.stage, slot.strand, static_cast<int64_t>(slot.lane)}));
}

/// The slot in the attribute `sched.slot`; none if it is absent or malformed.
inline std::optional<Slot> getSlot(mlir::Operation *op) {
  auto attribute = op->getAttrOfType<mlir::DenseI64ArrayAttr>(kSlotAttrName);
  if (!attribute || attribute.size() != 3 ||
      attribute[2] < static_cast<int64_t>(Lane::Early) ||
      attribute[2] > static_cast<int64_t>(Lane::Compute))
    return std::nullopt;
  return Slot{attribute[0], attribute[1], static_cast<Lane>(attribute[2])};
}

/// The strand that what strands share runs with in `stage`: the last one that
/// it reads there, else the first.
inline int64_t
getSharedStrand(mlir::Operation *op, int64_t stage,
                const llvm::DenseMap<mlir::Operation *, Slot> &slots) {
  int64_t strand = 0;
  for (mlir::Value operand : op->getOperands())
    if (auto it = slots.find(operand.getDefiningOp());
        it != slots.end() && it->second.stage == stage)
      strand = std::max(strand, it->second.strand);
  return strand;
}

} // namespace tandem

#endif // TANDEM_TRANSFORMS_SCHEDULE_SLOT_H
