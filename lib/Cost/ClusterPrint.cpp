//===- ClusterPrint.cpp - writing cluster files ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterText.h"
#include "tandem/Cost/Cluster.h"
#include <sstream>

using namespace tandem::cost;

/// Quoted where YAML would read something else.
static std::string quote(const std::string &text) {
  bool isPlain = !text.empty();
  for (char c : text)
    isPlain &= std::isalnum(static_cast<unsigned char>(c)) || c == '_' ||
               c == '.' || c == '-';
  if (isPlain && text[0] != '-')
    return text;
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

static void print(std::ostream &out, const ComputeRate &rate) {
  std::string peak = printQuantity(rate.peak, Quantity::Rate);
  if (rate.efficiency.empty()) {
    out << " " << peak << "\n";
    return;
  }
  out << "\n        peak: " << peak << "\n        efficiency:\n";
  for (auto [flops, share] : rate.efficiency)
    out << "          " << printQuantity(flops, Quantity::Flops) << ": "
        << printQuantity(share, Quantity::Share) << "\n";
}

static void print(std::ostream &out, const DeviceKind &kind) {
  out << "  " << quote(kind.name) << ":\n    rates:\n";
  for (const auto &[type, rate] : kind.rates) {
    out << "      " << quote(type) << ":";
    print(out, rate);
  }
  out << "    memory:\n      size: "
      << printQuantity(static_cast<double>(kind.memorySize), Quantity::Bytes)
      << "\n      bandwidth: "
      << printQuantity(kind.memoryBandwidth, Quantity::Bandwidth) << "\n";
  if (kind.memoryReserved)
    out << "      reserved: "
        << printQuantity(static_cast<double>(kind.memoryReserved),
                         Quantity::Bytes)
        << "\n";
  out << "    overhead: " << printQuantity(kind.overhead, Quantity::Time)
      << "\n";
  if (kind.price > 0)
    out << "    price: " << printQuantity(kind.price, Quantity::Price) << "\n";
}

static void print(std::ostream &out, const std::string &indent,
                  const char *level, const std::optional<Link> &link) {
  if (!link)
    return;
  out << indent << level << ":\n"
      << indent << "  latency: " << printQuantity(link->latency, Quantity::Time)
      << "\n"
      << indent
      << "  bandwidth: " << printQuantity(link->bandwidth, Quantity::Bandwidth)
      << "\n"
      << indent << "  per: " << (link->isPerDevice ? "device" : "node") << "\n";
  if (link->queue)
    out << indent << "  queue: " << link->queue << "\n";
}

static void print(std::ostream &out, const HostLink &link) {
  std::string to = printQuantity(link.toHost, Quantity::Bandwidth);
  std::string from = printQuantity(link.fromHost, Quantity::Bandwidth);
  out << "  host:\n    latency: " << printQuantity(link.latency, Quantity::Time)
      << "\n    bandwidth: "
      << (to == from ? to : "{to: " + to + ", from: " + from + "}")
      << "\n    per: "
      << (link.sharers == 0   ? "node"
          : link.sharers == 1 ? "device"
                              : std::to_string(link.sharers))
      << "\n";
}

static void print(std::ostream &out, const Cluster &cluster,
                  const NodeGroup &group) {
  out << "  - count: " << group.count << "\n    devices: {";
  for (size_t i = 0; i < group.devices.size(); ++i)
    out << (i ? ", " : "") << quote(cluster.kinds[group.devices[i].first].name)
        << ": " << group.devices[i].second;
  out << "}\n";
  if (group.node || group.network)
    out << "    link:\n";
  print(out, "      ", "node", group.node);
  print(out, "      ", "network", group.network);
}

static void print(std::ostream &out, const MeasuredOperator &measured) {
  out << "    - {operator: " << quote(measured.op)
      << ", type: " << quote(measured.type) << ", shape: ";
  for (size_t i = 0; i < measured.shape.size(); ++i)
    out << (i ? "x" : "") << measured.shape[i];
  out << ", time: " << printQuantity(measured.seconds, Quantity::Time) << "}\n";
}

static void print(std::ostream &out, const MeasuredCollective &measured) {
  static constexpr const char *names[] = {"all-gather", "reduce-scatter",
                                          "all-reduce", "all-to-all"};
  out << "    - {collective: " << names[static_cast<unsigned>(measured.kind)]
      << ", link: " << (measured.isNetwork ? "network" : "node")
      << ", ranks: " << measured.ranks << ", bytes: "
      << printQuantity(static_cast<double>(measured.bytes), Quantity::Bytes)
      << ", time: " << printQuantity(measured.seconds, Quantity::Time) << "}\n";
}

static void printMeasured(std::ostream &out, const Cluster &cluster) {
  if (cluster.operators.empty() && cluster.collectives.empty())
    return;
  out << "measured:\n";
  if (!cluster.operators.empty())
    out << "  operators:\n";
  for (const MeasuredOperator &measured : cluster.operators)
    print(out, measured);
  if (!cluster.collectives.empty())
    out << "  collectives:\n";
  for (const MeasuredCollective &measured : cluster.collectives)
    print(out, measured);
}

std::string tandem::cost::print(const Cluster &cluster) {
  std::ostringstream out;
  out << "name: " << quote(cluster.name) << "\n";
  if (!cluster.machine.empty())
    out << "machine: " << quote(cluster.machine) << "\n";
  out << "kinds:\n";
  for (const DeviceKind &kind : cluster.kinds)
    ::print(out, kind);
  out << "nodes:\n";
  for (const NodeGroup &group : cluster.nodes)
    ::print(out, cluster, group);
  if (cluster.node || cluster.network || cluster.host)
    out << "link:\n";
  ::print(out, "  ", "node", cluster.node);
  ::print(out, "  ", "network", cluster.network);
  if (cluster.host)
    ::print(out, *cluster.host);
  out << "interference:\n  computation: "
      << printQuantity(cluster.computeSlowdown, Quantity::Factor)
      << "\n  collective: "
      << printQuantity(cluster.collectiveSlowdown, Quantity::Factor);
  if (cluster.copySlowdown > 1)
    out << "\n  copy: "
        << printQuantity(cluster.copySlowdown, Quantity::Factor);
  out << "\npiece: " << printQuantity(cluster.pieceLatency, Quantity::Time)
      << "\n";
  printMeasured(out, cluster);
  return out.str();
}
