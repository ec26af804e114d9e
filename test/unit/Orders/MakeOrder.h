//===- MakeOrder.h - the orders of schedules, in tests ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_ORDERS_MAKEORDER_H
#define TANDEM_TEST_UNIT_ORDERS_MAKEORDER_H

#include "tandem/Orders/Schedules.h"
#include "gtest/gtest.h"

namespace tandem::orders {

/// That of the schedule `name`; an empty one and a failure if it has none.
inline Order makeOrder(std::string_view name, const Shape &shape) {
  std::string error;
  std::optional<Order> order = findSchedule(name)->make(shape, error);
  EXPECT_TRUE(order) << error;
  return order.value_or(Order());
}

} // namespace tandem::orders

#endif // TANDEM_TEST_UNIT_ORDERS_MAKEORDER_H
