//===- show.cpp - prices of a cluster file --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "show.h"
#include "profile.h"
#include "tandem/Cost/Cluster.h"
#include <charconv>
#include <cstdio>
#include <sstream>

namespace tandem::profile {

using namespace cost;
using rt::Status;

/// `data=8,model=8`.
static Status parseMesh(const std::string &text, std::vector<Axis> &axes) {
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    size_t equals = part.find('=');
    Axis &axis = axes.emplace_back();
    axis.name = part.substr(0, equals);
    const char *end = part.data() + part.size();
    const char *begin = equals == std::string::npos ? end : &part[equals] + 1;
    auto [at, code] = std::from_chars(begin, end, axis.size);
    if (axis.name.empty() || code != std::errc() || at != end || axis.size < 1)
      return Status::error("--mesh: found '" + part +
                           "', expected NAME=SIZE, several divided by commas");
  }
  if (axes.size() > kMaxAxes - 1)
    return Status::error("--mesh: found " + std::to_string(axes.size()) +
                         " axes, expected at most " +
                         std::to_string(kMaxAxes - 1));
  return Status::success();
}

static void print(const Axis &axis) {
  static constexpr const char *names[] = {"all-gather", "reduce-scatter",
                                          "all-reduce", "all-to-all"};
  std::printf("axis %s=%lld, queue %u\n", axis.name.c_str(),
              static_cast<long long>(axis.size), axis.queue);
  for (unsigned kind = 0; kind < kNumChanges; ++kind) {
    const ChangeRate &rate = axis.rates[kind];
    std::printf("  %-14s %10.2f us + %10.2f us/MB\n", names[kind],
                rate.latency * 1e6, rate.secondsPerByte * 1e12);
  }
}

static void print(const Cluster &cluster, const DeviceKind &kind) {
  std::printf("kind %s: %.2f GB for tensors, %.1f GB/s, %.2f us per operator\n",
              kind.name.c_str(),
              static_cast<double>(kind.memorySize - kind.memoryReserved) / 1e9,
              kind.memoryBandwidth / 1e9, kind.overhead * 1e6);
  // From a small layer's product to a large one's.
  constexpr double works[] = {1e6, 1e8, 1e10, 1e12};
  Cluster alone = cluster;
  alone.kinds = {kind};
  alone.operators.clear();
  for (const auto &[type, rate] : kind.rates) {
    std::printf("  %-4s", type.c_str());
    for (double flops : works)
      std::printf("  %.0e FLOP %10.2f us", flops,
                  getComputeSeconds(alone, type, flops, 0, "nn.matmul") * 1e6);
    std::printf("\n");
  }
}

static void print(const Cluster &cluster, const HostLink &link) {
  auto getRate = [&](bool isToHost) {
    return (getHostSeconds(cluster, 1e6, isToHost) - link.latency) * 1e6;
  };
  std::printf("host %.2f us + %.2f us/MB to it, %.2f us/MB from it, slow-down "
              "of computation %g\n",
              link.latency * 1e6, getRate(true), getRate(false),
              cluster.copySlowdown);
}

Status show(const Options &options) {
  std::string error;
  auto cluster = readCluster(options.show, error, options.values);
  if (!cluster)
    return Status::error(error);
  if (!options.output.empty())
    return writeCluster(cost::print(*cluster), options.output);
  std::vector<Axis> axes;
  std::string mesh = options.mesh.empty()
                         ? "all=" + std::to_string(cluster->getNumDevices())
                         : options.mesh;
  if (Status status = parseMesh(mesh, axes); !status.ok())
    return status;
  if (!priceMesh(*cluster, axes, error))
    return Status::error(error);
  std::printf("cluster %s: %lld devices, slow-down of computation %g, of "
              "collectives %g, piece %.2f us\n",
              cluster->name.c_str(),
              static_cast<long long>(cluster->getNumDevices()),
              cluster->computeSlowdown, cluster->collectiveSlowdown,
              cluster->pieceLatency * 1e6);
  for (const DeviceKind &kind : cluster->kinds)
    print(*cluster, kind);
  if (cluster->host)
    print(*cluster, *cluster->host);
  for (const Axis &axis : axes)
    print(axis);
  return Status::success();
}

} // namespace tandem::profile
