//===- Order.h - orders of a pipeline ---------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An order says in which order each point of the pipe axis runs its sections
// and microbatches. It is plain data. Its text is the one of
// torch.distributed.pipelining: a row per point, entries such as `0F0`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ORDERS_ORDER_H
#define TANDEM_ORDERS_ORDER_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::orders {

/// Numbers of sections and of microbatches in a text are below this.
inline constexpr unsigned kMaxNumber = 1'000'000;

/// What a section does with a microbatch.
enum class ActionKind : uint8_t {
  /// F: the forward pass.
  Forward,
  /// I: what the gradients that leave the section depend on.
  BackwardInput,
  /// W: the rest of the backward pass.
  BackwardWeight,
  /// B: the whole backward pass, I and then W.
  Backward,
};

/// F, I, W or B.
char getLetter(ActionKind kind);

struct Action {
  unsigned section = 0;
  ActionKind kind = ActionKind::Forward;
  unsigned microbatch = 0;
  /// Whether the next action of the point stands in one group with this one:
  /// the two may overlap. The simulator runs them one after the other.
  bool overlapsNext = false;
  /// The entry of its row, from 1; 0 for an action that was not read.
  unsigned entry = 0;
};

struct Order {
  /// The actions of each point of the pipe axis, in the order of execution.
  std::vector<std::vector<Action>> points;
  /// The line of each point in the text; empty for an order that was not read.
  std::vector<unsigned> lines = {};
};

/// `0F0`: section, letter, microbatch.
std::string print(const Action &action);
/// A line per point, `0F0,1I3,(0F1;1B0)OVERLAP_F_B`. Empty entries of the text
/// that an order was read from are left out.
std::string print(const Order &order);

/// The actions of one row. Entries may be empty, have blanks around them and
/// stand in double quotes. Else nothing, with one line in `error` that begins
/// with the entry.
std::optional<std::vector<Action>> parseRow(std::string_view row,
                                            std::string &error);

/// An order from its text, which came from `name`: a line per point, an empty
/// line for a point without actions. A line that begins with `#` is a comment.
/// Else nothing, with one line in `error` that begins with `NAME:LINE`. Whether
/// the order can run is not checked (VerifyOrder.h).
std::optional<Order> parseOrder(std::string_view text, std::string_view name,
                                std::string &error);

/// One more than the largest microbatch of the order; 0 if it has no action.
unsigned countMicrobatches(const Order &order);

/// Each action on `number` microbatches in place of one, which are a group; a
/// group becomes one for each of them.
Order splitMicrobatches(const Order &order, unsigned number);

/// The forward passes of all sections, of which section i lies on point
/// `places[i]`: an evaluation.
Order makeForward(const std::vector<unsigned> &places, unsigned numPoints,
                  unsigned numMicrobatches);

/// F, I and W of all sections for one microbatch behind the other: no order of
/// sections in a chain holds less.
Order makeInTurn(const std::vector<unsigned> &places, unsigned numPoints,
                 unsigned numMicrobatches);

/// Whether each point runs all its forward passes before any backward pass.
bool runsForwardFirst(const Order &order);

} // namespace tandem::orders

#endif // TANDEM_ORDERS_ORDER_H
