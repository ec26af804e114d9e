//===- Placement.cpp - placement of buffers in an arena -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pairs of buffers are not compared. A command is beside a buffer if it is
// neither surely done when the buffer is first used, nor surely begins when it
// was last used. On each queue the commands beside a buffer are a range. Two
// buffers live together if and only if, on some queue, the first command to the
// last one that uses the one are not all outside of what is beside the other.
// Ranges of commands are looked up in a segment tree.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Lower/Placement.h"
#include "Pile.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"
#include <limits>
#include <numeric>

using namespace llvm;
using namespace tandem::lower;

/// So many orders are improved, those that leave the fewest gaps; and how many
/// buffers are placed for each of them, and how often, at most.
constexpr size_t kNumImproved = 6, kMaxPlaced = 20'000, kMaxTries = 32;

//===----------------------------------------------------------------------===//
// Bytes in use
//===----------------------------------------------------------------------===//

namespace {

/// Bytes of the arena: sorted ranges that do not touch.
class ByteSet {
public:
  bool empty() const { return ranges.empty(); }
  void add(int64_t begin, int64_t end);

private:
  friend class Gaps;
  struct Range {
    int64_t begin, end;
  };
  std::vector<Range> ranges;
};

/// What is free in a set, asked for at rising offsets.
class Gaps {
public:
  explicit Gaps(const ByteSet &set) : ranges(set.ranges) {}
  /// The lowest offset from `offset` on at which `bytes` are free.
  int64_t find(int64_t offset, int64_t bytes);
  /// Whether all is free from the last answer on.
  bool isBehindAll() const { return ranges.empty(); }

private:
  ArrayRef<ByteSet::Range> ranges; ///< those that end behind the last answer
};

/// Positions of commands in a queue, from 1; empty if `last` is below `first`.
struct Span {
  int64_t first, last;
  bool empty() const { return last < first; }
  bool operator==(const Span &) const = default;
};

/// Which bytes are in use beside the commands of one queue.
class CommandTree {
public:
  explicit CommandTree(int64_t numCommands)
      : size(numCommands), nodes(2 * PowerOf2Ceil(numCommands + 1)) {}
  void add(Span span, int64_t begin, int64_t end) {
    add(1, {1, size}, span, begin, end);
  }
  /// The sets of the bytes in use beside any command of `span`.
  void collect(Span span, SmallVectorImpl<const ByteSet *> &sets) const {
    collect(1, {1, size}, span, sets);
  }

private:
  struct Node {
    ByteSet beside; ///< beside any command of the node
    ByteSet whole;  ///< beside all of them, and not of the node above
  };
  void add(size_t node, Span own, Span span, int64_t begin, int64_t end);
  void collect(size_t node, Span own, Span span,
               SmallVectorImpl<const ByteSet *> &sets) const;

  int64_t size;
  std::vector<Node> nodes;
};

} // namespace

