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

#include "tandem/Conversion/Lower/Placement.h"
#include "gtest/gtest.h"
#include <numeric>
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

static std::vector<size_t> makeOrder(size_t count, unsigned seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

TEST(PlacementTest, FindsWhatComparingAllPairsFinds) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Case made = Generator(seed).make();
    std::vector<size_t> order = makeOrder(made.buffers.size(), seed);
    std::vector<const Buffer *> pointers;
    for (size_t index : order)
      pointers.push_back(&made.buffers[index]);
    std::vector<int64_t> offsets(order.size());
    int64_t size = placeByPairs(pointers, offsets, made.buffers.data());
    ASSERT_EQ(placeInOrder(order, made.buffers, made.clocks), size)
        << "seed " << seed;
    for (size_t i = 0; i < offsets.size(); ++i)
      ASSERT_EQ(made.buffers[i].offset, offsets[i])
          << "seed " << seed << ", buffer " << i;
  }
}

//===----------------------------------------------------------------------===//
// The size of the arena
//===----------------------------------------------------------------------===//

/// The most bytes that commands of one queue use at once.
static int64_t getMostAlive(const Case &made) {
  int64_t most = 0;
  for (int64_t at = 1, end = made.commands.size(); at <= end; ++at) {
    int64_t alive = 0;
    for (const Buffer &buffer : made.buffers)
      if (buffer.life.first[0] <= at && at <= buffer.life.death[0])
        alive += buffer.bytes;
    most = std::max(most, alive);
  }
  return most;
}

static bool areApart(const Buffer &a, const Buffer &b) {
  return !a.life.livesWith(b.life) || a.getEnd() <= b.offset ||
         b.getEnd() <= a.offset;
}

TEST(PlacementTest, PlacesApartWhatLivesTogether) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    Case made = Generator(seed).make();
    int64_t size = place(made.buffers, made.clocks), most = 0;
    for (const Buffer &a : made.buffers) {
      most = std::max(most, a.getEnd());
      for (const Buffer &b : made.buffers)
        ASSERT_TRUE(&a == &b || areApart(a, b)) << "seed " << seed;
    }
    ASSERT_EQ(size, most) << "seed " << seed;
  }
}

/// Those that come behind lie beside those that stay.
TEST(PlacementTest, LeavesWhatIsPlaced) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    Case made = Generator(seed).make();
    size_t numPlaced = made.buffers.size() / 2;
    std::vector<Buffer> placed(made.buffers.begin(),
                               made.buffers.begin() + numPlaced),
        others(made.buffers.begin() + numPlaced, made.buffers.end());
    int64_t most = place(placed, made.clocks);
    int64_t size = placeBeside(placed, others, made.clocks);
    for (const Buffer &a : others) {
      most = std::max(most, a.getEnd());
      for (const std::vector<Buffer> *list : {&placed, &others})
        for (const Buffer &b : *list)
          ASSERT_TRUE(&a == &b || areApart(a, b)) << "seed " << seed;
    }
    ASSERT_EQ(size, most) << "seed " << seed;
  }
}

/// On one queue it seldom is larger than what is alive at once.
TEST(PlacementTest, LeavesFewGaps) {
  unsigned numCases = 0, numLeast = 0;
  int64_t least = 0, size = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Case made = Generator(seed).make();
    if (made.clocks.size() > 1)
      continue;
    int64_t alive = getMostAlive(made);
    int64_t found = place(made.buffers, made.clocks);
    ASSERT_GE(found, alive) << "seed " << seed;
    ++numCases;
    numLeast += found == alive;
    least += alive;
    size += found;
  }
  printf("%u of %u arenas are least, together %.4f of the least\n", numLeast,
         numCases, static_cast<double>(size) / static_cast<double>(least));
  EXPECT_GT(numLeast, numCases * 97 / 100);
  EXPECT_LT(static_cast<double>(size), 1.0005 * static_cast<double>(least));
}

/// On one queue, as a pipeline makes them: each command makes values, of which
/// most are read at once, and some some passes later.
static Case makeMany(unsigned seed, int64_t numCommands) {
  std::mt19937 random(seed);
  Case made;
  made.clocks.resize(1);
  for (int64_t position = 1; position <= numCommands; ++position) {
    made.clocks[0].push_back({position});
    made.commands.push_back({0, position});
    for (unsigned value = 0; value < 2; ++value) {
      int64_t bytes = 64 * (1 + static_cast<int64_t>(random() % 97));
      int64_t last = position + (random() % 3 ? 2 : 100 + random() % 400);
      made.buffers.push_back(
          {bytes,
           {{position - 1}, {position}, {std::min<int64_t>(last, numCommands)}},
           0});
    }
  }
  return made;
}

/// Tens of thousands are piled up, too. In the other orders alone they take
/// 1.105 of the least.
TEST(PlacementTest, LeavesFewGapsAmongMany) {
  Case made = makeMany(1, 10'000);
  int64_t most = getMostAlive(made);
  int64_t size = place(made.buffers, made.clocks);
  printf("%zu buffers: %.5f of the least\n", made.buffers.size(),
         static_cast<double>(size) / static_cast<double>(most));
  EXPECT_LT(static_cast<double>(size), 1.08 * static_cast<double>(most));
}
