//===- Cuts.h - which layers form which section -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A problem of cuts is a chain of layers that is cut into sections, which lie
// on points in a loop or in a V. Points are of kinds, and a layer has a cost on
// each kind. Two accountings price a cut:
//
// * `amp`: equations 2 and 4 of AMP, (m - 1) times the largest section, plus
//   all sections, plus each border's transfer once, plus the longest sum of
//   gradients. The search is exact.
// * `tandem`: the simulated step of a schedule with a name, sums of gradients
//   included. The search is exact up to `kMostTried` cuts. Else it moves
//   borders under the simulation, from the exact cuts by equations 2 and 4.
//   Until it fits, layers leave points that hold more than their memory.
//
// Units are the caller's: seconds, bytes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_PIPELINE_CUTS_H
#define TANDEM_SEARCH_PIPELINE_CUTS_H

#include "tandem/Orders/Partition.h"
#include "tandem/Orders/Schedules.h"
#include "tandem/Search/Pipeline/Deadline.h"
#include <limits>
#include <utility>

namespace tandem::pipeline {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// By which sums of other orders may differ.
inline constexpr double kRounding = 1e-9;

/// As many cuts of a problem are all simulated.
inline constexpr double kMostTried = 5000;

enum class CutAccounting : uint8_t { Amp, Tandem };

/// Seconds of one microbatch.
struct LayerCost {
  double forward = 0, input = 0, weight = 0;
  double getTotal() const { return forward + input + weight; }
  bool operator==(const LayerCost &) const = default;
};

struct Layer {
  /// By kind of point.
  std::vector<LayerCost> costs;
  /// Held in the whole step; held by each microbatch from F to the end of W.
  double weights = 0, activations = 0;
  /// Seconds of the sum of its gradients.
  double sum = 0;
  /// What a transfer behind it moves, in each pass.
  double bytes = 0;
  /// Seconds of a transfer behind it, by border; empty: by `bytes` and link.
  std::vector<double> comm;
  /// Bytes of its gradients, which the ring of its point sums.
  double gradients = 0;
  /// The layer whose parameters it has, too; negative: none. A section holds
  /// them once.
  int tied = -1;
  bool operator==(const Layer &) const = default;
};

struct CutPoint {
  unsigned kind = 0;
  double memory = kUnlimited;
  /// Of the ring that sums gradients.
  double latency = 0, bandwidth = kUnlimited;
  bool operator==(const CutPoint &) const = default;
};

/// Between two points, in each direction.
struct CutLink {
  unsigned from = 0, to = 0;
  double latency = 0, bandwidth = kUnlimited;
  bool operator==(const CutLink &) const = default;
};

struct CutProblem {
  CutAccounting accounting = CutAccounting::Tandem;
  std::string schedule = "1f1b";
  unsigned numMicrobatches = 1, sectionsPerPoint = 1;
  orders::Placement placement = orders::Placement::Loop;
  std::vector<std::string> kinds;
  std::vector<CutPoint> points;
  std::vector<CutLink> links;
  std::vector<Layer> layers;
  bool operator==(const CutProblem &) const = default;

  unsigned getNumSections() const {
    return sectionsPerPoint * static_cast<unsigned>(points.size());
  }
  unsigned getPoint(unsigned section) const;
  /// Null if no line names the two.
  const CutLink *findLink(unsigned from, unsigned to) const;
  /// Seconds of a transfer between sections `border` - 1 and `border`, of which
  /// the first one ends with `layer`; 0 on one point.
  double getTransfer(unsigned layer, unsigned border) const;
  /// Whether a layer from `begin` on in front of it has the same parameters.
  bool repeats(unsigned layer, unsigned begin) const;
  /// Seconds of the sum of gradients of a section with layers `begin` to `end`
  /// - 1. Parameters that the section has twice are summed once.
  double getSum(unsigned section, unsigned begin, unsigned end) const;
};

/// The number of layers of each section.
using Cut = std::vector<unsigned>;

struct CutResult {
  Cut cut;
  double cost = 0, lowerBound = 0;
  /// By point.
  std::vector<double> held;
  bool isOptimal = false;
  unsigned numTried = 0;
  /// One line, where there is no cut, and what the worst point holds too much.
  std::string error;
  double excess = 0;
};

/// A problem from its text (docs/choosing-pipelines.md), which came from
/// `name`. Else nothing, with one line in `error` that begins with `NAME:LINE`.
std::optional<CutProblem> parseCutProblem(std::string_view text,
                                          std::string_view name,
                                          std::string &error);
std::string print(const CutProblem &problem);

/// `cut 2 3 3 1` and `cost 22.3`.
std::string print(const CutResult &result);
/// Cut and cost of what `print` makes of a result, verified (`verifyCut`).
/// Else nothing, with one line in `error` that begins with `NAME:LINE`.
std::optional<CutResult> readCutResult(const CutProblem &problem,
                                       std::string_view text,
                                       std::string_view name,
                                       std::string &error);

/// The sections of a cut, with their costs.
orders::Partition makePartition(const CutProblem &problem, const Cut &cut);
/// Whether the accounting knows as many sections per point. Else false, with
/// one line in `error`.
bool verifySections(CutAccounting accounting, unsigned sectionsPerPoint,
                    std::string &error);
/// The order of the problem's schedule. Nothing, with one line in `error`, if
/// the schedule cannot have these points, sections and microbatches.
std::optional<orders::Order> makeOrder(const CutProblem &problem,
                                       std::string &error);

/// No cut has a shorter step under any order: the work of all points, each
/// layer on the kind that is fastest for it; and the way of one microbatch
/// forth and back through all sections.
double getLowerBound(const CutProblem &problem);

/// What a cut costs, and what it holds.
struct CutPrice {
  double seconds = 0;
  /// Of which gradient sums behind all else.
  double exposed = 0;
  /// Where points wait for others; without an order, not known.
  double bubble = 0;
  /// By point: weights, and what its microbatches in flight hold.
  std::vector<double> held;
  /// What all points hold above their memory, and the one that has the most.
  double excess = 0;
  unsigned worst = 0;
  /// What fits comes before what does not.
  bool isBelow(const CutPrice &other) const {
    return std::pair(excess, seconds) < std::pair(other.excess, other.seconds);
  }
};

/// By the problem's accounting. `order` is the problem's own; of `amp`, none.
CutPrice priceCut(const CutProblem &problem, const Cut &cut,
                  const std::optional<orders::Order> &order);

/// What is too much on the worst point, and its sections, in one line.
std::string describeExcess(const CutProblem &problem, const Cut &cut,
                           const CutPrice &price);

/// Of `tandem`: the cuts by equations 2 and 4 or equal parts as they are, if
/// one fits, and the best of few cuts; or as far as the search goes.
enum class CutEffort : uint8_t { Start, Full };

/// The best cut that is found before the deadline.
CutResult searchCut(const CutProblem &problem, const Deadline &deadline = {},
                    CutEffort effort = CutEffort::Full);

/// The price of a cut that has all layers in sections, and fits. Knows nothing
/// of the search. Else nothing, with one line in `error`.
std::optional<CutPrice> checkCut(const CutProblem &problem, const Cut &cut,
                                 std::string &error);
/// But for rounding; else false, with one line in `error`.
bool isSameCost(double found, double expected, std::string &error);
/// Whether a result has all layers in sections, fits, and costs what it says.
/// Knows nothing of the search. Else false, with one line in `error`.
bool verifyCut(const CutProblem &problem, const CutResult &result,
               std::string &error);

} // namespace tandem::pipeline

#endif // TANDEM_SEARCH_PIPELINE_CUTS_H
