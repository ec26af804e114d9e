//===- Levels.cpp - cost of a tensor's users per level --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Relaxation/Levels.h"
#include "Tandem/Limits.h"
#include <algorithm>
#include <limits>

using namespace tandem::search;

LevelCosts::LevelCosts(const FactorGraph &graph)
    : graph(graph), firstEntry(graph.factors.size(), -1),
      versions(graph.numMessages) {}

void LevelCosts::keep(const std::vector<unsigned> &variables) {
  for (unsigned variable : variables)
    for (auto [factor, slot] : graph.variables[variable].slots) {
      unsigned numSlots = graph.factors[factor].variables.size();
      // With one user distances are compared themselves.
      if (numSlots == 2 || firstEntry[factor] >= 0)
        continue;
      firstEntry[factor] = static_cast<int64_t>(entries.size());
      entries.resize(entries.size() + numSlots - 1);
      keptFactors.push_back(factor);
    }
  reset();
}

void LevelCosts::reset() {
  size_t size = 0;
  for (unsigned factor : keptFactors) {
    const FactorKind &kind = graph.kinds[graph.factors[factor].kind];
    Entry *entry = entries.data() + firstEntry[factor];
    for (unsigned slot = 1; slot < kind.maps.size(); ++slot, ++entry) {
      entry->begin = size;
      size += kind.getLevels(slot).values.size();
    }
  }
  values.resize(std::min(size, kMaxLevels));
  forget();
}

void LevelCosts::fill(const FactorKind &kind, unsigned slot,
                      const double *costs, double *best) const {
  const LevelList &levels = kind.getLevels(slot);
  std::fill_n(best, levels.values.size(), kInfinity);
  size_t size = graph.maps[kind.maps[slot]].layouts.size();
  const uint16_t *levelOf = kind.levelOf[slot - 1].data();
  for (size_t produced = 0; produced + 1 < levels.begin.size(); ++produced) {
    for (size_t i = 0; i < size; ++i)
      best[levelOf[i]] = std::min(best[levelOf[i]], costs[i]);
    size_t count = levels.begin[produced + 1] - levels.begin[produced];
    for (size_t i = 1; i < count; ++i)
      best[i] = std::min(best[i], best[i - 1]);
    levelOf += size;
    best += count;
  }
}

const double *LevelCosts::get(unsigned factor, unsigned slot, unsigned message,
                              const double *costs) {
  const FactorKind &kind = graph.kinds[graph.factors[factor].kind];
  size_t size = kind.getLevels(slot).values.size();
  if (firstEntry[factor] >= 0) {
    Entry &entry = entries[firstEntry[factor] + slot - 1];
    if (entry.begin + size <= values.size()) {
      double *kept = values.data() + entry.begin;
      if (entry.madeAt < std::max(versions[message], forgottenAt))
        fill(kind, slot, costs, kept);
      entry.madeAt = age;
      return kept;
    }
  }
  scratch.resize(std::max(scratch.size(), size));
  fill(kind, slot, costs, scratch.data());
  return scratch.data();
}
