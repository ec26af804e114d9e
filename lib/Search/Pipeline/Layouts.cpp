//===- Layouts.cpp - what a layout costs ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Pipeline/Layouts.h"
#include "tandem/Orders/Simulate.h"
#include <algorithm>
#include <numeric>
#include <tuple>

using namespace tandem;
using namespace tandem::pipeline;

namespace {
/// Where ranks lie, and what the links between them take.
class Ranks {
public:
  Ranks(const LayoutProblem &problem, const Layout &layout);

  unsigned getNode(unsigned point, unsigned data, unsigned model) const {
    return nodes[(point * layout.data + data) * layout.model + model];
  }
  /// The kinds of a point's devices, each once.
  std::vector<unsigned> getKinds(unsigned point) const;
  /// s/B and latency of the ring in which devices share layers of a point.
  cost::ChangeRate getModelRing(unsigned point) const;
  /// Of the rings in which a point sums its gradients.
  cost::ChangeRate getDataRing(unsigned point) const;
  /// From a point to another one, by all its devices at once.
  cost::ChangeRate getTransfer(unsigned from, unsigned to) const;
  double getMemory(unsigned point) const;

private:
  using Hops = std::vector<std::pair<unsigned, unsigned>>;
  cost::ChangeRate getSlowest(const Hops &hops) const;
  unsigned getFirst(unsigned point) const {
    return point * layout.data * layout.model;
  }

  const LayoutProblem &problem;
  const Layout &layout;
  std::vector<cost::NodeLinks> links;
  /// By rank.
  std::vector<unsigned> nodes, kinds;
};
} // namespace

Ranks::Ranks(const LayoutProblem &problem, const Layout &layout)
    : problem(problem), layout(layout), links(problem.cluster.getLinks()) {
  std::vector<const cost::NodeGroup *> groups;
  for (const cost::NodeGroup &group : problem.cluster.nodes)
    groups.insert(groups.end(), group.count, &group);
  std::vector<unsigned> order = layout.nodes;
  if (order.empty()) {
    order.resize(groups.size());
    std::iota(order.begin(), order.end(), 0);
  }
  for (unsigned node : order)
    for (auto [kind, count] : groups[node]->devices) {
      nodes.insert(nodes.end(), count, node);
      kinds.insert(kinds.end(), count, kind);
    }
}

std::vector<unsigned> Ranks::getKinds(unsigned point) const {
  auto begin = kinds.begin() + getFirst(point);
  std::vector<unsigned> own(begin, begin + layout.data * layout.model);
  std::sort(own.begin(), own.end());
  own.erase(std::unique(own.begin(), own.end()), own.end());
  return own;
}

double Ranks::getMemory(unsigned point) const {
  double least = kUnlimited;
  for (unsigned kind : getKinds(point)) {
    const cost::DeviceKind &device = problem.cluster.kinds[kind];
    least = std::min(
        least, static_cast<double>(device.memorySize - device.memoryReserved));
  }
  return least;
}

/// All hops take place at once. Those of one node share what its devices share,
/// in each direction: a hop between nodes takes what its slower end takes.
cost::ChangeRate Ranks::getSlowest(const Hops &hops) const {
  std::vector<double> inside(links.size()), leaving(links.size()),
      entering(links.size());
  for (auto [from, to] : hops) {
    ++(from == to ? inside : leaving)[from];
    entering[to] += from != to;
  }
  cost::ChangeRate slowest;
  auto cross = [&](const cost::Link &link, double number) {
    double sharing = link.isPerDevice ? 1 : number;
    slowest.latency = std::max(slowest.latency, link.latency);
    slowest.secondsPerByte =
        std::max(slowest.secondsPerByte, sharing / link.bandwidth);
  };
  for (auto [from, to] : hops) {
    if (from == to) {
      cross(*links[from].node, inside[from]);
      continue;
    }
    cross(*links[from].network, leaving[from]);
    cross(*links[to].network, entering[to]);
  }
  return slowest;
}

/// Of an all-reduce of n members: 2 (n - 1) steps of bytes / n each.
static cost::ChangeRate makeRing(cost::ChangeRate hop, unsigned size) {
  double steps = 2.0 * (size - 1);
  return {steps * hop.latency, steps / size * hop.secondsPerByte};
}

cost::ChangeRate Ranks::getModelRing(unsigned point) const {
  Hops hops;
  for (unsigned data = 0; data < layout.data; ++data)
    for (unsigned i = 0; i < layout.model; ++i)
      hops.emplace_back(getNode(point, data, i),
                        getNode(point, data, (i + 1) % layout.model));
  return layout.model > 1 ? makeRing(getSlowest(hops), layout.model)
                          : cost::ChangeRate();
}

