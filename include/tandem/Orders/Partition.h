//===- Partition.h - sections on points, and their costs --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A section is a run of operators between transfers. A partition says on which
// point of the pipe axis each section lies, which sections read results of
// which, and what they cost. Sections may lie in any way on the points, and the
// edges are those of any acyclic graph: a chain, skips over several sections,
// an encoder beside a decoder.
//
// All seconds are in one unit of the caller's choice, as are activations. Sums
// are exact if all numbers are whole and sums stay below 2^53.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ORDERS_PARTITION_H
#define TANDEM_ORDERS_PARTITION_H

#include "tandem/Orders/Order.h"

namespace tandem::orders {

class Words;

/// The largest cost in the text of a partition.
inline constexpr double kMaxQuantity = 1e15;

struct Section {
  /// Of the pipe axis.
  unsigned point = 0;
  /// False for a section without gradients: it has F alone, which holds its
  /// activations.
  bool hasBackward = true;
  /// False for a section that has B alone, no I and W.
  bool isSplit = true;
  /// Seconds of F, I and W of one microbatch. B takes I and W together.
  double forward = 0, input = 0, weight = 0;
  /// What one microbatch holds from the begin of F to the end of B or I.
  double activations = 1;
  /// What it holds from the begin of I to the end of W; as much as of
  /// activations by default.
  std::optional<double> kept;
  /// Seconds of the sum of its gradients over other devices.
  double sum = 0;
};

/// Section `to` reads a result of section `from`.
struct Edge {
  unsigned from = 0, to = 0;
  /// Seconds until a value that crosses points arrives, in both passes. It
  /// takes no time between sections of one point.
  double seconds = 0;
  /// Whether `to` sends a gradient back.
  bool hasGradient = true;
};

struct Partition {
  unsigned numPoints = 0;
  std::vector<Section> sections;
  std::vector<Edge> edges;
};

/// Seconds of one action of a section.
double getSeconds(const Section &section, ActionKind kind);

/// What one microbatch holds more once an action began, and again once it
/// ended. B is I and W together.
struct HeldChange {
  double begin = 0, end = 0;
};
HeldChange getHeldChange(const Section &section, ActionKind kind);

/// Whether every point has a section, every edge connects two sections of the
/// partition, once, and no section depends on itself. Else false, with one line
/// in `error`.
bool verifyPartition(const Partition &partition, std::string &error);

/// Equal sections in a chain.
struct EqualCosts {
  double forward = 1, input = 1, weight = 1;
  /// Between neighbours of the chain.
  double seconds = 0;
  /// Of the gradients of a section.
  double sum = 0;
};

/// The chain of the sections that `order` names, each on the point of its first
/// action; `order` came from `name`. Nothing, with one line in `error`, if a
/// point or a section has no action.
std::optional<Partition> inferPartition(const Order &order,
                                        const EqualCosts &costs,
                                        std::string_view name,
                                        std::string &error);

/// The text of a partition:
///
///     section 0 point 0 F 1 I 1 W 1 activations 4 kept 2
///     section 1 point 1 F 2
///     edge 0 1 comm 0.5 no-gradient
///
/// Sections come first, in order. `B` in place of `I` and `W` is a backward
/// pass that is not split; without either a section has none. `activations` is
/// 1, `kept` as many, `sum` and `comm` are 0 by default. `#` starts a comment.
std::string print(const Partition &partition);

/// A partition from its text, which came from `name`. Else nothing, with one
/// line in `error` that begins with `NAME:LINE`.
std::optional<Partition> parsePartition(std::string_view text,
                                        std::string_view name,
                                        std::string &error);

/// Reads a line of a partition that stands among others. False, with nothing
/// taken, if the line is of something else.
bool readPartitionLine(Words &words, Partition &partition);

} // namespace tandem::orders

#endif // TANDEM_ORDERS_PARTITION_H
