//===- PointOrder.h - the order of a step's points --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_OUTLINE_POINTORDER_H
#define TANDEM_LIB_TRANSFORMS_OUTLINE_POINTORDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Orders/Order.h"
#include <optional>

namespace tandem {

/// Where an order comes from.
struct OrderSource {
  /// That of a schedule, or the file of an order.
  std::string name;
  /// The text of the file, if it is read already.
  std::optional<std::string> rows;
  /// On how many microbatches of the step each of its actions works: they run
  /// beside each other.
  int64_t strands = 1;
};

/// The order of the sections of `step`, which can run: on `numPoints` points,
/// each section with `count` microbatches.
mlir::FailureOr<orders::Order> makePointOrder(mlir::func::FuncOp step,
                                              int64_t numPoints, int64_t count,
                                              const OrderSource &source);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_OUTLINE_POINTORDER_H