void ByteSet::add(int64_t begin, int64_t end) {
  auto first = partition_point(ranges, [&](Range r) { return r.end < begin; });
  auto last = first;
  for (; last != ranges.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  if (first == last) {
    ranges.insert(first, {begin, end});
    return;
  }
  *first = {begin, end};
  ranges.erase(first + 1, last);
}

int64_t Gaps::find(int64_t offset, int64_t bytes) {
  // Steps that double: most answers are near the one before.
  size_t step = 1;
  while (step <= ranges.size() && ranges[step - 1].end <= offset) {
    ranges = ranges.drop_front(step);
    step *= 2;
  }
  auto isBefore = [&](ByteSet::Range r) { return r.end <= offset; };
  ranges = ranges.drop_front(
      partition_point(ranges.take_front(step), isBefore) - ranges.begin());
  for (; !ranges.empty() && ranges.front().begin < offset + bytes;
       ranges = ranges.drop_front())
    offset = ranges.front().end;
  return offset;
}

static bool isApart(Span a, Span b) {
  return a.empty() || b.empty() || a.last < b.first || b.last < a.first;
}

static bool contains(Span outer, Span inner) {
  return outer.first <= inner.first && inner.last <= outer.last;
}

void CommandTree::add(size_t node, Span own, Span span, int64_t begin,
                      int64_t end) {
  if (isApart(own, span))
    return;
  nodes[node].beside.add(begin, end);
  if (contains(span, own))
    return nodes[node].whole.add(begin, end);
  int64_t middle = (own.first + own.last) / 2;
  add(2 * node, {own.first, middle}, span, begin, end);
  add(2 * node + 1, {middle + 1, own.last}, span, begin, end);
}

void CommandTree::collect(size_t node, Span own, Span span,
                          SmallVectorImpl<const ByteSet *> &sets) const {
  if (isApart(own, span) || nodes[node].beside.empty())
    return;
  if (contains(span, own))
    return sets.push_back(&nodes[node].beside);
  if (!nodes[node].whole.empty())
    sets.push_back(&nodes[node].whole);
  int64_t middle = (own.first + own.last) / 2;
  collect(2 * node, {own.first, middle}, span, sets);
  collect(2 * node + 1, {middle + 1, own.last}, span, sets);
}

//===----------------------------------------------------------------------===//
// Buffers on queues
//===----------------------------------------------------------------------===//

namespace {

/// Per queue, the commands from the first to the last use of a buffer, and
/// those that are beside it.
struct Spans {
  SmallVector<Span, 2> used, beside;
};

/// The buffers that have been placed, by the commands that they lie beside.
class Arena {
public:
  explicit Arena(const QueueClocks &clocks);
  /// The lowest offset at which the buffer meets none that lives with it.
  int64_t findOffset(int64_t bytes, const Spans &spans) const;
  void add(const Buffer &buffer, const Spans &spans);

private:
  std::vector<CommandTree> used;
  /// What is there already by `used` is left out.
  std::vector<CommandTree> beside;
};

} // namespace

static Spans getSpans(const Lifetime &life, const QueueClocks &clocks) {
  Spans spans;
  for (size_t queue : seq(clocks.size())) {
    spans.used.push_back(life.death[queue]
                             ? Span{life.first[queue], life.death[queue]}
                             : Span{1, 0});
    auto after = partition_point(clocks[queue], [&](const Clock &known) {
      return !isWithin(life.death, known);
    });
    // The last use itself knows that all uses are done.
    spans.beside.push_back(
        {life.birth[queue] + 1,
         std::max<int64_t>(after - clocks[queue].begin(), life.death[queue])});
  }
  return spans;
}

static std::vector<Spans> getSpans(ArrayRef<Buffer> buffers,
                                   const QueueClocks &clocks) {
  std::vector<Spans> spans;
  for (const Buffer &buffer : buffers)
    spans.push_back(getSpans(buffer.life, clocks));
  return spans;
}

Arena::Arena(const QueueClocks &clocks) {
  for (const std::vector<Clock> &commands : clocks) {
    used.emplace_back(commands.size());
    beside.emplace_back(commands.size());
  }
}

int64_t Arena::findOffset(int64_t bytes, const Spans &spans) const {
  SmallVector<const ByteSet *, 64> sets;
  for (size_t queue : seq(used.size())) {
    used[queue].collect(spans.beside[queue], sets);
    beside[queue].collect(spans.used[queue], sets);
  }
  SmallVector<Gaps, 64> gaps;
  for (const ByteSet *set : sets)
    gaps.emplace_back(*set);
  int64_t offset = 0, before = -1;
  while (before != offset) {
    before = offset;
    for (Gaps &of : gaps)
      offset = of.find(offset, bytes);
    erase_if(gaps, [](const Gaps &of) { return of.isBehindAll(); });
  }
  return offset;
}

void Arena::add(const Buffer &buffer, const Spans &spans) {
  int64_t end = buffer.getEnd();
  for (size_t queue : seq(used.size())) {
    used[queue].add(spans.used[queue], buffer.offset, end);
    if (spans.beside[queue] != spans.used[queue])
      beside[queue].add(spans.beside[queue], buffer.offset, end);
  }
}

//===----------------------------------------------------------------------===//
// How much lives beside a buffer
//===----------------------------------------------------------------------===//

namespace {
/// Bytes at a place in clocks, or a question: how many bytes are at places
/// within this one?
struct Mark {
  Clock place;
  int64_t bytes = 0;
  int64_t *sum = nullptr;
};
} // namespace

static void sumWithin(std::vector<const Mark *> marks, unsigned queue);

/// `marks` are sorted by the component `queue`.
static void divide(ArrayRef<const Mark *> marks, unsigned queue) {
  if (marks.size() < 2)
    return;
  auto before = marks.take_front(marks.size() / 2);
  auto after = marks.drop_front(before.size());
  divide(before, queue);
  divide(after, queue);
  std::vector<const Mark *> across;
  copy_if(before, std::back_inserter(across), [](auto *m) { return !m->sum; });
  copy_if(after, std::back_inserter(across), [](auto *m) { return m->sum; });
  sumWithin(std::move(across), queue - 1);
}

/// Adds to each question the bytes that are within by the components up to
/// `queue`.
static void sumWithin(std::vector<const Mark *> marks, unsigned queue) {
  sort(marks, [&](const Mark *a, const Mark *b) {
    // Of equal ones bytes come before questions.
    return std::pair(a->place[queue], a->sum != nullptr) <
           std::pair(b->place[queue], b->sum != nullptr);
  });
  if (queue > 0)
    return divide(marks, queue);
  int64_t bytes = 0;
  for (const Mark *mark : marks) {
    bytes += mark->bytes;
    if (mark->sum)
      *mark->sum += bytes;
  }
}

static void sumWithin(ArrayRef<Mark> marks, unsigned numQueues) {
  std::vector<const Mark *> pointers;
  for (const Mark &mark : marks)
    pointers.push_back(&mark);
  sumWithin(std::move(pointers), numQueues - 1);
}

static Clock negate(Clock clock) {
  for (int64_t &count : clock)
    count = -count;
  return clock;
}

/// Bytes of all buffers that live at some time of each buffer's life: all but
/// those that die before it and those that are born behind it.
static std::vector<int64_t> getCrowds(ArrayRef<Buffer> buffers,
                                      unsigned numQueues) {
  std::vector<int64_t> apart(buffers.size(), 0);
  std::vector<Mark> before, behind;
  int64_t all = 0;
  for (auto [buffer, sum] : zip_equal(buffers, apart)) {
    all += buffer.bytes;
    before.push_back({buffer.life.death, buffer.bytes, nullptr});
    before.push_back({buffer.life.birth, 0, &sum});
    behind.push_back({negate(buffer.life.birth), buffer.bytes, nullptr});
    behind.push_back({negate(buffer.life.death), 0, &sum});
  }
  sumWithin(before, numQueues);
  sumWithin(behind, numQueues);
  for (int64_t &bytes : apart)
    bytes = all - bytes;
  return apart;
}

//===----------------------------------------------------------------------===//
// Least size
//===----------------------------------------------------------------------===//

/// The commands of a queue that surely run after some use of a buffer and
/// before another one, or are such uses.
static Span getCertain(const Lifetime &life, size_t queue,
                       const QueueClocks &clocks) {
  const std::vector<Clock> &commands = clocks[queue];
  Span span{static_cast<int64_t>(commands.size()) + 1, 0};
  for (size_t other : seq(clocks.size())) {
    if (!life.death[other])
      continue;
    auto first = partition_point(commands, [&](const Clock &known) {
      return known[other] < life.first[other];
    });
    span.first = std::min<int64_t>(span.first, first - commands.begin() + 1);
    span.last =
        std::max(span.last, clocks[other][life.death[other] - 1][queue]);
  }
  return span;
}

/// No arena is smaller: the most bytes that are surely there at once.
static int64_t getLeastSize(ArrayRef<Buffer> buffers,
                            const QueueClocks &clocks) {
  int64_t least = 0;
  for (size_t queue : seq(clocks.size())) {
    std::vector<int64_t> changes(clocks[queue].size() + 2, 0);
    for (const Buffer &buffer : buffers)
      if (Span span = getCertain(buffer.life, queue, clocks); !span.empty()) {
        changes[span.first] += buffer.bytes;
        changes[span.last + 1] -= buffer.bytes;
      }
    int64_t alive = 0;
    for (int64_t change : changes)
      least = std::max(least, alive += change);
  }
  return least;
}

//===----------------------------------------------------------------------===//
// Orders
//===----------------------------------------------------------------------===//

/// Places buffers in this order; returns where the last byte of them ends.
static int64_t placeInto(Arena &arena, ArrayRef<size_t> order,
                         MutableArrayRef<Buffer> buffers,
                         ArrayRef<Spans> spans) {
  int64_t size = 0;
  for (size_t index : order) {
    Buffer &buffer = buffers[index];
    buffer.offset = arena.findOffset(buffer.bytes, spans[index]);
    size = std::max(size, buffer.getEnd());
    if (buffer.bytes)
      arena.add(buffer, spans[index]);
  }
  return size;
}

int64_t tandem::lower::placeInOrder(ArrayRef<size_t> order,
                                    MutableArrayRef<Buffer> buffers,
                                    const QueueClocks &clocks) {
  Arena arena(clocks);
  return placeInto(arena, order, buffers, getSpans(buffers, clocks));
}

/// The indices by descending weight; equal ones as they are.
template <typename WeightT>
static std::vector<size_t> orderBy(size_t count, WeightT weight) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  stable_sort(order, [&](size_t a, size_t b) { return weight(a) > weight(b); });
  return order;
}

