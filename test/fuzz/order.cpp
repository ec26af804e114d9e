//===- order.cpp - orders of a pipeline -----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Order.h"
#include "Fuzz.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Orders/VerifyOrder.h"
#include <algorithm>

using namespace tandem;
using namespace tandem::orders;

/// An order that is read prints as one that reads to the same. If it can run,
/// its points are busy for at most the makespan.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error;
  auto order = parseOrder(fuzz::asText(data, size), "order", error);
  if (!order) {
    fuzz::expectError(error);
    return 0;
  }
  std::string printed = print(*order);
  auto again = parseOrder(printed, "printed", error);
  fuzz::expect(again.has_value(), error);
  fuzz::expect(print(*again) == printed, "found another order when read again");
  auto partition = inferPartition(*order, {}, "order", error);
  if (!partition || !verifyOrder(*partition, *order, {}, "order", error)) {
    fuzz::expectError(error);
    return 0;
  }
  Simulation simulation = simulate(*partition, *order);
  for (const PointTime &point : simulation.points)
    fuzz::expect(point.busy <= simulation.makespan, "found a point too busy");
  printTimeline(*partition, *order, simulation, 100);
  return 0;
}