cost::ChangeRate Ranks::getDataRing(unsigned point) const {
  Hops hops;
  for (unsigned model = 0; model < layout.model; ++model)
    for (unsigned i = 0; i < layout.data; ++i)
      hops.emplace_back(getNode(point, i, model),
                        getNode(point, (i + 1) % layout.data, model));
  return layout.data > 1 ? makeRing(getSlowest(hops), layout.data)
                         : cost::ChangeRate();
}

cost::ChangeRate Ranks::getTransfer(unsigned from, unsigned to) const {
  Hops hops;
  for (unsigned data = 0; data < layout.data; ++data)
    for (unsigned model = 0; model < layout.model; ++model)
      hops.emplace_back(getNode(from, data, model), getNode(to, data, model));
  return getSlowest(hops);
}

//===----------------------------------------------------------------------===//
// The problem of cuts
//===----------------------------------------------------------------------===//

/// Seconds of a pass of `rows` rows, of which those of one row on one device
/// and on those that share it are known.
static double scale(double one, double shared, double ring, unsigned devices,
                    unsigned rows) {
  double work = one / devices;
  double latency = std::max(0.0, shared - work - ring);
  return rows * (work + ring) + latency;
}

/// On the slowest kind of a point.
static LayerCost getCost(const LayoutProblem &problem, const Layout &layout,
                         const std::vector<unsigned> &kinds,
                         cost::ChangeRate rate, const ModelLayer &layer) {
  double ring = layer.reduced * rate.secondsPerByte;
  double latency = layer.reduced > 0 ? rate.latency : 0;
  LayerCost slowest;
  for (unsigned kind : kinds) {
    const std::string &name = problem.cluster.kinds[kind].name;
    const LayerCost &one = layer.costs.at({name, 1});
    auto fixed = layer.fixed.find({name, layout.model});
    if (fixed == layer.fixed.end())
      fixed = layer.fixed.find({name, 1});
    auto found = layer.costs.find({name, layout.model});
    auto get = [&](double LayerCost::*pass) {
      double shared = found != layer.costs.end()
                          ? found->second.*pass
                          : one.*pass / layout.model + ring + latency;
      double seconds =
          scale(one.*pass, shared, ring, layout.model, layout.rows);
      if (fixed != layer.fixed.end())
        seconds += fixed->second.*pass;
      slowest.*pass = std::max(slowest.*pass, seconds);
    };
    get(&LayerCost::forward);
    get(&LayerCost::input);
    get(&LayerCost::weight);
  }
  return slowest;
}

std::optional<CutProblem>
tandem::pipeline::makeCutProblem(const LayoutProblem &problem,
                                 const Layout &layout, std::string &error) {
  if (problem.layers.size() < size_t(layout.pipe) * layout.sectionsPerPoint) {
    error = "found " + std::to_string(problem.layers.size()) +
            " layers, expected one for each of " +
            std::to_string(size_t(layout.pipe) * layout.sectionsPerPoint) +
            " sections";
    return std::nullopt;
  }
  Ranks ranks(problem, layout);
  CutProblem cuts;
  cuts.accounting = problem.accounting;
  cuts.schedule = layout.schedule;
  cuts.numMicrobatches = problem.batch / (layout.data * layout.rows);
  cuts.sectionsPerPoint = layout.sectionsPerPoint;
  cuts.placement = orders::findSchedule(layout.schedule)->placement;
  cuts.layers.resize(problem.layers.size());
  // Points with equal devices and links inside are one kind.
  using Inside = std::tuple<std::vector<unsigned>, double, double>;
  std::map<Inside, unsigned> known;
  for (unsigned point = 0; point < layout.pipe; ++point) {
    std::vector<unsigned> kinds = ranks.getKinds(point);
    cost::ChangeRate ring = ranks.getModelRing(point);
    auto [found, isNew] =
        known.try_emplace(Inside(kinds, ring.latency, ring.secondsPerByte),
                          static_cast<unsigned>(cuts.kinds.size()));
    cost::ChangeRate sums = ranks.getDataRing(point);
    cuts.points.push_back({found->second, ranks.getMemory(point), sums.latency,
                           1 / sums.secondsPerByte});
    if (!isNew)
      continue;
    cuts.kinds.push_back("point" + std::to_string(point));
    for (size_t i = 0; i < problem.layers.size(); ++i)
      cuts.layers[i].costs.push_back(
          getCost(problem, layout, kinds, ring, problem.layers[i]));
  }
  std::vector<cost::ChangeRate> transfers;
  for (unsigned border = 1; border < cuts.getNumSections(); ++border) {
    unsigned from = cuts.getPoint(border - 1), to = cuts.getPoint(border);
    // A V turns inside of a point.
    transfers.push_back(from == to ? cost::ChangeRate()
                                   : ranks.getTransfer(from, to));
  }
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const ModelLayer &layer = problem.layers[i];
    cuts.layers[i].weights = layer.weights * problem.states / layout.model;
    cuts.layers[i].activations = layer.activations * layout.rows / layout.model;
    cuts.layers[i].gradients =
        layout.data > 1 ? layer.weights / layout.model : 0;
    cuts.layers[i].tied = layer.tied;
    for (cost::ChangeRate rate : transfers)
      cuts.layers[i].comm.push_back(rate.latency + layer.bytes * layout.rows *
                                                       rate.secondsPerByte);
  }
  return cuts;
}