int64_t tandem::lower::placeBeside(ArrayRef<Buffer> placed,
                                   MutableArrayRef<Buffer> buffers,
                                   const QueueClocks &clocks) {
  Arena arena(clocks);
  int64_t size = 0;
  for (const Buffer &buffer : placed) {
    size = std::max(size, buffer.getEnd());
    if (buffer.bytes)
      arena.add(buffer, getSpans(buffer.life, clocks));
  }
  auto order =
      orderBy(buffers.size(), [&](size_t i) { return buffers[i].bytes; });
  return std::max(size,
                  placeInto(arena, order, buffers, getSpans(buffers, clocks)));
}

//===----------------------------------------------------------------------===//
// The best order
//===----------------------------------------------------------------------===//

namespace {

/// The best places of those tried.
class Placer {
public:
  Placer(MutableArrayRef<Buffer> buffers, const QueueClocks &clocks)
      : best(buffers), clocks(clocks), spans(getSpans(buffers, clocks)),
        least(getLeastSize(buffers, clocks)), current(buffers) {}
  int64_t place(ArrayRef<size_t> order);
  void improve(std::vector<std::vector<size_t>> orders, size_t numTries);

  int64_t size = std::numeric_limits<int64_t>::max();

private:
  void advance(std::vector<size_t> &order) const;

