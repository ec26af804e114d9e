//===- VerifyOrder.h - whether an order can run -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ORDERS_VERIFYORDER_H
#define TANDEM_ORDERS_VERIFYORDER_H

#include "tandem/Orders/Partition.h"

namespace tandem::orders {

struct OrderLimits {
  /// Of the step; without it, as many as the order names.
  std::optional<unsigned> numMicrobatches;
  /// What each point may hold of activations; empty for no limit.
  std::vector<double> activations;
};

/// Whether the points can run their lists in order, each section every
/// microbatch once:
///
/// * every section has F of every microbatch on its point, and B, or I and W,
/// if
///   it has a backward pass; nothing is there twice;
/// * F stands before B and I, I before W;
/// * no point holds more than its limit;
/// * no action waits for itself: through the lists, values between sections and
///   their gradients.
///
/// Else false, with one line in `error` that begins with `NAME:LINE`, the row
/// of the point. A cycle is named action by action. `partition` is legal
/// (`verifyPartition`).
bool verifyOrder(const Partition &partition, const Order &order,
                 const OrderLimits &limits, std::string_view name,
                 std::string &error);

} // namespace tandem::orders

#endif // TANDEM_ORDERS_VERIFYORDER_H
