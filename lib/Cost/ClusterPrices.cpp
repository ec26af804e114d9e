//===- ClusterPrices.cpp - prices of operators ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterMeasured.h"
#include <algorithm>
#include <cmath>

using namespace tandem::cost;

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

/// Linear in log FLOP between entries.
static double getEfficiency(const ComputeRate &rate, double flops) {
  const auto &table = rate.efficiency;
  if (table.empty())
    return 1;
  if (flops <= table.front().first)
    return table.front().second;
  for (size_t i = 1; i < table.size(); ++i)
    if (flops <= table[i].first) {
      auto [lowFlops, low] = table[i - 1];
      auto [highFlops, high] = table[i];
      double weight =
          std::log(flops / lowFlops) / std::log(highFlops / lowFlops);
      return low + weight * (high - low);
    }
  return table.back().second;
}

static constexpr std::string_view kMatmul = "nn.matmul";

std::string_view tandem::cost::getRateName(std::string_view op) {
  if (op.starts_with("nn.attention"))
    return kAttentionRate;
  bool isProduct =
      op == kMatmul || op == "nn.conv" || op.starts_with("nn.conv_");
  return isProduct ? "" : kFusedRate;
}

static const ComputeRate *findRate(const DeviceKind &kind,
                                   std::string_view name) {
  for (const auto &[own, rate] : kind.rates)
    if (own == name)
      return &rate;
  return nullptr;
}

static const ComputeRate &getRate(const DeviceKind &kind, std::string_view type,
                                  std::string_view op) {
  for (std::string_view name : {getRateName(op), type})
    if (const ComputeRate *rate = findRate(kind, name))
      return *rate;
  const ComputeRate *lowest = nullptr;
  for (const auto &[name, rate] : kind.rates)
    if (name != kAttentionRate && name != kFusedRate &&
        (!lowest || rate.peak < lowest->peak))
      lowest = &rate;
  return *lowest;
}

double tandem::cost::getHostSeconds(const Cluster &cluster, double bytes,
                                    bool isToHost) {
  const HostLink &link = *cluster.host;
  int64_t devices = 1;
  for (const NodeGroup &group : cluster.nodes)
    devices = std::max(devices, group.getNumDevices());
  auto sharers = static_cast<double>(
      link.sharers ? std::min(link.sharers, devices) : devices);
  return link.latency +
         bytes * sharers / (isToHost ? link.toHost : link.fromHost);
}

std::string tandem::cost::describeMissingHost(const Cluster &cluster) {
  return "cluster '" + cluster.name +
         "' has no link 'host', over which values on the host are copied: add "
         "one to its file, such as 'host: {latency: 10 us, bandwidth: 16 GB/s, "
         "per: device}' under 'link'";
}

double tandem::cost::getPeakRate(const DeviceKind &kind,
                                 std::string_view type) {
  return getRate(kind, type, kMatmul).peak;
}

double tandem::cost::getComputeSeconds(const Cluster &cluster,
                                       std::string_view type, double flops,
                                       double bytes, std::string_view op,
                                       std::span<const int64_t> shape) {
  for (const MeasuredOperator &measured : cluster.operators)
    if (measured.op == op && measured.type == type &&
        std::ranges::equal(measured.shape, shape))
      return measured.seconds;
  double slowest = 0;
  for (const DeviceKind &kind : cluster.kinds) {
    const ComputeRate &rate = getRate(kind, type, op);
    double work = flops / (rate.peak * getEfficiency(rate, flops));
    double transfer = bytes / kind.memoryBandwidth;
    slowest = std::max(slowest, std::max(work, transfer) + kind.overhead);
  }
  return slowest;
}

void tandem::cost::setLimits(const Cluster &cluster, SearchProblem &problem) {
  problem.computeSlowdown = cluster.computeSlowdown;
  problem.collectiveSlowdown = cluster.collectiveSlowdown;
  problem.pieceLatency = cluster.pieceLatency;
  problem.memoryLimit = kNoLimit;
  for (const DeviceKind &kind : cluster.kinds)
    problem.memoryLimit =
        std::min(problem.memoryLimit, kind.memorySize - kind.memoryReserved);
}

