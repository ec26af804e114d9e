//===- Loops.cpp - schedules of sections in a loop over the points --------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A point has a list of its forward passes and one of its backward passes. It
// runs some of the first ahead, and then one of each list in turn.
//
//===----------------------------------------------------------------------===//

#include "Writers.h"
#include <algorithm>
#include <limits>

using namespace tandem::orders;

/// Without an end.
static constexpr unsigned kAll = std::numeric_limits<unsigned>::max();

namespace {
/// A round is a group of microbatches that passes through all sections of a
/// point before the next one comes.
struct Round {
  unsigned begin, end;
};

/// What a point does.
struct PointPlan {
  /// Forward passes in front of the first backward pass, and of those that the
  /// first backward pass needs.
  unsigned ahead;
  /// W comes behind as many later I; without it, a backward pass is one action.
  std::optional<unsigned> delay;
};

class LoopWriter {
public:
  LoopWriter(const Shape &shape, std::vector<Round> rounds)
      : shape(shape), rounds(std::move(rounds)) {}

  /// `plan` gives the PointPlan of a point.
  template <typename Plan> Order run(Plan plan) {
    Order order;
    for (unsigned point = 0; point < shape.numPoints; ++point)
      order.points.push_back(writeRow(point, plan(point)));
    return order;
  }

private:
  using Row = std::vector<Action>;
  Row list(unsigned point, ActionKind kind) const;
  Row writeRow(unsigned point, const PointPlan &plan) const;

  Shape shape;
  std::vector<Round> rounds;
};
} // namespace

/// All passes of a kind: round by round, in each the sections in the order of
/// the data, or against it.
std::vector<Action> LoopWriter::list(unsigned point, ActionKind kind) const {
  Row row;
  unsigned count = shape.numSections / shape.numPoints;
  for (const Round &round : rounds)
    for (unsigned i = 0; i < count; ++i) {
      unsigned turn = kind == ActionKind::Forward ? i : count - 1 - i;
      unsigned section = point + turn * shape.numPoints;
      for (unsigned each = round.begin; each < round.end; ++each)
        row.push_back({section, kind, each});
    }
  return row;
}

std::vector<Action> LoopWriter::writeRow(unsigned point,
                                         const PointPlan &plan) const {
  auto kind = plan.delay ? ActionKind::BackwardInput : ActionKind::Backward;
  Row forward = list(point, ActionKind::Forward), backward = list(point, kind);
  Row weights;
  if (plan.delay)
    weights = list(point, ActionKind::BackwardWeight);
  auto needed = std::ranges::find_if(forward, [&](const Action &action) {
    return action.section == backward.front().section;
  });
  size_t most = forward.end() - needed;
  Row row(forward.begin(), needed + std::min<size_t>(plan.ahead, most));
  size_t next = row.size(), weight = 0;
  for (size_t i = 0; i < backward.size(); ++i) {
    row.push_back(backward[i]);
    if (plan.delay && i >= *plan.delay)
      row.push_back(weights[weight++]);
    if (next < forward.size())
      row.push_back(forward[next++]);
  }
  row.insert(row.end(), weights.begin() + weight, weights.end());
  return row;
}

/// Rounds of p microbatches, or a few more. The first one is the largest: it
/// says how many forward passes are ahead.
static std::vector<Round> makeRounds(const Shape &shape) {
  unsigned number = std::max(1u, shape.numMicrobatches / shape.numPoints);
  std::vector<Round> rounds;
  unsigned begin = 0;
  for (unsigned left = number; left > 0; --left) {
    unsigned end = begin + (shape.numMicrobatches - begin + left - 1) / left;
    rounds.push_back({begin, end});
    begin = end;
  }
  return rounds;
}

static std::vector<Round> makeOneRound(const Shape &shape) {
  return {{0, shape.numMicrobatches}};
}

/// Points behind `point`, in a loop.
static unsigned countBehind(const Shape &shape, unsigned point) {
  return shape.numPoints - 1 - point;
}

Order tandem::orders::writeGpipe(const Shape &shape) {
  return writeAiao(shape);
}

Order tandem::orders::writeAiao(const Shape &shape) {
  return LoopWriter(shape, makeOneRound(shape)).run([](unsigned) {
    return PointPlan{kAll, std::nullopt};
  });
}

Order tandem::orders::write1F1B(const Shape &shape) {
  return LoopWriter(shape, makeOneRound(shape)).run([&](unsigned point) {
    return PointPlan{countBehind(shape, point) + 1, std::nullopt};
  });
}

Order tandem::orders::writeInterleaved(const Shape &shape) {
  return LoopWriter(shape, makeRounds(shape)).run([&](unsigned point) {
    return PointPlan{2 * countBehind(shape, point) + 1, std::nullopt};
  });
}

Order tandem::orders::writeZbH1(const Shape &shape) {
  return writeInterleavedZb(shape);
}

Order tandem::orders::writeInterleavedZb(const Shape &shape) {
  return LoopWriter(shape, makeRounds(shape)).run([&](unsigned point) {
    return PointPlan{countBehind(shape, point) + 1, point};
  });
}

Order tandem::orders::writeZbH2(const Shape &shape) {
  return LoopWriter(shape, makeRounds(shape)).run([&](unsigned point) {
    return PointPlan{2 * countBehind(shape, point) + 1, 2 * point};
  });
}
