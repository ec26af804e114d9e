//===- Run.cpp - running the lists of an order ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Run.h"
#include <algorithm>

using namespace tandem::orders;

namespace {
/// A result that an action waits for, and how long it travels.
struct Need {
  Place place;
  double seconds = 0;
};

class Runner {
public:
  Runner(const Partition &partition, const Order &order, const Places &places,
         const ActionSeconds &seconds, const std::vector<double> &releases);
  Run run();

private:
  void advance(unsigned point);
  const std::vector<Need> &findNeeds(const Action &action);
  void addNeed(std::optional<Place> place, double seconds);
  void addGradients(const Action &action);
  const Need *findMissing(const std::vector<Need> &needs) const;
  void finish(Place place, const std::vector<Need> &needs);
  bool isDone(Place place) const { return place.index < heads[place.point]; }
  const Action &getAction(Place place) const {
    return order.points[place.point][place.index];
  }

  const Partition &partition;
  const Order &order;
  const Places &places;
  const ActionSeconds &seconds;
  const std::vector<double> &releases;
  /// Edges by the section that reads, and by the one that is read.
  std::vector<std::vector<const Edge *>> incoming, outgoing;
  Run result;
  /// The next action of each point.
  std::vector<unsigned> heads;
  /// Points that wait for an action of each point, by its index.
  std::vector<std::vector<std::pair<unsigned, unsigned>>> waiting;
  std::vector<unsigned> ready;
  std::vector<Need> needs;
};
} // namespace

Runner::Runner(const Partition &partition, const Order &order,
               const Places &places, const ActionSeconds &seconds,
               const std::vector<double> &releases)
    : partition(partition), order(order), places(places), seconds(seconds),
      releases(releases), incoming(partition.sections.size()),
      outgoing(partition.sections.size()), heads(order.points.size()),
      waiting(order.points.size()) {
  for (const Edge &edge : partition.edges) {
    incoming[edge.to].push_back(&edge);
    outgoing[edge.from].push_back(&edge);
  }
  result.blocks.resize(order.points.size());
  for (const std::vector<Action> &actions : order.points)
    result.actions.emplace_back(actions.size());
}

void Runner::addNeed(std::optional<Place> place, double seconds) {
  if (place)
    needs.push_back({*place, seconds});
}

/// Of the sections that read this one.
void Runner::addGradients(const Action &action) {
  for (const Edge *edge : outgoing[action.section])
    if (edge->hasGradient && partition.sections[edge->to].hasBackward)
      addNeed(places.findGradients(edge->to, action.microbatch), edge->seconds);
}

const std::vector<Need> &Runner::findNeeds(const Action &action) {
  needs.clear();
  auto find = [&](unsigned section, ActionKind kind) {
    return places.find(section, kind, action.microbatch);
  };
  switch (action.kind) {
  case ActionKind::Forward:
    for (const Edge *edge : incoming[action.section])
      addNeed(find(edge->from, ActionKind::Forward), edge->seconds);
    break;
  case ActionKind::Backward:
  case ActionKind::BackwardInput:
    addNeed(find(action.section, ActionKind::Forward), 0);
    addGradients(action);
    break;
  case ActionKind::BackwardWeight:
    addNeed(find(action.section, ActionKind::BackwardInput), 0);
    break;
  }
  return needs;
}

const Need *Runner::findMissing(const std::vector<Need> &needs) const {
  auto found = std::find_if(needs.begin(), needs.end(), [&](const Need &need) {
    return !isDone(need.place);
  });
  return found == needs.end() ? nullptr : &*found;
}

void Runner::finish(Place place, const std::vector<Need> &needs) {
  std::vector<Interval> &times = result.actions[place.point];
  double begin = place.index > 0 ? times[place.index - 1].end : 0;
  for (const Need &need : needs) {
    double end = result.actions[need.place.point][need.place.index].end;
    bool crosses = need.place.point != place.point;
    begin = std::max(begin, end + (crosses ? need.seconds : 0));
  }
  const Action &action = getAction(place);
  if (action.kind == ActionKind::Forward && !releases.empty())
    begin = std::max(begin, releases[action.section]);
  double taken =
      seconds ? seconds(action)
              : getSeconds(partition.sections[action.section], action.kind);
  times[place.index] = {begin, begin + taken};
  heads[place.point] = place.index + 1;
}

/// Runs a point until it is at its end or has to wait.
void Runner::advance(unsigned point) {
  unsigned begin = heads[point];
  result.blocks[point].reset();
  while (heads[point] < order.points[point].size()) {
    Place place{point, heads[point]};
    const std::vector<Need> &needs = findNeeds(getAction(place));
    if (const Need *missing = findMissing(needs)) {
      result.blocks[point] = Block{place, missing->place};
      waiting[missing->place.point].emplace_back(missing->place.index, point);
      break;
    }
    finish(place, needs);
  }
  if (begin == heads[point])
    return;
  auto isWoken = [&](const std::pair<unsigned, unsigned> &wait) {
    return wait.first < heads[point];
  };
  auto woken = std::partition(waiting[point].begin(), waiting[point].end(),
                              [&](const auto &wait) { return !isWoken(wait); });
  for (auto wait = woken; wait != waiting[point].end(); ++wait)
    ready.push_back(wait->second);
  waiting[point].erase(woken, waiting[point].end());
}

Run Runner::run() {
  for (unsigned point = order.points.size(); point > 0; --point)
    ready.push_back(point - 1);
  while (!ready.empty()) {
    unsigned point = ready.back();
    ready.pop_back();
    advance(point);
  }
  for (const std::optional<Block> &block : result.blocks)
    result.isComplete &= !block;
  return std::move(result);
}

Run tandem::orders::runOrder(const Partition &partition, const Order &order,
                             const Places &places, const ActionSeconds &seconds,
                             const std::vector<double> &releases) {
  return Runner(partition, order, places, seconds, releases).run();
}

void tandem::orders::forEachHeld(
    const Partition &partition, const Order &order, unsigned point,
    const std::function<bool(const Action &, double)> &visit) {
  double held = 0;
  for (const Action &action : order.points[point]) {
    HeldChange change =
        getHeldChange(partition.sections[action.section], action.kind);
    held += change.begin;
    if (!visit(action, held))
      return;
    held += change.end;
  }
}
