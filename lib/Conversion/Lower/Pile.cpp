//===- Pile.cpp - buffers without gaps below them -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pile.h"
#include <limits>
#include <numeric>

using namespace llvm;
using namespace tandem::lower;

namespace {
/// When a buffer lives, in one order of all commands: from `begin` to before
/// `end`.
struct Interval {
  int64_t begin, end;
};

class Pile {
public:
  using Weight = function_ref<double(double bytes, double life)>;
  Pile(ArrayRef<Buffer> buffers, const QueueClocks &clocks);
  std::vector<size_t> makeOrder(Weight weight);

private:
  /// How high it is, from `begin` to the begin of the next one.
  struct Level {
    int64_t begin, height;
  };
  int64_t getEnd(size_t level) const {
    return level + 1 < levels.size() ? levels[level + 1].begin : end;
  }
  size_t findLowest() const;
  void raise(size_t level);
  void put(size_t level, size_t buffer);
  void join();

  ArrayRef<Buffer> buffers;
  std::vector<Interval> lives;
  std::vector<Level> levels;
  int64_t end = 1;
};
} // namespace

Pile::Pile(ArrayRef<Buffer> buffers, const QueueClocks &clocks)
    : buffers(buffers) {
  auto getTime = [](const Clock &clock) {
    return std::accumulate(clock.begin(), clock.end(), int64_t(0));
  };
  for (const Buffer &buffer : buffers) {
    Interval life{getTime(buffer.life.birth), 0};
    for (auto [queue, death] : enumerate(buffer.life.death))
      if (death)
        life.end = std::max(life.end, getTime(clocks[queue][death - 1]));
    life.end = std::max(life.end, life.begin + 1);
    end = std::max(end, life.end);
    lives.push_back(life);
  }
}

size_t Pile::findLowest() const {
  return std::min_element(levels.begin(), levels.end(),
                          [](const Level &a, const Level &b) {
                            return a.height < b.height;
                          }) -
         levels.begin();
}

/// What no buffer fits into is as high as the lower one beside it.
void Pile::raise(size_t level) {
  int64_t height = std::numeric_limits<int64_t>::max();
  if (level > 0)
    height = levels[level - 1].height;
  if (level + 1 < levels.size())
    height = std::min(height, levels[level + 1].height);
  levels[level].height = height;
  join();
}

void Pile::put(size_t level, size_t buffer) {
  auto [begin, height] = levels[level];
  Interval life = lives[buffer];
  std::vector<Level> parts;
  if (begin < life.begin)
    parts.push_back({begin, height});
  parts.push_back({life.begin, height + buffers[buffer].bytes});
  if (life.end < getEnd(level))
    parts.push_back({life.end, height});
  levels.erase(levels.begin() + level);
  levels.insert(levels.begin() + level, parts.begin(), parts.end());
  join();
}

void Pile::join() {
  auto isEqual = [](const Level &a, const Level &b) {
    return a.height == b.height;
  };
  levels.erase(std::unique(levels.begin(), levels.end(), isEqual),
               levels.end());
}

std::vector<size_t> Pile::makeOrder(Weight weight) {
  std::vector<size_t> left(buffers.size());
  std::iota(left.begin(), left.end(), 0);
  std::vector<double> weights;
  for (auto [buffer, life] : zip_equal(buffers, lives))
    weights.push_back(
        weight(double(buffer.bytes), double(life.end - life.begin)));
  stable_sort(left, [&](size_t a, size_t b) {
    return std::pair(weights[a], lives[a].begin) >
           std::pair(weights[b], lives[b].begin);
  });
  levels.assign(1, {0, 0});
  std::vector<size_t> order;
  while (!left.empty()) {
    size_t level = findLowest();
    Interval room{levels[level].begin, getEnd(level)};
    auto found = find_if(left, [&](size_t i) {
      return room.begin <= lives[i].begin && lives[i].end <= room.end;
    });
    if (found == left.end()) {
      raise(level);
      continue;
    }
    order.push_back(*found);
    put(level, *found);
    left.erase(found);
  }
  return order;
}

std::vector<size_t> tandem::lower::pileUp(ArrayRef<Buffer> buffers,
                                          const QueueClocks &clocks,
                                          Pile::Weight weight) {
  return Pile(buffers, clocks).makeOrder(weight);
}