//===----------------------------------------------------------------------===//
// Groups of an axis
//===----------------------------------------------------------------------===//

namespace {
/// How the groups of an axis lie on the nodes, and the seconds that a byte of
/// each kind's volume costs.
struct AxisTraffic {
  /// Most members of a group in one node, and most nodes of a group.
  int64_t mostInNode = 1, mostNodes = 1;
  /// Of the links of these groups, those with the largest latency.
  const Link *node = nullptr, *network = nullptr;
  /// s/B of one member's ring volume.
  double ring = 0;
  /// s/B of bytes / n^2, what one member sends to another in an all-to-all.
  double pair = 0;
};

class Placement {
public:
  explicit Placement(const Cluster &cluster);
  AxisTraffic getTraffic(int64_t size, int64_t stride) const;

private:
  struct Groups {
    /// Of each group, its nodes in order and the members there.
    std::vector<std::vector<std::pair<unsigned, int64_t>>> members;
    /// By node: groups that leave it; devices whose group has another there.
    std::vector<int64_t> crossing, talking;
  };
  Groups getGroups(int64_t size, int64_t stride) const;
  void addShare(AxisTraffic &traffic, const Groups &groups, int64_t size,
                unsigned node, int64_t members) const;

  unsigned numNodes = 0;
  /// Node of each device.
  std::vector<unsigned> nodes;
  std::vector<NodeLinks> links;
};
} // namespace

Placement::Placement(const Cluster &cluster) : links(cluster.getLinks()) {
  for (const NodeGroup &group : cluster.nodes)
    for (int64_t i = 0; i < group.count; ++i, ++numNodes)
      for (auto [kind, count] : group.devices)
        nodes.insert(nodes.end(), count, numNodes);
}

Placement::Groups Placement::getGroups(int64_t size, int64_t stride) const {
  Groups groups;
  groups.crossing.resize(numNodes);
  groups.talking.resize(numNodes);
  groups.members.resize(nodes.size() / size);
  for (size_t device = 0; device < nodes.size(); ++device) {
    auto &group =
        groups.members[device / (size * stride) * stride + device % stride];
    if (group.empty() || group.back().first != nodes[device])
      group.emplace_back(nodes[device], 0);
    ++group.back().second;
  }
  for (const auto &group : groups.members)
    for (auto [node, members] : group) {
      groups.crossing[node] += group.size() > 1;
      groups.talking[node] += members > 1 ? members : 0;
    }
  return groups;
}

/// What the members of a group in one node have of the links there.
void Placement::addShare(AxisTraffic &traffic, const Groups &groups,
                         int64_t size, unsigned node, int64_t members) const {
  auto add = [&](double bandwidth, double numPairs) {
    traffic.ring = std::max(traffic.ring, 1 / bandwidth);
    traffic.pair = std::max(traffic.pair, numPairs / bandwidth);
  };
  auto keep = [](const Link *&slowest, const Link &link) {
    if (!slowest || slowest->latency < link.latency)
      slowest = &link;
  };
  double all = static_cast<double>(members);
  if (members > 1) {
    const Link &link = *links[node].node;
    double sharing =
        link.isPerDevice ? 1 : static_cast<double>(groups.talking[node]);
    add(link.bandwidth / sharing, all - 1);
    keep(traffic.node, link);
  }
  if (members < size) {
    const Link &link = *links[node].network;
    double number =
        link.isPerDevice ? all : 1 / static_cast<double>(groups.crossing[node]);
    add(link.bandwidth * number, all * (static_cast<double>(size) - all));
    keep(traffic.network, link);
  }
}

AxisTraffic Placement::getTraffic(int64_t size, int64_t stride) const {
  AxisTraffic traffic;
  Groups groups = getGroups(size, stride);
  for (const auto &group : groups.members) {
    traffic.mostNodes = std::max<int64_t>(traffic.mostNodes,
                                          static_cast<int64_t>(group.size()));
    for (auto [node, members] : group) {
      traffic.mostInNode = std::max(traffic.mostInNode, members);
      addShare(traffic, groups, size, node, members);
    }
  }
  return traffic;
}