  MutableArrayRef<Buffer> best;
  const QueueClocks &clocks;
  std::vector<Spans> spans;
  int64_t least;
  std::vector<Buffer> current;
};

} // namespace

/// Returns the size of the arena.
int64_t Placer::place(ArrayRef<size_t> order) {
  Arena arena(clocks);
  int64_t found = placeInto(arena, order, current, spans);
  if (found < size) {
    size = found;
    llvm::copy(current, best.begin());
  }
  return found;
}

/// Puts what ends above the least size at half of its place in the order.
void Placer::advance(std::vector<size_t> &order) const {
  std::vector<size_t> places(order.size());
  for (auto [place, index] : enumerate(order)) {
    bool isAbove = current[index].getEnd() > least;
    places[index] = isAbove ? place : 2 * place + 1;
  }
  stable_sort(order, [&](size_t a, size_t b) { return places[a] < places[b]; });
}

/// Tries all orders once, and then changes those that leave the fewest gaps.
void Placer::improve(std::vector<std::vector<size_t>> orders, size_t numTries) {
  std::vector<std::pair<int64_t, size_t>> found;
  for (size_t i = 0; i < orders.size() && size > least; ++i) {
    found.emplace_back(place(orders[i]), i);
    advance(orders[i]);
  }
  llvm::sort(found);
  found.resize(std::min(found.size(), kNumImproved));
  for (size_t i = 1; i < numTries; ++i)
    for (size_t index : make_second_range(found)) {
      if (size <= least)
        return;
      place(orders[index]);
      advance(orders[index]);
    }
}

/// Those of at least half of the bytes of the largest one first.
static std::vector<size_t> putLargeFirst(std::vector<size_t> order,
                                         ArrayRef<Buffer> buffers) {
  int64_t largest = 0;
  for (const Buffer &buffer : buffers)
    largest = std::max(largest, buffer.bytes);
  std::stable_partition(order.begin(), order.end(), [&](size_t i) {
    return 2 * buffers[i].bytes >= largest;
  });
  return order;
}

/// Orders that leave few gaps: where much is alive, or large ones, go first.
static std::vector<std::vector<size_t>> getStarts(ArrayRef<Buffer> buffers,
                                                  const QueueClocks &clocks) {
  size_t count = buffers.size();
  std::vector<std::vector<size_t>> starts;
  starts.push_back(orderBy(count, [&](size_t i) { return buffers[i].bytes; }));
  starts.push_back(
      pileUp(buffers, clocks, [](double, double life) { return life; }));
  starts.push_back(pileUp(
      buffers, clocks, [](double bytes, double life) { return bytes * life; }));
  starts.push_back(
      pileUp(buffers, clocks, [](double bytes, double) { return bytes; }));
  std::vector<int64_t> crowds = getCrowds(buffers, clocks.size());
  starts.push_back(orderBy(count, [&](size_t i) {
    return static_cast<double>(crowds[i]) *
           static_cast<double>(buffers[i].bytes);
  }));
  starts.push_back(orderBy(
      count, [&](size_t i) { return std::pair(crowds[i], buffers[i].bytes); }));
  starts.push_back(orderBy(count, [&](size_t i) {
    const Clock &birth = buffers[i].life.birth;
    return -std::accumulate(birth.begin(), birth.end(), int64_t(0));
  }));
  // Small ones find places between those of large ones.
  for (size_t i = 0, size = starts.size(); i < size; ++i)
    starts.push_back(putLargeFirst(starts[i], buffers));
  return starts;
}

int64_t tandem::lower::place(MutableArrayRef<Buffer> buffers,
                             const QueueClocks &clocks, bool isDraft) {
  size_t numTries =
      std::clamp<size_t>(kMaxPlaced / (buffers.size() + 1), 1, kMaxTries);
  Placer placer(buffers, clocks);
  placer.improve(getStarts(buffers, clocks), isDraft ? 1 : numTries);
  return placer.size;
}
