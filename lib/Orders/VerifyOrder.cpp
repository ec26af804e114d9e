//===- VerifyOrder.cpp - whether an order can run -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/VerifyOrder.h"
#include "Run.h"
#include <algorithm>

using namespace tandem::orders;

namespace {
class OrderVerifier {
public:
  OrderVerifier(const Partition &partition, const Order &order,
                const OrderLimits &limits, std::string_view name,
                std::string &error)
      : partition(partition), order(order), limits(limits), name(name),
        error(error), numMicrobatches(limits.numMicrobatches.value_or(
                          countMicrobatches(order))) {}

  bool run() {
    return verifyRows() && verifyEntries() && verifySequence() &&
           verifyComplete() && verifyHeld() && verifyAcyclic();
  }

private:
  bool verifyRows();
  bool verifyEntries();
  bool verifyEntry(Place place);
  bool verifySequence();
  bool verifyComplete();
  bool verifyComplete(unsigned section, unsigned microbatch);
  bool verifyHeld();
  bool verifyHeld(unsigned point, double limit);
  bool verifyAcyclic();
  std::string explain(const Block &block) const;

  /// Sets the error to `NAME:ROW: entry N: message`. Always false.
  bool fail(Place place, const std::string &message);
  bool failRow(unsigned point, const std::string &message);
  const Action &getAction(Place place) const {
    return order.points[place.point][place.index];
  }
  std::string getName(Place place) const {
    return "'" + print(getAction(place)) + "'";
  }
  /// The entry in its row, from 1.
  unsigned getEntry(Place place) const {
    unsigned entry = getAction(place).entry;
    return entry ? entry : place.index + 1;
  }

  const Partition &partition;
  const Order &order;
  const OrderLimits &limits;
  std::string_view name;
  std::string &error;
  unsigned numMicrobatches;
  Places places;
};
} // namespace

bool OrderVerifier::failRow(unsigned point, const std::string &message) {
  unsigned line = point < order.lines.size() ? order.lines[point] : point + 1;
  error = std::string(name) + ":" + std::to_string(line) + ": " + message;
  return false;
}

bool OrderVerifier::fail(Place place, const std::string &message) {
  return failRow(place.point,
                 "entry " + std::to_string(getEntry(place)) + ": " + message);
}

bool OrderVerifier::verifyRows() {
  if (order.points.size() == partition.numPoints)
    return true;
  return failRow(order.points.empty() ? 0 : order.points.size() - 1,
                 "found " + std::to_string(order.points.size()) +
                     " rows, expected " + std::to_string(partition.numPoints) +
                     ", one per point");
}

/// What is wrong with an entry whatever the others are, and that it is not
/// there before.
bool OrderVerifier::verifyEntry(Place place) {
  const Action &action = getAction(place);
  std::string found = "found " + getName(place);
  size_t numSections = partition.sections.size();
  if (action.section >= numSections)
    return fail(place, found + ", expected a section below " +
                           std::to_string(numSections));
  if (action.microbatch >= numMicrobatches)
    return fail(place, found + ", expected a microbatch below " +
                           std::to_string(numMicrobatches));
  const Section &section = partition.sections[action.section];
  if (section.point != place.point)
    return fail(place, found + " on point " + std::to_string(place.point) +
                           ", expected it on point " +
                           std::to_string(section.point) +
                           ", where its section lies");
  if (!section.hasBackward && action.kind != ActionKind::Forward)
    return fail(place, found + ", expected F alone: section " +
                           std::to_string(action.section) +
                           " has no backward pass");
  if (!section.isSplit && (action.kind == ActionKind::BackwardInput ||
                           action.kind == ActionKind::BackwardWeight))
    return fail(place, found + ", expected B: section " +
                           std::to_string(action.section) + " has no I and W");
  if (std::optional<Place> first = places.add(action, place))
    return fail(place, "found a second " + getName(place) +
                           ", the first one is entry " +
                           std::to_string(getEntry(*first)));
  return true;
}

bool OrderVerifier::verifyEntries() {
  for (unsigned point = 0; point < order.points.size(); ++point)
    for (unsigned i = 0; i < order.points[point].size(); ++i)
      if (!verifyEntry({point, i}))
        return false;
  return true;
}

