//===- FactorLevels.cpp - levels of a tensor's factor ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor costs the dearest of the changes that its users need: for each
// produced layout its levels are the distinct distances of all users. Where
// bytes have a price early and late users have levels of their own: copies that
// both passes need are made twice from what was produced, which is held for the
// price of its bytes b: b + e + l for the dearest early and the dearest late
// one. Or some copy is kept for the price c of its bytes, instead of what was
// produced; it took s seconds, so that e is no less, and saves at most these:
// c + max(e, l, e + l - s) with max(e, s) for e, which is monotone in both
// levels (Llama-8B, f32, 8x8: gap 0.9 % instead of 3.8 %).
//
//===----------------------------------------------------------------------===//

#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Factors.h"
#include <algorithm>
#include <span>

using namespace tandem::search;

/// Leaves few levels: a distance counts as the next lower one that is left.
static void thinOut(std::vector<double> &levels) {
  double last = -1;
  std::erase_if(levels, [&](double level) {
    bool isNear = last > 0 && level < last * (1 + kLevelShare);
    last = isNear ? last : level;
    return isNear;
  });
}

/// Appends the distinct distances of some users, rising from 0; and sets the
/// level of each.
void FactorGraph::addLevels(FactorKind &kind, size_t produced, unsigned first,
                            unsigned last, LevelList &list) const {
  size_t numProduced = kind.sums.size();
  std::vector<double> levels{0};
  for (unsigned user = first; user < last; ++user) {
    const std::vector<double> &distances = kind.distances[user];
    size_t size = distances.size() / numProduced;
    levels.insert(levels.end(), distances.begin() + produced * size,
                  distances.begin() + (produced + 1) * size);
  }
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  if (kind.isPriced)
    thinOut(levels);
  for (unsigned user = first; user < last; ++user) {
    const std::vector<double> &distances = kind.distances[user];
    size_t size = distances.size() / numProduced;
    for (size_t i = produced * size; i < (produced + 1) * size; ++i)
      kind.levelOf[user][i] =
          std::upper_bound(levels.begin(), levels.end(), distances[i]) -
          levels.begin() - 1;
  }
  list.values.insert(list.values.end(), levels.begin(), levels.end());
  list.begin.push_back(list.values.size());
}

/// What levels of early and late users cost together, with the price of what is
/// held. Either the late ones' copies are made again, or some copy is kept.
void FactorGraph::setTotals(FactorKind &kind, size_t produced) {
  size_t count = kind.wanted.size();
  std::vector<bool> isEarly(count);
  for (unsigned user = 0; user < kind.numEarly; ++user)
    for (unsigned layout : kind.wantedOf[user])
      isEarly[layout] = true;
  double held = weights.memory * kind.producedBytes[produced];
  // By what a kept copy takes and saves: its price, where that may be worth it.
  std::map<double, double> kept;
  for (size_t i = 0; i < count; ++i) {
    double saved = kind.rows[produced * count + i],
           price = getKeptPrice(kind, i);
    if (!isEarly[i] || kind.wanted[i].isAbsent() || price >= held + saved)
      continue;
    double &least = kept.try_emplace(saved, price).first->second;
    least = std::min(least, price);
  }
  std::vector<double> &totals = kind.totals[produced];
  totals.clear();
  auto getLevels = [produced](const LevelList &list) {
    return std::span(list.values)
        .subspan(list.begin[produced],
                 list.begin[produced + 1] - list.begin[produced]);
  };
  for (double level : getLevels(kind.levels))
    for (double late : getLevels(kind.lateLevels)) {
      double total = held + level + late;
      for (auto [saved, price] : kept) {
        double early = std::max(level, saved);
        total = std::min(total,
                         price + std::max({early, late, early + late - saved}));
      }
      totals.push_back(total);
    }
}

void FactorGraph::setLevels(FactorKind &kind) {
  kind.isPriced = weights.memory > 0 && kind.numEarly > 0;
  size_t numProduced = maps[kind.maps[0]].layouts.size();
  unsigned numUsers = kind.distances.size();
  kind.levels = LevelList();
  kind.lateLevels = LevelList();
  kind.totals.assign(kind.isPriced ? numProduced : 0, {});
  kind.levelOf.assign(numUsers, {});
  // With one user distances are compared themselves.
  if (numUsers == 1)
    return;
  for (unsigned user = 0; user < numUsers; ++user)
    kind.levelOf[user].resize(kind.distances[user].size());
  for (size_t from = 0; from < numProduced; ++from) {
    if (!kind.isPriced) {
      addLevels(kind, from, 0, numUsers, kind.levels);
      continue;
    }
    addLevels(kind, from, 0, kind.numEarly, kind.levels);
    addLevels(kind, from, kind.numEarly, numUsers, kind.lateLevels);
    setTotals(kind, from);
  }
}
