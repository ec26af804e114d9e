//===- PlacementTest.cpp - places in an arena, pair by pair ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random commands on one to four queues that wait for each other, and random
// buffers that they use. What the sweeps find is what comparing all pairs
// finds.
//
//===----------------------------------------------------------------------===//

#include "Placement.h"
#include "gtest/gtest.h"
#include <random>

using namespace tandem::lower;

namespace {

struct Use {
  unsigned queue;
  int64_t position;
};

struct Case {
  QueueClocks clocks;
  std::vector<Use> commands; ///< in the order of the text
  std::vector<Buffer> buffers;
};

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}
  Case make();

private:
  int64_t draw(int64_t below) { return random() % below; }
  void addCommands(Case &made, int64_t count);
  Buffer makeBuffer(const Case &made);

  std::mt19937 random;
};

} // namespace

void Generator::addCommands(Case &made, int64_t count) {
  size_t numQueues = made.clocks.size();
  std::vector<Clock> known(numQueues, Clock(numQueues, 0));
  for (int64_t i = 0; i < count; ++i) {
    unsigned queue = draw(numQueues), other = draw(numQueues);
    if (draw(3) == 0)
      for (size_t q = 0; q < numQueues; ++q)
        known[queue][q] = std::max(known[queue][q], known[other][q]);
    made.commands.push_back({queue, ++known[queue][queue]});
    made.clocks[queue].push_back(known[queue]);
  }
}

Buffer Generator::makeBuffer(const Case &made) {
  const int64_t first = draw(made.commands.size());
  const int64_t length =
      draw(2) ? 3 : static_cast<int64_t>(made.commands.size());
  Buffer buffer;
  buffer.bytes = 64 * (1 + draw(8));
  Clock none(made.clocks.size(), 0);
  buffer.life = {Clock(made.clocks.size(), INT64_MAX), none, none};
  for (int64_t i = 0, uses = 1 + draw(4); i < uses; ++i) {
    int64_t at =
        std::min<int64_t>(first + draw(length), made.commands.size() - 1);
    auto [queue, position] = made.commands[at];
    Clock start = made.clocks[queue][position - 1];
    --start[queue];
    Lifetime &life = buffer.life;
    for (size_t q = 0; q < start.size(); ++q)
      life.birth[q] = std::min(life.birth[q], start[q]);
    life.first[queue] =
        life.first[queue] ? std::min(life.first[queue], position) : position;
    life.death[queue] = std::max(life.death[queue], position);
  }
  return buffer;
}

Case Generator::make() {
  Case made;
  made.clocks.resize(1 + draw(4));
  addCommands(made, 1 + draw(60));
  for (int64_t i = 0, count = 1 + draw(80); i < count; ++i)
    made.buffers.push_back(makeBuffer(made));
  return made;
}

/// By the definition: as low as it fits beside all that live with it.
static int64_t placeByPairs(const std::vector<const Buffer *> &order,
                            std::vector<int64_t> &offsets,
                            const Buffer *first) {
  std::vector<const Buffer *> placed;
  auto offsetOf = [&](const Buffer *b) -> int64_t & {
    return offsets[b - first];
  };
  int64_t size = 0;
  for (const Buffer *buffer : order) {
    int64_t &offset = offsetOf(buffer);
    offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (const Buffer *other : placed)
        if (buffer->life.livesWith(other->life) &&
            offsetOf(other) < offset + buffer->bytes &&
            offset < offsetOf(other) + other->bytes) {
          offset = offsetOf(other) + other->bytes;
          moved = true;
        }
    }
    size = std::max(size, offset + buffer->bytes);
    placed.push_back(buffer);
  }
  return size;
}

static int64_t placeByPairs(std::vector<Buffer> &buffers) {
  std::vector<int64_t> crowds;
  for (const Buffer &buffer : buffers) {
    crowds.push_back(0);
    for (const Buffer &other : buffers)
      if (buffer.life.livesWith(other.life))
        crowds.back() += other.bytes;
  }
  std::vector<const Buffer *> bySize;
  for (const Buffer &buffer : buffers)
    bySize.push_back(&buffer);
  auto byCrowd = bySize;
  auto weigh = [&](const Buffer *b) {
    return static_cast<double>(crowds[b - buffers.data()]) * b->bytes;
  };
  // Equal ones as they are.
  std::sort(bySize.begin(), bySize.end(), [](auto *a, auto *b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a < b;
  });
  std::sort(byCrowd.begin(), byCrowd.end(), [&](auto *a, auto *b) {
    return weigh(a) != weigh(b) ? weigh(a) > weigh(b) : a < b;
  });
  std::vector<int64_t> offsets(buffers.size()), crowded(buffers.size());
  int64_t size = placeByPairs(bySize, offsets, buffers.data());
  if (int64_t other = placeByPairs(byCrowd, crowded, buffers.data());
      other < size) {
    size = other;
    offsets = crowded;
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].offset = offsets[i];
  return size;
}

TEST(PlacementTest, FindsWhatComparingAllPairsFinds) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Case made = Generator(seed).make();
    std::vector<Buffer> expected = made.buffers;
    ASSERT_EQ(place(made.buffers, made.clocks), placeByPairs(expected))
        << "seed " << seed;
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(made.buffers[i].offset, expected[i].offset)
          << "seed " << seed << ", buffer " << i;
  }
}
