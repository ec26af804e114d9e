//===- Fold.cpp - folding of repeated layers ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Relaxation/Fold.h"
#include "Tandem/Limits.h"
#include <numeric>
#include <unordered_map>

using namespace tandem::search;

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdull;
  return hash ^ hash >> 32;
}

std::vector<unsigned> tandem::search::findRepeats(const FactorGraph &graph,
                                                  unsigned distance) {
  std::vector<uint64_t> colors, factorColors(graph.factors.size());
  for (const Variable &variable : graph.variables)
    colors.push_back(mix(variable.unary, variable.slots.size()));
  for (unsigned round = 0; round < distance; ++round) {
    for (unsigned i = 0; i < graph.factors.size(); ++i) {
      const Factor &factor = graph.factors[i];
      uint64_t color = factor.kind;
      if (factor.variables.size() <= kManyUsers)
        for (unsigned variable : factor.variables)
          color = mix(color, colors[variable]);
      factorColors[i] = color;
    }
    for (unsigned i = 0; i < graph.variables.size(); ++i)
      for (auto [factor, slot] : graph.variables[i].slots) {
        bool isMany = graph.factors[factor].variables.size() > kManyUsers;
        // Slots hold different layouts even if the tensor looks the same.
        unsigned place =
            isMany ? graph.kinds[graph.factors[factor].kind].maps[slot] : slot;
        colors[i] = mix(colors[i], mix(factorColors[factor], place));
      }
  }
  std::unordered_map<uint64_t, std::vector<unsigned>> members;
  for (unsigned i = 0; i < colors.size(); ++i)
    members[colors[i]].push_back(i);
  // The one in the middle has neighbours that are repeated as well, like most;
  // the first one has those that are not.
  std::vector<unsigned> representatives;
  for (uint64_t color : colors)
    representatives.push_back(members[color][members[color].size() / 2]);
  return representatives;
}

std::vector<unsigned> tandem::search::getUnfolded(const FactorGraph &graph) {
  std::vector<unsigned> own(graph.variables.size());
  std::iota(own.begin(), own.end(), 0);
  return own;
}
