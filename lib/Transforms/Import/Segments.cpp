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

/// Each room of a segment as a share of the one before, of a part of a pass and
/// of a whole one.
static constexpr double kRung = 0.7, kWholeRung = 0.9;

namespace {
/// The cuts in front of an operator that hold least, the last one in front of
/// it.
struct Best {
  /// What crosses them, and each cut as a byte.
  int64_t held = std::numeric_limits<int64_t>::max();
  /// Where the last segment begins, and the most that one holds.
  unsigned begin = 0;
  int64_t most = 0;
};
} // namespace

/// Per operator, of segments that hold at most `room` bytes: what they make
/// again, and, of a whole pass, what crosses the cuts in front of them.
static std::vector<Best> findBest(llvm::ArrayRef<Made> made, unsigned begin,
                                  unsigned end, bool isWhole, int64_t room) {
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
      bool fits = !isWhole || before.held <= room - inside;
      if (fits && before.held < here.held - crossing)
        here = {before.held + crossing, first,
                std::max(before.most, inside + (isWhole ? before.held : 0))};
    }
  }
  return best;
}

std::vector<unsigned> tandem::nn::cutSegment(llvm::ArrayRef<Made> made,
                                             unsigned begin, unsigned end,
                                             bool isWhole, double share) {
  std::vector<unsigned> cuts;
  auto all = static_cast<double>(
      findBest(made, begin, end, /*isWhole=*/false, Best().held).back().most);
  auto least = static_cast<int64_t>(share * all);
  double rung = isWhole ? kWholeRung : kRung;
  for (double room = rung * all; room >= 1; room *= rung) {
    std::vector<Best> best = findBest(made, begin, end, isWhole, room);
    const Best &last = best.back();
    if (last.held == Best().held || (!isWhole && last.held >= least))
      break;
    int64_t held = last.most + (isWhole ? 0 : last.held);
    if (held >= least)
      continue;
    least = held;
    cuts.clear();
    for (unsigned cut = last.begin; cut > begin; cut = best[cut - begin].begin)
      cuts.push_back(cut - 1);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}
