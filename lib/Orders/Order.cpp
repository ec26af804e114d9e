//===- Order.cpp - orders of a pipeline, as text --------------------------===//
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

/// Appends the actions from `begin` to `end`, which are a group or one action.
static void appendSplit(const Action *begin, const Action *end, unsigned number,
                        std::vector<Action> &row) {
  bool isGroup = end - begin > 1;
  for (unsigned part = 0; part < number; ++part)
    for (const Action *own = begin; own != end; ++own) {
      row.push_back(*own);
      row.back().microbatch = own->microbatch * number + part;
      row.back().overlapsNext = isGroup ? own->overlapsNext : part + 1 < number;
    }
}

Order tandem::orders::splitMicrobatches(const Order &order, unsigned number) {
  Order split{{}, order.lines};
  for (const std::vector<Action> &row : order.points) {
    std::vector<Action> &own = split.points.emplace_back();
    const Action *begin = row.data(), *end = begin + row.size();
    while (begin != end) {
      const Action *next = begin;
      while (next->overlapsNext && next + 1 != end)
        ++next;
      appendSplit(begin, ++next, number, own);
      begin = next;
    }
  }
  return split;
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

Order tandem::orders::makeInTurn(const std::vector<unsigned> &places,
                                 unsigned numPoints, unsigned numMicrobatches) {
  Order order;
  order.points.resize(numPoints);
  for (unsigned microbatch = 0; microbatch < numMicrobatches; ++microbatch) {
    for (unsigned section = 0; section < places.size(); ++section)
      order.points[places[section]].push_back(
          {section, ActionKind::Forward, microbatch});
    for (unsigned section = places.size(); section-- > 0;)
      for (ActionKind kind :
           {ActionKind::BackwardInput, ActionKind::BackwardWeight})
        order.points[places[section]].push_back({section, kind, microbatch});
  }
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
