//===- Vees.cpp - schedules of sections in a V over the points ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Point i has the sections i, on the way down, and 2p - 1 - i, on the way up.
//
//===----------------------------------------------------------------------===//

#include "Writers.h"
#include <algorithm>
#include <array>
#include <deque>

using namespace tandem::orders;

namespace {
/// A leg of the V.
enum Leg : unsigned { Down, Up };

/// Writes the row of a point, for each leg and kind in the order of
/// microbatches.
class VeeRow {
public:
  VeeRow(const Shape &shape, unsigned point)
      : sections{point, shape.numSections - 1 - point},
        numMicrobatches(shape.numMicrobatches) {}

  /// The next microbatch of a leg. Nothing is written of those that the step
  /// does not have.
  void add(Leg leg, ActionKind kind, bool overlapsNext = false) {
    if (kind == ActionKind::Backward)
      count(leg, ActionKind::BackwardWeight)++;
    Action action{sections[leg], kind, count(leg, kind)++, overlapsNext};
    if (action.microbatch < numMicrobatches)
      row.push_back(action);
  }
  void addForward(Leg leg) { add(leg, ActionKind::Forward); }
  void addInput(Leg leg) { add(leg, ActionKind::BackwardInput); }
  void addWeight(Leg leg) { add(leg, ActionKind::BackwardWeight); }
  void addSplit(Leg leg) {
    addInput(leg);
    addWeight(leg);
  }
  /// F of a leg, and B of the other: in one group, unless it is said.
  void addPair(Leg leg, bool isGroup = true) {
    add(leg, ActionKind::Forward, isGroup);
    add(leg == Down ? Up : Down, ActionKind::Backward);
  }

  /// How many there were; B counts as I, and as W.
  unsigned &count(Leg leg, ActionKind kind) {
    if (kind == ActionKind::Backward)
      kind = ActionKind::BackwardInput;
    return counts[leg][static_cast<unsigned>(kind)];
  }
  std::vector<Action> take() { return std::move(row); }

private:
  std::array<unsigned, 2> sections;
  unsigned numMicrobatches;
  std::array<std::array<unsigned, 3>, 2> counts{};
  std::vector<Action> row;
};
} // namespace

/// Calls `act` as many times.
template <typename Act> static void repeat(unsigned times, Act act) {
  for (unsigned i = 0; i < times; ++i)
    act();
}

static Order writeRows(const Shape &shape,
                       void (*write)(VeeRow &, const Shape &, unsigned)) {
  Order order;
  for (unsigned point = 0; point < shape.numPoints; ++point) {
    VeeRow row(shape, point);
    write(row, shape, point);
    order.points.push_back(row.take());
  }
  return order;
}

//===----------------------------------------------------------------------===//
// ZB-V
//===----------------------------------------------------------------------===//

/// Of at least 2p - 1 microbatches, which the first phases take.
static void writeZbVRow(VeeRow &row, const Shape &shape, unsigned point) {
  constexpr auto kForward = ActionKind::Forward;
  constexpr auto kWeight = ActionKind::BackwardWeight;
  unsigned behind = shape.numPoints - point;
  unsigned count = std::max(shape.numMicrobatches, 2 * shape.numPoints - 1);
  // The first microbatch comes back when all points have begun.
  repeat(2 * behind - 1, [&] { row.addForward(Down); });
  repeat(point, [&] {
    row.addForward(Up);
    row.addForward(Down);
  });
  repeat(behind, [&] {
    row.addForward(Up);
    row.addSplit(Up);
  });
  // F, I and W of both legs in turn.
  while (row.count(Up, kForward) < count) {
    if (row.count(Down, kForward) < count)
      row.addForward(Down);
    row.addSplit(Down);
    row.addForward(Up);
    row.addSplit(Up);
  }
  // No forward pass is left: I first, as the points in front wait for it.
  repeat(point, [&] {
    row.addInput(Down);
    row.addInput(Up);
  });
  repeat(behind, [&] { row.addSplit(Down); });
  for (Leg leg : {Up, Down})
    repeat(count - row.count(leg, kWeight), [&] { row.addWeight(leg); });
}

Order tandem::orders::writeZbV(const Shape &shape) {
  return writeRows(shape, writeZbVRow);
}

//===----------------------------------------------------------------------===//
// DualPipe-V
//===----------------------------------------------------------------------===//

/// The passes of both legs in turn, B at first and I later: the second half of
/// `times` microbatches. W of the latter goes into `weights`.
static void writeTurns(VeeRow &row, unsigned times, bool isUpWhole,
                       std::deque<Leg> &weights) {
  auto add = [&](Leg leg, bool isWhole) {
    row.add(leg, isWhole ? ActionKind::Backward : ActionKind::BackwardInput);
    if (!isWhole)
      weights.push_back(leg);
  };
  for (unsigned i = 0; i < times; ++i) {
    add(Up, i < times / 2 || (i == times / 2 && isUpWhole));
    add(Down, i < times / 2);
  }
}

static void writeDualPipeVRow(VeeRow &row, const Shape &shape, unsigned point) {
  unsigned behind = shape.numPoints - 1 - point;
  // Microbatches enter on the way down, and on the way up.
  repeat(2 * behind, [&] { row.addForward(Down); });
  repeat(point + 1, [&] {
    row.addForward(Down);
    row.addForward(Up);
  });
  // The first ones return; I comes early.
  repeat(behind, [&] {
    row.addSplit(Up);
    row.addForward(Up);
  });
  // Both ways at once. The first microbatch turns back at the last point, which
  // the others wait for: it has no other beside it there.
  repeat(shape.numMicrobatches - 2 * shape.numPoints + point + 1, [&] {
    bool turns = behind == 0 && row.count(Up, ActionKind::Backward) == 0;
    row.addPair(Down, /*isGroup=*/!turns);
    row.addPair(Up);
  });
  // None enters any more, and the last ones leave.
  repeat(behind, [&] {
    row.add(Up, ActionKind::Backward);
    row.addPair(Up);
  });
  std::deque<Leg> weights;
  writeTurns(row, point + 1, /*isUpWhole=*/point % 2 == 0, weights);
  auto addWeight = [&] {
    row.addWeight(weights.front());
    weights.pop_front();
  };
  repeat(behind, [&] {
    addWeight();
    row.addInput(Down);
    weights.push_back(Down);
  });
  while (!weights.empty())
    addWeight();
}

Order tandem::orders::writeDualPipeV(const Shape &shape) {
  return writeRows(shape, writeDualPipeVRow);
}
