//===- DescentPrices.cpp - prices of descent in bytes ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DescentPrices.h"

using namespace tandem::cost;
using namespace tandem::search;

/// A collective of any size costs at least as much as sending this.
static constexpr double kCollectiveLatency = 4096;
/// Joining strands stops the overlap of computation and communication.
static constexpr double kJoinCost = 1e9;
/// Summing gradients over a batch axis is due in any case; what is left of its
/// cost decides where it happens.
static constexpr double kGradientWeight = 1e-3;
/// Activations gathered over a batch axis undo the split of the batch: memory
/// and work of all that follows grow by the size of the axis.
static constexpr double kGatherBatchWeight = 4;
/// Cutting a slice out of a whole tensor costs no communication; far below the
/// work on the whole, so that slices move to where whole tensors come from.
static constexpr double kSliceWeight = 1e-9;
/// Work on whole tensors that could be split, per byte of traffic: decides
/// between plans of equal communication. Over time it is done once, but in one
/// piece, and its result is kept for all strands.
static constexpr double kRedundantByte = 1e-6;
/// The cost of what cannot be.
static constexpr double kImpossible = 1e30;

double DescentPrices::getTimeChange(double bytes, Form from, Form to,
                                    Wanter wanter) const {
  if (from == kFull)
    return to >= 0 ? kSliceWeight * bytes : kImpossible;
  if (to == kReduce)
    return kImpossible;
  // Results and updates come behind all strands: they join nothing. Nor do rows
  // of which results are made; a sum may be one that strands read as well.
  if (to == kFull &&
      (wanter == Wanter::Update || (wanter == Wanter::Returned && from >= 0)))
    return kGradientWeight * bytes;
  return kJoinCost + bytes;
}

double DescentPrices::getSpaceChange(double bytes, Form from, Form to,
                                     Wanter wanter) const {
  // In an update, one term of a sum may be whole: one point keeps it.
  if (from == kFull)
    return to >= 0 || wanter == Wanter::Update ? kSliceWeight * bytes
                                               : kImpossible;
  if (to == kReduce)
    return kImpossible;
  double share = (size - 1) / size;
  if (from == kReduce) {
    double cost = kCollectiveLatency + (to == kFull ? 2 : 1) * share * bytes;
    bool isDue = wanter == Wanter::Update && isBatchAxis;
    return isDue ? kGradientWeight * cost : cost;
  }
  if (to >= 0)
    return kCollectiveLatency + share * bytes / size;
  double weight = isBatchAxis ? kGatherBatchWeight : 1;
  return kCollectiveLatency + weight * share * bytes;
}

double DescentPrices::getChange(double bytes, Form from, Form to,
                                Wanter wanter) const {
  if (from == to || to == kAbsent)
    return 0;
  // What lies on the host has no bytes, and keeps its form.
  if (bytes == 0)
    return kImpossible;
  return isTime ? getTimeChange(bytes, from, to, wanter)
                : getSpaceChange(bytes, from, to, wanter);
}

double DescentPrices::getRedundant(double bytes) const {
  return kRedundantByte * bytes * (size - 1) / size;
}
