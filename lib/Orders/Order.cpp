//===- Order.cpp - orders as text, and those with a name ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Order.h"
#include <algorithm>

using namespace tandem::orders;

char tandem::orders::getLetter(ActionKind kind) {
  return "FIWB"[static_cast<unsigned>(kind)];
}

std::string tandem::orders::print(const Action &action) {
  return std::to_string(action.section) + getLetter(action.kind) +
         std::to_string(action.microbatch);
}

std::string tandem::orders::print(const Order &order) {
  std::string text;
  for (const std::vector<Action> &actions : order.points) {
    bool inGroup = false;
    for (size_t i = 0; i < actions.size(); ++i) {
      if (i > 0)
        text += inGroup ? ";" : ",";
      if (!inGroup && actions[i].overlapsNext)
        text += "(";
      text += print(actions[i]);
      if (inGroup && !actions[i].overlapsNext)
        text += ")OVERLAP_F_B";
      inGroup = actions[i].overlapsNext;
    }
    text += "\n";
  }
  return text;
}

unsigned tandem::orders::countMicrobatches(const Order &order) {
  unsigned count = 0;
  for (const std::vector<Action> &actions : order.points)
    for (const Action &action : actions)
      count = std::max(count, action.microbatch + 1);
  return count;
}

/// The order in which point i runs `getAhead(i)` forward passes and then one of
/// each, until all are done.
template <typename GetAhead>
static Order makeAlternating(unsigned numPoints, unsigned numMicrobatches,
                             GetAhead getAhead) {
  Order order;
  order.points.resize(numPoints);
  for (unsigned point = 0; point < numPoints; ++point) {
    unsigned ahead = std::min(getAhead(point), numMicrobatches);
    auto add = [&](ActionKind kind, unsigned microbatch) {
      order.points[point].push_back({point, kind, microbatch});
    };
    for (unsigned i = 0; i < ahead; ++i)
      add(ActionKind::Forward, i);
    for (unsigned i = 0; i < numMicrobatches; ++i) {
      add(ActionKind::Backward, i);
      if (ahead + i < numMicrobatches)
        add(ActionKind::Forward, ahead + i);
    }
  }
  return order;
}

Order tandem::orders::makeGpipe(unsigned numPoints, unsigned numMicrobatches) {
  return makeAlternating(numPoints, numMicrobatches,
                         [&](unsigned) { return numMicrobatches; });
}

Order tandem::orders::make1F1B(unsigned numPoints, unsigned numMicrobatches) {
  return makeAlternating(numPoints, numMicrobatches,
                         [&](unsigned point) { return numPoints - point; });
}

static constexpr NamedOrder kNamedOrders[] = {
#define TANDEM_ORDER(NAME, MAKER) {NAME, MAKER},
#include "tandem/Support/Orders.def"
};

std::span<const NamedOrder> tandem::orders::getNamedOrders() {
  return kNamedOrders;
}

const NamedOrder *tandem::orders::findNamedOrder(std::string_view name) {
  auto found = std::ranges::find(kNamedOrders, name, &NamedOrder::name);
  return found == std::end(kNamedOrders) ? nullptr : found;
}

/// Two points and microbatches show it.
bool NamedOrder::runsForwardFirst() const {
  return orders::runsForwardFirst(make(2, 2));
}

const NamedOrder &tandem::orders::getForwardFirstOrder() {
  return *std::ranges::find_if(kNamedOrders, &NamedOrder::runsForwardFirst);
}

std::string tandem::orders::listNamedOrders() {
  std::string text;
  for (const NamedOrder &each : kNamedOrders)
    text.append(text.empty() ? "" : " or ").append(each.name);
  return text;
}

Order tandem::orders::makeForward(const std::vector<unsigned> &places,
                                  unsigned numPoints,
                                  unsigned numMicrobatches) {
  Order order;
  order.points.resize(numPoints);
  for (unsigned microbatch = 0; microbatch < numMicrobatches; ++microbatch)
    for (unsigned section = 0; section < places.size(); ++section)
      order.points[places[section]].push_back(
          {section, ActionKind::Forward, microbatch});
  return order;
}

bool tandem::orders::runsForwardFirst(const Order &order) {
  auto isForward = [](const Action &action) {
    return action.kind == ActionKind::Forward;
  };
  return std::all_of(order.points.begin(), order.points.end(),
                     [&](const std::vector<Action> &row) {
                       return std::is_partitioned(row.begin(), row.end(),
                                                  isForward);
                     });
}
