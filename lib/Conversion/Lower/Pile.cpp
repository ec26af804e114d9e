//===- Pile.cpp - buffers without gaps below them -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pile.h"
#include <limits>
#include <map>
#include <numeric>
#include <set>

using namespace llvm;
using namespace tandem::lower;

namespace {

/// When a buffer lives, in one order of all commands: from `begin` to before
/// `end`.
struct Interval {
  int64_t begin, end;
};

//===----------------------------------------------------------------------===//
// What is left
//===----------------------------------------------------------------------===//

/// Buffers that are not piled up yet, by their lives: halves of halves, by
/// begin and end in turn, so that a question looks at few of them (Bentley
/// 1975).
class Rest {
public:
  /// `ranks` are different: who goes first has the least one.
  Rest(ArrayRef<Interval> lives, ArrayRef<size_t> ranks);
  /// The least rank of those that live within `room`; `kNone` if none does.
  size_t findFirst(Interval room) const {
    return nodes.empty() ? kNone : findFirst(0, room, kNone);
  }
  void erase(size_t buffer);

  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

private:
  /// Of all buffers below it.
  struct Node {
    Interval begins, ends; ///< least and largest
    size_t first = kNone;  ///< rank
    size_t left = kNone, right = kNone, parent = kNone;
    bool isLeaf() const { return left == kNone; }
  };
  size_t build(MutableArrayRef<size_t> buffers, size_t parent, bool byEnd);
  void sumUp(Node &node) const;
  size_t findFirst(size_t node, Interval room, size_t best) const;

  ArrayRef<Interval> lives;
  ArrayRef<size_t> ranks;
  std::vector<Node> nodes;
  std::vector<size_t> leafOf;
};

} // namespace

Rest::Rest(ArrayRef<Interval> lives, ArrayRef<size_t> ranks)
    : lives(lives), ranks(ranks), leafOf(lives.size()) {
  std::vector<size_t> buffers(lives.size());
  std::iota(buffers.begin(), buffers.end(), 0);
  if (!buffers.empty())
    build(buffers, kNone, /*byEnd=*/false);
}

size_t Rest::build(MutableArrayRef<size_t> buffers, size_t parent, bool byEnd) {
  size_t index = nodes.size();
  nodes.emplace_back().parent = parent;
  if (buffers.size() == 1) {
    size_t buffer = buffers.front();
    Interval life = lives[buffer];
    nodes[index].begins = {life.begin, life.begin};
    nodes[index].ends = {life.end, life.end};
    nodes[index].first = ranks[buffer];
    leafOf[buffer] = index;
    return index;
  }
  size_t half = buffers.size() / 2;
  std::nth_element(buffers.begin(), buffers.begin() + half, buffers.end(),
                   [&](size_t a, size_t b) {
                     return byEnd ? lives[a].end < lives[b].end
                                  : lives[a].begin < lives[b].begin;
                   });
  size_t left = build(buffers.take_front(half), index, !byEnd);
  size_t right = build(buffers.drop_front(half), index, !byEnd);
  nodes[index].left = left;
  nodes[index].right = right;
  sumUp(nodes[index]);
  return index;
}

/// Of the halves that are not empty.
void Rest::sumUp(Node &node) const {
  const Node &left = nodes[node.left], &right = nodes[node.right];
  node.first = std::min(left.first, right.first);
  if (left.first == kNone || right.first == kNone) {
    const Node &only = left.first == kNone ? right : left;
    node.begins = only.begins;
    node.ends = only.ends;
    return;
  }
  node.begins = {std::min(left.begins.begin, right.begins.begin),
                 std::max(left.begins.end, right.begins.end)};
  node.ends = {std::min(left.ends.begin, right.ends.begin),
               std::max(left.ends.end, right.ends.end)};
}

void Rest::erase(size_t buffer) {
  size_t index = leafOf[buffer];
  nodes[index].first = kNone;
  for (index = nodes[index].parent; index != kNone; index = nodes[index].parent)
    sumUp(nodes[index]);
}

