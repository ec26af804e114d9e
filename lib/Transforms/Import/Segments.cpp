//===- Segments.cpp - cuts of the forward pass ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Segments.h"
#include <algorithm>
#include <limits>

using namespace tandem::nn;

/// Each room of a segment as a share of the one before.
static constexpr double kRung = 0.7;

namespace {
/// The cuts in front of an operator that hold least, the last one in front of
/// it.
struct Best {
  /// What crosses them, and each cut as a byte.
  int64_t held = std::numeric_limits<int64_t>::max();
  /// Where the last segment begins, and the most that one makes again.
  unsigned begin = 0;
  int64_t inside = 0;
};
} // namespace

/// Of segments that make at most `room` bytes again, per operator.
static std::vector<Best> findBest(llvm::ArrayRef<Made> made, unsigned begin,
                                  unsigned end, int64_t room) {
  std::vector<Best> best(end - begin + 1);
  best.front().held = 0;
  for (unsigned cut = begin + 1; cut <= end; ++cut) {
    if (cut < end && !made[cut - 1].mayEnd)
      continue;
    Best &here = best[cut - begin];
    int64_t inside = 0, crossing = 1;
    for (unsigned first = cut; first-- > begin;) {
      const Made &each = made[first];
      if (each.last >= cut)
        crossing += cut < end ? each.bytes : 0;
      else if (each.isSaved)
        inside += each.bytes;
      if (inside > room)
        break;
      const Best &before = best[first - begin];
      if (before.held < here.held - crossing)
        here = {before.held + crossing, first, std::max(before.inside, inside)};
    }
  }
  return best;
}

std::vector<unsigned> tandem::nn::cutSegment(llvm::ArrayRef<Made> made,
                                             unsigned begin, unsigned end,
                                             double share) {
  std::vector<unsigned> cuts;
  auto all = static_cast<double>(
      findBest(made, begin, end, Best().held).back().inside);
  auto least = static_cast<int64_t>(share * all);
  for (double room = kRung * all; room >= 1; room *= kRung) {
    std::vector<Best> best = findBest(made, begin, end, room);
    const Best &last = best.back();
    if (last.held >= least)
      break;
    if (last.held + last.inside >= least)
      continue;
    least = last.held + last.inside;
    cuts.clear();
    for (unsigned cut = last.begin; cut > begin; cut = best[cut - begin].begin)
      cuts.push_back(cut - 1);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}
