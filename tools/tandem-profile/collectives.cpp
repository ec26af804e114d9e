//===- collectives.cpp - times of collectives -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "collectives.h"
#include <cmath>
#include <cstdio>
#include <limits>

namespace tandem::profile {

using cost::Change;
using cost::Cluster;
using cost::MeasuredCollective;
using rt::CollectiveKind;
using rt::Expected;
using rt::Status;

double roundDigits(double value) {
  if (value == 0)
    return 0;
  double unit = std::pow(10, std::floor(std::log10(value)) - 3);
  return std::round(value / unit) * unit;
}

/// In the order of `Change`.
static constexpr struct {
  CollectiveKind kind;
  const char *name;
} kKinds[] = {{CollectiveKind::AllGather, "all-gather"},
              {CollectiveKind::ReduceScatter, "reduce-scatter"},
              {CollectiveKind::AllReduce, "all-reduce"},
              {CollectiveKind::AllToAll, "all-to-all"}};

namespace {
class CollectiveProfiler {
public:
  CollectiveProfiler(const Effort &effort, const std::vector<int64_t> &bytes,
                     Cluster &cluster)
      : effort(effort), bytes(bytes), cluster(cluster) {}

  Status run();

private:
  Status measureLink(bool isNetwork, int64_t mostRanks);
  Status measure(Change change, bool isNetwork, int64_t ranks);
  Status measureSizes(std::vector<MeasuredCollective> &points);
  cost::ChangeRate getAllReduce(bool isNetwork) const;
  void setLink(bool isNetwork);

  const Effort &effort;
  const std::vector<int64_t> &bytes;
  Cluster &cluster;
};
} // namespace

/// The least of what was measured of each size, in all groups at the same time:
/// neighbours inside of nodes, and between nodes those that lie farthest apart,
/// as the first axis of a mesh has them.
Status
CollectiveProfiler::measureSizes(std::vector<MeasuredCollective> &points) {
  for (MeasuredCollective &point : points) {
    auto [kind, name] = kKinds[static_cast<unsigned>(point.kind)];
    int64_t numGroups = effort.ranks / point.ranks;
    rt::Axis groups{"groups", numGroups}, members{"members", point.ranks};
    uint32_t axis = point.isNetwork ? 0 : 1;
    std::vector<rt::Axis> mesh = {axis ? groups : members,
                                  axis ? members : groups};
    Expected<double> seconds = timeCommand(
        effort, mesh, addCollectives(kind, axis, point.ranks, point.bytes));
    if (!seconds.ok())
      return seconds.status();
    point.seconds = std::min(point.seconds, roundDigits(*seconds));
    effort.say("%s of %lld ranks%s, %lld B: %.2f us\n", name,
               static_cast<long long>(point.ranks),
               point.isNetwork ? " between nodes" : "",
               static_cast<long long>(point.bytes), *seconds * 1e6);
  }
  return Status::success();
}

/// Measures again where other processes made small collectives as slow as large
/// ones, which no cluster can be.
Status CollectiveProfiler::measure(Change change, bool isNetwork,
                                   int64_t ranks) {
  constexpr unsigned maxRounds = 5;
  constexpr double unknown = std::numeric_limits<double>::infinity();
  std::vector<MeasuredCollective> points;
  int64_t unit = 4 * ranks * ranks;
  for (int64_t wanted : bytes)
    points.push_back({change, isNetwork, ranks,
                      std::max<int64_t>(wanted / unit, 1) * unit, unknown});
  for (unsigned round = 0; round == 0 || !cost::rises(points); ++round) {
    if (round == maxRounds)
      return Status::error(
          "measured " + std::to_string(round) + " times, " +
          kKinds[static_cast<unsigned>(change)].name + " of " +
          std::to_string(ranks) +
          " ranks takes no longer for more bytes, expected a machine with less "
          "other work");
    if (Status status = measureSizes(points); !status.ok())
      return status;
  }
  cluster.collectives.insert(cluster.collectives.end(), points.begin(),
                             points.end());
  return Status::success();
}

/// What the prices make of an all-reduce over as many ranks as a link connects.
cost::ChangeRate CollectiveProfiler::getAllReduce(bool isNetwork) const {
  std::vector<cost::Axis> axes(2);
  axes[0].name = "nodes", axes[1].name = "devices";
  axes[0].size = isNetwork ? effort.ranks : effort.nodes;
  axes[1].size = effort.ranks / axes[0].size;
  std::string error; // the mesh has as many points as the cluster devices
  priceMesh(cluster, axes, error);
  return axes[isNetwork ? 0 : 1]
      .rates[static_cast<unsigned>(Change::AllReduce)];
}

/// The link that makes the formula of an all-reduce over all ranks that it
/// connects the line through its measured times.
void CollectiveProfiler::setLink(bool isNetwork) {
  std::optional<cost::Link> &link = isNetwork ? cluster.network : cluster.node;
  cost::ChangeRate rate = getAllReduce(isNetwork);
  auto inNode = static_cast<double>(effort.ranks / effort.nodes);
  double ranks = isNetwork ? static_cast<double>(effort.ranks) : inNode;
  double ends = isNetwork ? static_cast<double>(effort.nodes) : inNode;
  double latency = rate.latency / 2;
  if (isNetwork && cluster.node)
    latency -= std::ceil(std::log2(inNode)) * cluster.node->latency;
  link->latency =
      roundDigits(std::max(0.0, latency) / std::ceil(std::log2(ends)));
  link->bandwidth = roundDigits(2 * (ranks - 1) / ranks /
                                std::max(rate.secondsPerByte, 1e-15));
  // What a collective costs beside its bytes is paid again by each piece.
  cluster.pieceLatency = roundDigits(rate.latency);
}

Status CollectiveProfiler::measureLink(bool isNetwork, int64_t mostRanks) {
  (isNetwork ? cluster.network : cluster.node) =
      cost::Link{0, 1, !isNetwork, 0};
  for (int64_t ranks = 2; ranks <= mostRanks; ++ranks) {
    if (mostRanks % ranks)
      continue;
    for (unsigned kind = 0; kind < cost::kNumChanges; ++kind)
      if (Status status = measure(static_cast<Change>(kind), isNetwork, ranks);
          !status.ok())
        return status;
  }
  setLink(isNetwork);
  return Status::success();
}

Status CollectiveProfiler::run() {
  int64_t inNode = effort.ranks / effort.nodes;
  if (inNode > 1)
    if (Status status = measureLink(false, inNode); !status.ok())
      return status;
  return effort.nodes > 1 ? measureLink(true, effort.ranks) : Status::success();
}

Status measureCollectives(const Effort &effort,
                          const std::vector<int64_t> &bytes, Cluster &cluster) {
  return CollectiveProfiler(effort, bytes, cluster).run();
}

} // namespace tandem::profile