//===----------------------------------------------------------------------===//
// The price
//===----------------------------------------------------------------------===//

/// What enters a layer is whole on all devices that share the layer.
static void makeAgain(const LayoutProblem &problem, const Layout &layout,
                      CutProblem &cuts) {
  double entering = 0;
  for (size_t i = 0; i < cuts.layers.size(); ++i) {
    Layer &layer = cuts.layers[i];
    layer.activations = std::min(layer.activations, entering * layout.rows);
    for (LayerCost &cost : layer.costs)
      cost.input += cost.forward;
    entering = problem.layers[i].bytes;
  }
}

/// The times of a cut that the schedule can have.
static void measure(const CutProblem &cuts, const Cut &cut,
                    LayoutResult &result) {
  std::string error;
  std::optional<orders::Order> order = makeOrder(cuts, error);
  CutPrice price = priceCut(cuts, cut, order);
  result.bubble = price.bubble;
  if (cuts.accounting == CutAccounting::Amp)
    price = priceCut(cuts, cut, std::nullopt);
  result.cut = cut;
  result.held = std::move(price.held);
  result.seconds = price.seconds;
  result.exposed = price.exposed;
  result.pipeline = price.seconds - price.exposed;
}

LayoutResult tandem::pipeline::priceLayout(const LayoutProblem &problem,
                                           const Layout &layout,
                                           const Deadline &deadline,
                                           CutEffort effort) {
  LayoutResult result;
  result.layout = layout;
  auto cuts = makeCutProblem(problem, layout, result.why);
  if (!cuts || !makeOrder(*cuts, result.why))
    return result;
  CutResult found = searchCut(*cuts, deadline, effort);
  result.isMadeAgain =
      !found.error.empty() &&
      std::any_of(cuts->layers.begin(), cuts->layers.end(),
                  [](const Layer &layer) { return layer.activations > 0; });
  if (result.isMadeAgain) {
    makeAgain(problem, layout, *cuts);
    found = searchCut(*cuts, deadline, effort);
  }
  result.why = found.error;
  result.lacksMemory = !found.error.empty() && !deadline.isOver();
  if (!found.error.empty())
    result.excess = found.excess;
  if (found.error.empty())
    measure(*cuts, found.cut, result);
  return result;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

static bool fail(std::string &error, const std::string &message) {
  error = message;
  return false;
}

bool tandem::pipeline::verifyLayout(const LayoutProblem &problem,
                                    const Layout &layout, std::string &error) {
  int64_t devices = int64_t(layout.pipe) * layout.data * layout.model;
  if (int64_t all = problem.cluster.getNumDevices(); devices != all)
    return fail(error, "found a layout of " + std::to_string(devices) +
                           " devices, expected " + std::to_string(all) +
                           ", those of the cluster");
  if (problem.batch % (uint64_t(layout.data) * layout.rows) != 0)
    return fail(error, "found data " + std::to_string(layout.data) +
                           " and rows " + std::to_string(layout.rows) +
                           ", expected their product to divide the batch of " +
                           std::to_string(problem.batch));
  std::vector<unsigned> nodes = layout.nodes,
                        all(problem.cluster.getLinks().size());
  std::sort(nodes.begin(), nodes.end());
  std::iota(all.begin(), all.end(), 0);
  return nodes.empty() || nodes == all ||
         fail(error, "found nodes that are not the " +
                         std::to_string(all.size()) +
                         " of the cluster, expected each of them once");
}

std::optional<double>
tandem::pipeline::checkLayout(const LayoutProblem &problem,
                              const LayoutResult &result, std::string &error) {
  auto cuts = makeCutProblem(problem, result.layout, error);
  if (!cuts || !makeOrder(*cuts, error))
    return std::nullopt;
  if (result.isMadeAgain)
    makeAgain(problem, result.layout, *cuts);
  auto price = checkCut(*cuts, result.cut, error);
  return price ? std::optional(price->seconds) : std::nullopt;
}

bool tandem::pipeline::verifyLayout(const LayoutProblem &problem,
                                    const LayoutResult &result,
                                    std::string &error) {
  if (!verifyLayout(problem, result.layout, error))
    return false;
  auto seconds = checkLayout(problem, result, error);
  return seconds && isSameCost(result.seconds, *seconds, error);
}
