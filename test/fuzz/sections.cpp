//===- sections.cpp - sections of a pipeline ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Orders/VerifyOrder.h"

using namespace tandem;
using namespace tandem::orders;

/// The order of all forward passes, then all backward passes, of all sections
/// in the order of their numbers.
static Order makeOrder(const Partition &partition) {
  Order order;
  order.points.resize(partition.numPoints);
  unsigned numSections = partition.sections.size();
  for (unsigned i = 0; i < numSections; ++i)
    order.points[partition.sections[i].point].push_back(
        {i, ActionKind::Forward, 0});
  for (unsigned i = numSections; i > 0; --i)
    if (partition.sections[i - 1].hasBackward)
      order.points[partition.sections[i - 1].point].push_back(
          {i - 1, ActionKind::Backward, 0});
  return order;
}

/// A partition that is read prints as one that reads to the same. An order of
/// it runs, or is a cycle where an edge goes back.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error;
  auto partition = parsePartition(fuzz::asText(data, size), "sections", error);
  if (!partition) {
    fuzz::expectError(error);
    return 0;
  }
  std::string printed = print(*partition);
  auto again = parsePartition(printed, "printed", error);
  fuzz::expect(again.has_value(), error);
  fuzz::expect(print(*again) == printed,
               "found another partition when read again");
  Order order = makeOrder(*partition);
  if (!verifyOrder(*partition, order, {}, "order", error)) {
    fuzz::expectError(error);
    return 0;
  }
  printTimeline(*partition, order, simulate(*partition, order), 100);
  return 0;
}
