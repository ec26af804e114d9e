//===- ScheduleAnneal.cpp - improves a schedule by moves ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleAnneal.h"
#include <algorithm>
#include <cmath>

using namespace tandem;
using namespace tandem::pipeline::schedule;

/// The weight of the mean over machines beside the cost: it tells rows of one
/// cost apart.
static constexpr double kMeanWeight = 0.05;
/// The share of moves that shorten no critical path.
static constexpr double kFreeMoves = 0.15;
/// Of points with several sections, the share of moves of whole microbatches.
static constexpr double kWholeMoves = 0.1;
/// The last temperature, in means of an operation.
static constexpr double kCold = 0.01;

Annealer::Annealer(const Model &model, uint64_t seed)
    : model(model), timer(model), random(seed) {
  for (const Letter &letter : model.letters)
    mean += letter.seconds * letter.count;
  mean /= std::max(1u, model.numOperations);
}

/// Moves a letter; if there is no room for it, what frees some goes in front.
bool Annealer::move(std::vector<unsigned> &row, unsigned from, unsigned to) {
  unsigned machine = model.letters[row[from]].machine;
  double limit = model.machines[machine].limit;
  auto shift = [&](unsigned from, unsigned to) {
    if (to < from)
      std::rotate(row.begin() + to, row.begin() + from, row.begin() + from + 1);
    else
      std::rotate(row.begin() + from, row.begin() + from + 1,
                  row.begin() + to + 1);
  };
  auto frees = [&](unsigned letter) {
    const orders::HeldChange &held = model.letters[letter].held;
    return held.begin + held.end < 0;
  };
  shift(from, to);
  if (fitsLimit(model, row, limit))
    return true;
  if (to < from) {
    for (unsigned i = to + 1; i <= from; ++i)
      if (frees(row[i])) {
        shift(i, to);
        return fitsLimit(model, row, limit);
      }
    return false;
  }
  for (unsigned i = to; i-- > from;)
    if (!frees(row[i])) {
      shift(i, to);
      return fitsLimit(model, row, limit);
    }
  return false;
}

Spot Annealer::pick(const Rows &rows) {
  if (!critical.empty() && random.share() > kFreeMoves)
    return critical[random.below(critical.size())];
  unsigned machine = random.below(rows.size());
  while (rows[machine].size() < 2)
    machine = (machine + 1) % rows.size();
  return {machine, 1 + random.below(rows[machine].size() - 1)};
}

/// Moves what a section does with a microbatch, one behind the other, in front
/// of a forward pass or to the end: under a limit it may have room there alone.
void Annealer::moveWhole(std::vector<unsigned> &row, unsigned index) {
  unsigned section = model.letters[row[index]].section;
  auto number = std::count(row.begin(), row.begin() + index, row[index]);
  std::vector<unsigned> whole, rest;
  std::vector<ptrdiff_t> counts(model.letters.size());
  for (unsigned each : row) {
    bool isOwn =
        model.letters[each].section == section && counts[each]++ == number;
    (isOwn ? whole : rest).push_back(each);
  }
  size_t to = random.below(rest.size() + 1);
  while (to < rest.size() &&
         model.letters[rest[to]].kind != orders::ActionKind::Forward)
    ++to;
  rest.insert(rest.begin() + to, whole.begin(), whole.end());
  row = std::move(rest);
}

/// Moves a letter forward over those before it, or the one before it back.
bool Annealer::change(Rows &rows, Spot spot) {
  std::vector<unsigned> &row = rows[spot.machine];
  const Machine &machine = model.machines[spot.machine];
  // More letters than one section has, under a limit.
  if (machine.letters.size() > 3 && std::isfinite(machine.limit) &&
      random.share() < kWholeMoves) {
    moveWhole(row, spot.index);
    return fitsLimit(model, row, machine.limit);
  }
  unsigned distance = 1;
  while (distance < row.size() && random.below(2))
    distance *= 2;
  distance = 1 + random.below(distance);
  bool goesForward = random.below(2);
  unsigned from = goesForward ? spot.index : spot.index - 1;
  // Letters of one kind are alike.
  unsigned to = from;
  while (distance > 0) {
    if (goesForward ? to == 0 : to + 1 == row.size())
      break;
    to += goesForward ? -1 : 1;
    distance -= row[to] != row[from];
  }
  if (to == from || row[to] == row[from])
    return false;
  return move(row, from, to);
}

Scored Annealer::run(const Scored &start, uint64_t numMoves, double heat,
                     double goal, const std::function<bool()> &ends) {
  Scored best = start;
  Rows rows = start.rows;
  if (!timer.run(rows))
    return best;
  bool hasPair = std::any_of(rows.begin(), rows.end(),
                             [](const auto &row) { return row.size() > 1; });
  auto score = [&] { return timer.getCost() + kMeanWeight * timer.getMean(); };
  double now = score();
  timer.findCritical(critical);
  double cooling =
      std::pow(kCold / heat, 1.0 / std::max<uint64_t>(1, numMoves));
  double temperature = heat * mean;
  for (uint64_t i = 0; i < numMoves && hasPair && best.cost > goal; ++i) {
    temperature *= cooling;
    if (i % 64 == 0 && ends())
      break;
    Spot spot = pick(rows);
    saved = rows[spot.machine];
    bool isLegal = change(rows, spot) && timer.run(rows);
    double then = isLegal ? score() : 0;
    if (!isLegal || (then > now &&
                     random.share() >= std::exp((now - then) / temperature))) {
      rows[spot.machine] = saved;
      continue;
    }
    now = then;
    timer.findCritical(critical);
    if (timer.getCost() < best.cost * (1 - kSlack))
      best = {rows, timer.getCost()};
  }
  return best;
}