size_t Rest::findFirst(size_t index, Interval room, size_t best) const {
  const Node &node = nodes[index];
  if (node.first >= best || node.begins.end < room.begin ||
      node.ends.begin > room.end)
    return best;
  if (node.begins.begin >= room.begin && node.ends.end <= room.end)
    return node.first;
  if (node.isLeaf())
    return best;
  bool isLeftFirst = nodes[node.left].first < nodes[node.right].first;
  best = findFirst(isLeftFirst ? node.left : node.right, room, best);
  return findFirst(isLeftFirst ? node.right : node.left, room, best);
}

//===----------------------------------------------------------------------===//
// The pile
//===----------------------------------------------------------------------===//

namespace {

class Pile {
public:
  using Weight = function_ref<double(double bytes, double life)>;
  Pile(ArrayRef<Buffer> buffers, const QueueClocks &clocks);
  std::vector<size_t> makeOrder(Weight weight);

private:
  /// How high it is, by where that begins: until the next one.
  using Levels = std::map<int64_t, int64_t>;
  int64_t getEnd(Levels::iterator level) const {
    return std::next(level) == levels.end() ? end : std::next(level)->first;
  }
  std::vector<size_t> sort(Weight weight) const;
  Levels::iterator findLowest() { return levels.find(lowest.begin()->second); }
  void set(int64_t begin, int64_t height);
  void join(Levels::iterator level);
  void raise(Levels::iterator level);
  void put(Levels::iterator level, size_t buffer);

  ArrayRef<Buffer> buffers;
  std::vector<Interval> lives;
  Levels levels;
  /// Height and begin of each level.
  std::set<std::pair<int64_t, int64_t>> lowest;
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

void Pile::set(int64_t begin, int64_t height) {
  auto [level, isNew] = levels.try_emplace(begin, height);
  if (!isNew)
    lowest.erase({level->second, begin});
  level->second = height;
  lowest.emplace(height, begin);
}

/// With the level before, if that is as high.
void Pile::join(Levels::iterator level) {
  if (level == levels.begin() || level == levels.end() ||
      std::prev(level)->second != level->second)
    return;
  lowest.erase({level->second, level->first});
  levels.erase(level);
}

/// What no buffer fits into is as high as the lower one beside it.
void Pile::raise(Levels::iterator level) {
  auto next = std::next(level);
  int64_t height = std::numeric_limits<int64_t>::max();
  if (level != levels.begin())
    height = std::prev(level)->second;
  if (next != levels.end())
    height = std::min(height, next->second);
  set(level->first, height);
  join(next);
  join(level);
}

void Pile::put(Levels::iterator level, size_t buffer) {
  int64_t height = level->second;
  Interval life = lives[buffer];
  bool isShorter = life.end < getEnd(level);
  auto next = std::next(level);
  set(life.begin, height + buffers[buffer].bytes);
  if (isShorter)
    set(life.end, height);
  join(isShorter ? levels.find(life.end) : next);
  join(levels.find(life.begin));
}

std::vector<size_t> Pile::sort(Weight weight) const {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> weights;
  for (auto [buffer, life] : zip_equal(buffers, lives))
    weights.push_back(
        weight(double(buffer.bytes), double(life.end - life.begin)));
  stable_sort(order, [&](size_t a, size_t b) {
    return std::pair(weights[a], lives[a].begin) >
           std::pair(weights[b], lives[b].begin);
  });
  return order;
}

std::vector<size_t> Pile::makeOrder(Weight weight) {
  std::vector<size_t> sorted = sort(weight), ranks(sorted.size()), order;
  for (auto [rank, buffer] : enumerate(sorted))
    ranks[buffer] = rank;
  Rest rest(lives, ranks);
  levels.clear();
  lowest.clear();
  set(0, 0);
  while (order.size() < buffers.size()) {
    auto level = findLowest();
    size_t first = rest.findFirst({level->first, getEnd(level)});
    if (first == Rest::kNone) {
      raise(level);
      continue;
    }
    order.push_back(sorted[first]);
    rest.erase(order.back());
    put(level, order.back());
  }
  return order;
}

std::vector<size_t> tandem::lower::pileUp(ArrayRef<Buffer> buffers,
                                          const QueueClocks &clocks,
                                          Pile::Weight weight) {
  return Pile(buffers, clocks).makeOrder(weight);
}
