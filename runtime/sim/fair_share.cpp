//===- fair_share.cpp - flows over shared links ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "sim/fair_share.h"

#include <algorithm>
#include <limits>

namespace tandem::rt::sim {

void FairShare::mark(uint32_t link) {
  if (!std::exchange(links[link].isMarked, true))
    changed.push_back(link);
}

void FairShare::add(uint32_t flow, std::vector<LinkUse> loads, double most) {
  if (flow >= flows.size())
    flows.resize(flow + 1);
  for (LinkUse &load : loads) {
    load.seconds /= most;
    links[load.link].flows.push_back(flow);
    mark(load.link);
  }
  flows[flow] = {.loads = std::move(loads), .most = most};
}

void FairShare::remove(uint32_t flow) {
  for (const LinkUse &load : flows[flow].loads) {
    std::erase(links[load.link].flows, flow);
    mark(load.link);
  }
  flows[flow].loads.clear();
}

/// All links that flows connect with the changed ones, and these flows.
void FairShare::findNeighbours() {
  found.clear();
  for (size_t i = 0; i < changed.size(); ++i)
    for (uint32_t number : links[changed[i]].flows) {
      if (std::exchange(flows[number].isFound, true))
        continue;
      found.push_back(number);
      for (const LinkUse &load : flows[number].loads)
        mark(load.link);
    }
}

void FairShare::fix(Flow &flow, double share) {
  flow.share = share;
  for (const LinkUse &load : flow.loads) {
    links[load.link].free -= load.seconds * share;
    links[load.link].growing -= load.seconds;
  }
}

void FairShare::fill() {
  constexpr double kRounding = 1e-9;
  for (uint32_t number : found)
    for (const LinkUse &load : flows[number].loads)
      links[load.link].growing += load.seconds;
  std::vector<uint32_t> left = found;
  auto levelOf = [&](uint32_t link) {
    const Link &own = links[link];
    return own.growing > kRounding ? std::max(0.0, own.free) / own.growing
                                   : std::numeric_limits<double>::infinity();
  };
  while (!left.empty()) {
    double level = 1;
    for (uint32_t number : left)
      for (const LinkUse &load : flows[number].loads)
        level = std::min(level, levelOf(load.link));
    std::vector<uint32_t> full;
    std::erase_if(left, [&](uint32_t number) {
      bool isFull = level == 1;
      for (const LinkUse &load : flows[number].loads)
        isFull |= levelOf(load.link) <= level * (1 + kRounding);
      if (isFull)
        full.push_back(number);
      return isFull;
    });
    for (uint32_t number : full)
      fix(flows[number], level);
  }
}

void FairShare::settle(const std::function<void(uint32_t, double)> &set) {
  findNeighbours();
  for (uint32_t link : changed)
    links[link].free = 1, links[link].growing = 0;
  fill();
  for (uint32_t link : changed)
    links[link].isMarked = false;
  changed.clear();
  for (uint32_t number : found) {
    flows[number].isFound = false;
    set(number, flows[number].share / flows[number].most);
  }
}

} // namespace tandem::rt::sim
