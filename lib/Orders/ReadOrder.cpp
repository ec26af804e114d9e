//===- ReadOrder.cpp - an order from its text -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text is what torch.distributed.pipelining writes and reads with Python's
// csv module. It ignores what follows an action in its entry; here this is an
// error, as is an action without a microbatch.
//
//===----------------------------------------------------------------------===//

#include "Text.h"
#include "tandem/Orders/Order.h"
#include <algorithm>

using namespace tandem;
using namespace tandem::orders;

static constexpr std::string_view kGroup = "OVERLAP_F_B";
static constexpr std::string_view kCommunication[] = {
    "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD",
};
static constexpr std::string_view kExpectedAction =
    ", expected a section, F, I, W or B, and a microbatch, such as 0F3";

static std::optional<ActionKind> findKind(std::string_view name) {
  for (ActionKind kind : {ActionKind::Forward, ActionKind::BackwardInput,
                          ActionKind::BackwardWeight, ActionKind::Backward})
    if (name.size() == 1 && name[0] == getLetter(kind))
      return kind;
  return std::nullopt;
}

/// The letters of an action's name at the front of `text`.
static std::string_view takeName(std::string_view &text) {
  size_t end = 0;
  while (end < text.size() &&
         ((text[end] >= 'A' && text[end] <= 'Z') || text[end] == '_'))
    ++end;
  std::string_view name = text.substr(0, end);
  text.remove_prefix(end);
  return name;
}

static std::string explainName(std::string_view text, std::string_view name) {
  const auto *end = std::end(kCommunication);
  if (std::find(std::begin(kCommunication), end, name) == end)
    return "found " + quote(text) + std::string(kExpectedAction);
  return "found the communication action " + quote(text) +
         ", expected F, I, W and B alone: transfers and gradient sums follow "
         "from them";
}

/// Whether `text` begins with more digits than a number may have.
static bool isLarge(std::string_view text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9';
}

static std::optional<Action> parseAction(std::string_view text,
                                         std::string &error) {
  std::string_view rest = text;
  std::optional<unsigned> section = takeNumber(rest);
  std::string_view name = section ? takeName(rest) : std::string_view();
  std::optional<ActionKind> kind = findKind(name);
  std::optional<unsigned> microbatch =
      kind ? takeNumber(rest) : std::optional<unsigned>();
  if (microbatch && rest.empty())
    return Action{*section, *kind, *microbatch};
  if (isLarge(rest) && (!section || (kind && !microbatch)))
    error = "found " + quote(text) + ", expected numbers below " +
            std::to_string(kMaxNumber);
  else
    error = explainName(text, name);
  return std::nullopt;
}

/// Calls `take` with each part of `text` between separators, until it is false.
template <typename Take>
static bool forEachPart(std::string_view text, char separator, Take take) {
  while (true) {
    size_t end = text.find(separator);
    if (!take(trim(text.substr(0, end))))
      return false;
    if (end == std::string_view::npos)
      return true;
    text.remove_prefix(end + 1);
  }
}

/// Appends the actions of `(0F1;1B0)OVERLAP_F_B`.
static bool parseGroup(std::string_view text, std::vector<Action> &actions,
                       std::string &error) {
  size_t end = text.find(')');
  if (end == std::string_view::npos || trim(text.substr(end + 1)) != kGroup) {
    error = "found " + quote(text) + ", expected a group such as (0F1;1B0)" +
            std::string(kGroup);
    return false;
  }
  size_t begin = actions.size();
  bool isRead =
      forEachPart(text.substr(1, end - 1), ';', [&](std::string_view part) {
        if (part.empty())
          return true;
        std::optional<Action> action = parseAction(part, error);
        if (action)
          actions.push_back(*action);
        return action.has_value();
      });
  if (!isRead)
    return false;
  if (begin == actions.size()) {
    error = "found the empty group " + quote(text) + ", expected actions in it";
    return false;
  }
  for (size_t i = begin; i + 1 < actions.size(); ++i)
    actions[i].overlapsNext = true;
  return true;
}

static bool parseEntry(std::string_view text, std::vector<Action> &actions,
                       std::string &error) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = trim(text.substr(1, text.size() - 2));
  if (text.empty())
    return true;
  if (text.front() == '(')
    return parseGroup(text, actions, error);
  std::optional<Action> action = parseAction(text, error);
  if (action)
    actions.push_back(*action);
  return action.has_value();
}

std::optional<std::vector<Action>>
tandem::orders::parseRow(std::string_view row, std::string &error) {
  std::vector<Action> actions;
  unsigned entry = 0;
  bool isRead = forEachPart(row, ',', [&](std::string_view text) {
    size_t begin = actions.size();
    ++entry;
    if (!parseEntry(text, actions, error)) {
      error = "entry " + std::to_string(entry) + ": " + error;
      return false;
    }
    for (size_t i = begin; i < actions.size(); ++i)
      actions[i].entry = entry;
    return true;
  });
  if (!isRead)
    return std::nullopt;
  return actions;
}

std::optional<Order> tandem::orders::parseOrder(std::string_view text,
                                                std::string_view name,
                                                std::string &error) {
  Order order;
  unsigned number = 0;
  for (std::string_view line : splitLines(text)) {
    ++number;
    if (line.starts_with('#'))
      continue;
    std::optional<std::vector<Action>> row = parseRow(line, error);
    if (!row) {
      error = std::string(name) + ":" + std::to_string(number) + ": " + error;
      return std::nullopt;
    }
    order.points.push_back(std::move(*row));
    order.lines.push_back(number);
  }
  if (countMicrobatches(order) > 0)
    return order;
  error = std::string(name) + ":" + std::to_string(std::max(number, 1u)) +
          ": found no action, expected a row per point, such as "
          "0F0,0F1,0B0,0B1";
  return std::nullopt;
}