//===----------------------------------------------------------------------===//
// Rates of an axis
//===----------------------------------------------------------------------===//

/// ceil(log2 n).
static int getSteps(int64_t n) {
  int steps = 0;
  while ((int64_t(1) << steps) < n)
    ++steps;
  return steps;
}

/// The formulas of Cluster.h.
static void setFormulas(const AxisTraffic &traffic, Axis &axis) {
  bool crosses = traffic.mostNodes > 1;
  double n = static_cast<double>(axis.size);
  double latency = 0;
  if (traffic.mostInNode > 1)
    latency += getSteps(traffic.mostInNode) * traffic.node->latency;
  if (crosses)
    latency += getSteps(traffic.mostNodes) * traffic.network->latency;
  double ring = traffic.ring * (n - 1) / n;
  const Link &outermost = crosses ? *traffic.network : *traffic.node;
  double oneStep = outermost.latency;
  axis.queue = outermost.queue;
  auto set = [&](Change kind, double latency, double secondsPerByte) {
    axis.rates[static_cast<unsigned>(kind)] = {latency, secondsPerByte};
  };
  set(Change::AllGather, latency, ring);
  set(Change::ReduceScatter, latency, ring);
  set(Change::AllReduce, 2 * latency, 2 * ring);
  set(Change::AllToAll, oneStep, traffic.pair / (n * n));
}

static void replaceByMeasured(const Cluster &cluster, bool isNetwork,
                              Axis &axis) {
  for (unsigned kind = 0; kind < kNumChanges; ++kind) {
    std::vector<MeasuredCollective> points;
    for (const MeasuredCollective &measured : cluster.collectives)
      if (static_cast<unsigned>(measured.kind) == kind &&
          measured.isNetwork == isNetwork && measured.ranks == axis.size)
        points.push_back(measured);
    if (!points.empty())
      axis.rates[kind] = fitMeasured(points, axis.rates[kind]);
  }
}

/// Strands lie in one memory: a sum reads k terms and writes one, the others
/// read and write everything once.
static void setTimeRates(const Cluster &cluster, Axis &axis) {
  double perByte = 0, overhead = 0;
  for (const DeviceKind &kind : cluster.kinds) {
    perByte = std::max(perByte, 1 / kind.memoryBandwidth);
    overhead = std::max(overhead, kind.overhead);
  }
  axis.queue = 0;
  ChangeRate move{overhead, 2 * perByte};
  ChangeRate sum{overhead, static_cast<double>(axis.size + 1) * perByte};
  axis.rates = {};
  if (axis.size > 1)
    axis.rates = {move, sum, sum, move};
}

static bool checkMesh(const Cluster &cluster, const std::vector<Axis> &axes,
                      std::string &error) {
  int64_t points = 1;
  std::string mesh;
  for (const Axis &axis : axes) {
    if (axis.isTime)
      continue;
    mesh +=
        (mesh.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
    // Beyond this it is wrong anyway, and the product must not overflow.
    points = axis.size < 1 || points > (int64_t(1) << 40) / axis.size
                 ? 0
                 : points * axis.size;
  }
  int64_t devices = cluster.getNumDevices();
  if (points == devices)
    return true;
  std::string count =
      points > 0 ? std::to_string(points) : "a number outside of 1 to 2^40";
  error = "mesh '" + mesh + "': found " + count + " devices, expected " +
          std::to_string(devices) + ", those of cluster '" + cluster.name +
          "': choose axes whose sizes multiply to that";
  return false;
}

bool tandem::cost::priceMesh(const Cluster &cluster, std::vector<Axis> &axes,
                             std::string &error) {
  if (!checkMesh(cluster, axes, error))
    return false;
  Placement placement(cluster);
  int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->isTime) {
      setTimeRates(cluster, *axis);
      continue;
    }
    axis->queue = 0;
    axis->rates = {};
    if (axis->size > 1) {
      AxisTraffic traffic = placement.getTraffic(axis->size, stride);
      setFormulas(traffic, *axis);
      replaceByMeasured(cluster, traffic.mostNodes > 1, *axis);
    }
    stride *= axis->size;
  }
  return true;
}
