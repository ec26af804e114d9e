//===- cluster.cpp - cluster files ----------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Cluster.h"
#include "Fuzz.h"

using namespace tandem;
using namespace tandem::cost;

/// A cluster that is read prints as one that reads to the same, and prices a
/// mesh or says why not.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error;
  auto cluster = parseCluster(fuzz::asText(data, size), "cluster", error);
  if (!cluster) {
    fuzz::expectError(error);
    return 0;
  }
  std::string printed = print(*cluster);
  auto again = parseCluster(printed, "printed", error);
  fuzz::expect(again.has_value(), error);
  fuzz::expect(print(*again) == printed,
               "found another cluster when read again");
  std::vector<Axis> axes(1);
  axes[0].name = "data";
  axes[0].size = cluster->getNumDevices();
  if (!priceMesh(*cluster, axes, error))
    fuzz::expectError(error);
  for (const DeviceKind &kind : cluster->kinds)
    for (const auto &[type, rate] : kind.rates)
      getComputeSeconds(*cluster, type, 1e9, 1e6, "nn.matmul");
  return 0;
}