/// Kinds of actions of one section and microbatch that may not stand together,
/// or not in this order.
bool OrderVerifier::verifySequence() {
  for (unsigned point = 0; point < order.points.size(); ++point)
    for (unsigned i = 0; i < order.points[point].size(); ++i) {
      Place place{point, i};
      const Action &action = getAction(place);
      auto find = [&](ActionKind kind) {
        return places.find(action.section, kind, action.microbatch);
      };
      auto expectBefore = [&](std::optional<Place> first) {
        return !first || first->index < i ||
               fail(place, "found " + getName(place) + " before " +
                               getName(*first) + ", entry " +
                               std::to_string(getEntry(*first)) +
                               ", expected it behind");
      };
      bool isForward = action.kind == ActionKind::Forward;
      bool isWeight = action.kind == ActionKind::BackwardWeight;
      std::optional<Place> whole = find(ActionKind::Backward);
      if (whole && !isForward && action.kind != ActionKind::Backward)
        return fail(place, "found " + getName(place) + " beside " +
                               getName(*whole) + ", entry " +
                               std::to_string(getEntry(*whole)) +
                               ", expected B alone, or I and W");
      if (!isForward && !expectBefore(find(ActionKind::Forward)))
        return false;
      if (isWeight && !expectBefore(find(ActionKind::BackwardInput)))
        return false;
    }
  return true;
}

bool OrderVerifier::verifyComplete(unsigned section, unsigned microbatch) {
  auto has = [&](ActionKind kind) {
    return places.find(section, kind, microbatch).has_value();
  };
  auto failMissing = [&](ActionKind kind, const std::string &or_ = "") {
    return failRow(partition.sections[section].point,
                   "found no '" + print(Action{section, kind, microbatch}) +
                       "'" + or_ + ", expected every section to run " +
                       std::to_string(numMicrobatches) + " microbatches");
  };
  if (!has(ActionKind::Forward))
    return failMissing(ActionKind::Forward);
  if (!partition.sections[section].hasBackward || has(ActionKind::Backward))
    return true;
  bool hasInput = has(ActionKind::BackwardInput);
  bool hasWeight = has(ActionKind::BackwardWeight);
  if (!hasInput && !hasWeight)
    return failMissing(ActionKind::Backward, ", nor its I and W");
  if (!hasInput)
    return failMissing(ActionKind::BackwardInput);
  return hasWeight || failMissing(ActionKind::BackwardWeight);
}

/// Ends at the first one that is missing, so it takes no longer than the order
/// is.
bool OrderVerifier::verifyComplete() {
  for (unsigned i = 0; i < numMicrobatches; ++i)
    for (unsigned section = 0; section < partition.sections.size(); ++section)
      if (!verifyComplete(section, i))
        return false;
  return true;
}

bool OrderVerifier::verifyHeld(unsigned point, double limit) {
  unsigned index = 0;
  bool fits = true;
  forEachHeld(partition, order, point, [&](const Action &, double held) {
    // The rest is that of floating point.
    if (held > limit * (1 + 1e-9))
      fits = fail({point, index},
                  "point " + std::to_string(point) + " holds " +
                      printQuantity(held) + " of activations from " +
                      getName({point, index}) + " on, expected at most " +
                      printQuantity(limit));
    ++index;
    return fits;
  });
  return fits;
}

bool OrderVerifier::verifyHeld() {
  for (unsigned i = 0; i < limits.activations.size(); ++i)
    if (!verifyHeld(i, limits.activations[i]))
      return false;
  return true;
}

/// `0B0 waits for 1B0, behind 1F1 of point 1`.
std::string OrderVerifier::explain(const Block &block) const {
  return print(getAction(block.action)) + " waits for " +
         print(getAction(block.needed));
}

/// Follows points that wait for each other until one comes again.
bool OrderVerifier::verifyAcyclic() {
  Run run = runOrder(partition, order, places);
  if (run.isComplete)
    return true;
  auto first = std::find_if(run.blocks.begin(), run.blocks.end(),
                            [](const auto &block) { return block; });
  unsigned point = first - run.blocks.begin();
  std::vector<unsigned> chain;
  auto again = chain.end();
  while ((again = std::find(chain.begin(), chain.end(), point)) ==
         chain.end()) {
    chain.push_back(point);
    point = run.blocks[point]->needed.point;
  }
  chain.erase(chain.begin(), again);
  std::rotate(chain.begin(), std::min_element(chain.begin(), chain.end()),
              chain.end());
  std::string cycle;
  for (size_t i = 0; i < chain.size(); ++i) {
    const Block &block = *run.blocks[chain[i]];
    const Block &next = *run.blocks[chain[(i + 1) % chain.size()]];
    cycle += (i ? "; " : "") + explain(block);
    if (block.needed.index != next.action.index)
      cycle += ", behind " + print(getAction(next.action)) + " on point " +
               std::to_string(next.action.point);
  }
  return fail(run.blocks[chain[0]]->action,
              "found a cycle, expected an order that can run: " + cycle);
}

bool tandem::orders::verifyOrder(const Partition &partition, const Order &order,
                                 const OrderLimits &limits,
                                 std::string_view name, std::string &error) {
  return OrderVerifier(partition, order, limits, name, error).run();
}
