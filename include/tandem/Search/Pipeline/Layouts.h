//===- Layouts.h - degrees, microbatches and nodes --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A layout divides the devices of a cluster by three degrees: points of the
// pipeline, devices that share a batch, devices that share a layer. Ranks are
// dealt out with neighbours along `model`, then `data`, then `pipe`, over nodes
// in an order that is part of the layout.
//
// A layer has seconds of one row on one device of a kind, and perhaps on d
// devices that share it. Of the latter, 1/d of the former is computation and
// the bytes that devices sum for each other take their ring over the links; the
// rest is latency. So b rows take
//
//   b (t(1) / d + ring) + (t(d) - t(1) / d - ring, if positive) + fixed
//
// Devices of a node that cross the same link at one time share it. Gradients
// are summed over `data`, in a ring, behind a point's last W. Transfers and
// rings take the slowest link that they cross.
//
// Where no cut fits, the backward pass makes all layers again: a microbatch
// holds what enters a layer, and I takes what F does, too.
//
// Units: seconds, bytes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_PIPELINE_LAYOUTS_H
#define TANDEM_SEARCH_PIPELINE_LAYOUTS_H

#include "tandem/Cost/Cluster.h"
#include "tandem/Search/Pipeline/Cuts.h"
#include <map>

namespace tandem::pipeline {

struct ModelLayer {
  /// Seconds of one row, by kind of device and number of devices that share it.
  std::map<std::pair<std::string, unsigned>, LayerCost> costs;
  /// What a pass takes besides, however many rows it has; on several devices as
  /// on one, where nothing else is said.
  std::map<std::pair<std::string, unsigned>, LayerCost> fixed;
  /// Of its parameters and their gradient each.
  double weights = 0;
  /// Of one row: held from F to W, moved behind the layer, and summed in each
  /// pass by the devices that share the layer.
  double activations = 0, bytes = 0, reduced = 0;
  /// The layer whose parameters it has, too; negative: none.
  int tied = -1;
};

struct Layout {
  unsigned pipe = 1, data = 1, model = 1;
  /// Of the batch, in a microbatch of a device.
  unsigned rows = 1;
  std::string schedule = "1f1b";
  unsigned sectionsPerPoint = 1;
  /// The nodes of the cluster in the order of ranks.
  std::vector<unsigned> nodes;
};

/// In which orders of the nodes a layout may have its ranks.
enum class NodeOrders : uint8_t {
  Given,
  /// Each point has the devices of a point in the given order.
  OfPoints,
  All,
};

struct LayoutProblem {
  CutAccounting accounting = CutAccounting::Tandem;
  unsigned batch = 1;
  /// How many times the bytes of its parameters a device holds.
  double states = 4;
  cost::Cluster cluster;
  std::vector<ModelLayer> layers;
  /// Empty: all that the cluster can have.
  std::vector<Layout> layouts;
  NodeOrders nodeOrders = NodeOrders::All;
  /// Whether pipelines run all forward passes before any backward pass.
  bool runsForwardFirst = false;
};

/// What became of a layout.
struct LayoutResult {
  Layout layout;
  /// No cut takes less.
  double lowerBound = 0;
  /// Empty where it was not cut, or does not fit.
  Cut cut;
  /// Of a step; without its sums of gradients; where points wait for others.
  double seconds = 0, pipeline = 0, bubble = 0;
  /// Seconds of gradient sums behind all else.
  double exposed = 0;
  /// The most that a device of each point holds.
  std::vector<double> held;
  /// Whether the backward pass makes layers again: no cut fits that holds all.
  bool isMadeAgain = false;
  /// Why it has no cut, whether memory is the reason, and what the worst point
  /// of the nearest cut holds too much.
  std::string why;
  bool lacksMemory = false;
  double excess = kUnlimited;
};

/// A problem from its text (docs/choosing-pipelines.md), which came from
/// `name`. Else nothing, with one line in `error` that begins with `NAME:LINE`.
/// Of the cluster it has kinds with their memory, nodes and links.
std::optional<LayoutProblem> parseLayoutProblem(std::string_view text,
                                                std::string_view name,
                                                std::string &error);

/// `pipe=4,data=2 rows=2 1f1b`, and the order of nodes where it is not that of
/// the cluster.
std::string print(const Layout &layout);

/// Whether a layout has the devices and nodes of the cluster, each once, and
/// divides the batch. Else false, with one line in `error`.
bool verifyLayout(const LayoutProblem &problem, const Layout &layout,
                  std::string &error);

/// The problem of cuts of a layout. Nothing, with `error`, if a layer has no
/// seconds for it.
std::optional<CutProblem> makeCutProblem(const LayoutProblem &problem,
                                         const Layout &layout,
                                         std::string &error);

/// The place in the given order of each point's devices, of a layout in an
/// order `OfPoints`.
std::vector<unsigned> getPointOrder(const LayoutProblem &problem,
                                    const Layout &layout);

/// Cuts and prices one layout.
LayoutResult priceLayout(const LayoutProblem &problem, const Layout &layout,
                         const Deadline &deadline = {},
                         CutEffort effort = CutEffort::Full);

/// All layouts, the fastest first. Those whose bound is no better than a layout
/// found before are not cut, unless the problem names its layouts. The cuts of
/// the others are searched where they may become the fastest. When the deadline
/// is over, and a layout fits, the search ends. If none fits, the one comes
/// first whose worst point holds the least too much.
std::vector<LayoutResult> searchLayouts(const LayoutProblem &problem,
                                        const Deadline &deadline = {});

/// The step of a layout of the problem with the cut of `result`, which is legal
/// and fits. Knows nothing of the search. Else nothing, with one line in
/// `error`.
std::optional<double> checkLayout(const LayoutProblem &problem,
                                  const LayoutResult &result,
                                  std::string &error);

/// Whether a result has a layout of the problem and a legal cut that fits, and
/// costs what it says. Knows nothing of the search. Else false, with one line
/// in `error`.
bool verifyLayout(const LayoutProblem &problem, const LayoutResult &result,
                  std::string &error);

/// `layout pipe 3 data 2 ...`, `cut 3 2 1`, `cost 0.75`, and `again` where
/// layers are made again.
std::string print(const LayoutResult &result);
/// Layout, cut and cost of what `print` makes of a result, verified. Else
/// nothing, with one line in `error` that begins with `NAME:LINE`.
std::optional<LayoutResult> readLayoutResult(const LayoutProblem &problem,
                                             std::string_view text,
                                             std::string_view name,
                                             std::string &error);

/// A table, a line for each layout.
std::string print(const std::vector<LayoutResult> &results);

} // namespace tandem::pipeline

#endif // TANDEM_SEARCH_PIPELINE_LAYOUTS_H
