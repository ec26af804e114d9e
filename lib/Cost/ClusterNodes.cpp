//===- ClusterNodes.cpp - devices, memory and links of nodes --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Cluster.h"

using namespace tandem::cost;

int64_t NodeGroup::getNumDevices() const {
  int64_t number = 0;
  for (auto [kind, count] : devices)
    number += count;
  return number;
}

int64_t Cluster::getNumDevices() const {
  int64_t devices = 0;
  for (const NodeGroup &group : nodes)
    devices += group.count * group.getNumDevices();
  return devices;
}

std::vector<NodeLinks> Cluster::getLinks() const {
  auto choose = [](const std::optional<Link> &own,
                   const std::optional<Link> &other) {
    return own ? &*own : other ? &*other : nullptr;
  };
  std::vector<NodeLinks> links;
  for (const NodeGroup &group : nodes)
    links.insert(links.end(), group.count,
                 {choose(group.node, node), choose(group.network, network)});
  return links;
}

std::vector<int64_t> Cluster::getMemory() const {
  std::vector<int64_t> memory;
  for (const NodeGroup &group : nodes)
    for (int64_t node = 0; node < group.count; ++node)
      for (auto [kind, count] : group.devices)
        memory.insert(memory.end(), count,
                      kinds[kind].memorySize - kinds[kind].memoryReserved);
  return memory;
}
