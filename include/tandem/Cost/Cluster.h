//===- Cluster.h - clusters: devices, links, rates --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cluster is a YAML file (docs/clusters.md lists its keys): nodes and their
// devices, what a device computes and holds, the links inside a node and
// between nodes, how computation and collectives slow each other down, and
// measured times that replace the formulas. From it come the prices of a search
// problem.
//
// Units here: s, B, B/s, FLOP, FLOP/s. Rates and latencies of links are those
// of one direction; both directions work at once.
//
// Formulas, n being the members of a group and `bytes` what a device holds of
// the tensor if the axis were `full` (Thakur, Rabenseifner, Gropp 2005, section
// 4: recursive doubling and halving, and pairwise exchange, reach both terms):
//
//   kind            steps        bytes that each member sends and receives
//   all-gather      log2 n       bytes (n - 1) / n
//   reduce-scatter  log2 n       bytes (n - 1) / n
//   all-reduce      2 log2 n     2 bytes (n - 1) / n
//   all-to-all      1            bytes / n (n - 1) / n
//
// A group inside one node uses the link `node`. One with m members in each of
// several nodes uses both at once, and the slower decides. Over the link
// `network` of a node goes the volume of one member for all-gather,
// reduce-scatter and all-reduce (a ring enters and leaves a node once), and
// m bytes / n (n - m) / n for all-to-all, whose volume inside a node is
// bytes / n (m - 1) / n. Where each device has a network link of its own, a
// group has those of its m members. All groups of an axis communicate at the
// same time and share what devices share. The steps are log2 m of the node's
// and log2 (n / m) of the network's, rounded up each; that of an all-to-all is
// of the outermost link.
//
// Nodes with links of their own: the slowest link of a group decides.
//
// Devices of several kinds: the slowest kind decides, for each operator anew;
// the smallest memory is the limit.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_CLUSTER_H
#define TANDEM_COST_CLUSTER_H

#include "tandem/Cost/SearchProblem.h"
#include <span>

namespace tandem::cost {

/// How fast a data type is computed.
struct ComputeRate {
  double peak = 0; // FLOP/s
  /// Share of the peak that an operator of so many FLOP reaches, by rising
  /// FLOP. Linear in log FLOP between entries, constant outside of them; empty
  /// means 1.
  std::vector<std::pair<double, double>> efficiency;
  bool operator==(const ComputeRate &) const = default;
};

/// A kind of device.
struct DeviceKind {
  std::string name;
  /// By data type, as MLIR writes it: `f32`, `bf16`. A type without an entry is
  /// computed at the lowest peak among those of types. `attention` and `fused`,
  /// where they stand, are those of attention and of fused kernels.
  std::vector<std::pair<std::string, ComputeRate>> rates;
  int64_t memorySize = 0;     // B
  int64_t memoryReserved = 0; // B, not for tensors
  double memoryBandwidth = 0; // B/s, read and written together
  double overhead = 0;        // s, to launch one operator
  double price = 0;           // USD/h, of one device; 0: not known
  bool operator==(const DeviceKind &) const = default;
};

/// The links of a level.
struct Link {
  double latency = 0;   // s, of one step
  double bandwidth = 0; // B/s, one direction
  /// Each device has this bandwidth for itself; else the devices of a node
  /// share it.
  bool isPerDevice = true;
  /// The communication queue of collectives whose outermost level this is.
  unsigned queue = 0;
  bool operator==(const Link &) const = default;
};

/// The links between the devices of a node and their host.
struct HostLink {
  double latency = 0;              // s, of one copy
  double toHost = 0, fromHost = 0; // B/s, both at once
  /// So many devices of a node, one after the other, share a link; 0: all.
  int64_t sharers = 1;
  bool operator==(const HostLink &) const = default;
};

/// Nodes that are alike.
struct NodeGroup {
  int64_t count = 0;
  /// Kind (index into `Cluster::kinds`) and number of it in each node.
  std::vector<std::pair<unsigned, int64_t>> devices;
  /// Of their own, in place of the cluster's.
  std::optional<Link> node, network;
  bool operator==(const NodeGroup &) const = default;

  /// In each node.
  int64_t getNumDevices() const;
};

/// A measured time of an operator.
struct MeasuredOperator {
  std::string op;             // `nn.matmul`
  std::string type;           // `f32`
  std::vector<int64_t> shape; // its loops: batch, m, n, k of a product
  double seconds = 0;
  bool operator==(const MeasuredOperator &) const = default;
};

/// A measured time of a collective of `ranks` members on a level.
struct MeasuredCollective {
  Change kind = Change::AllGather;
  bool isNetwork = false;
  int64_t ranks = 0;
  int64_t bytes = 0; // as in `ChangeRate`
  double seconds = 0;
  bool operator==(const MeasuredCollective &) const = default;
};

/// Whether the line through the times of one kind, level and number of ranks
/// rises with the bytes, as those of a cluster have to.
bool rises(const std::vector<MeasuredCollective> &points);

struct NodeLinks {
  const Link *node = nullptr, *network = nullptr;
};

struct Cluster {
  std::string name;
  std::string machine = {}; ///< That it was measured on; empty: not known.
  std::vector<DeviceKind> kinds;
  /// In the order in which ranks are dealt out: node by node.
  std::vector<NodeGroup> nodes;
  /// Inside a node, and between nodes; there where they are needed, and nodes
  /// have none of their own.
  std::optional<Link> node, network;
  /// None: nothing lies in the host's memory.
  std::optional<HostLink> host;
  /// a and b of the cost's definition: how many times longer computation takes
  /// beside a collective, and the collective beside computation.
  double computeSlowdown = 1, collectiveSlowdown = 1;
  /// How many times longer computation takes beside copies from the host or to
  /// it, which nothing slows down.
  double copySlowdown = 1;
  /// Latency of a further piece of a waiting collective, s.
  double pieceLatency = 0;
  std::vector<MeasuredOperator> operators;
  std::vector<MeasuredCollective> collectives;
  bool operator==(const Cluster &) const = default;

  int64_t getNumDevices() const;
  /// The links of each node, in the order of ranks. Null where none is needed.
  /// Two nodes are joined by the slower one of their links `network`.
  std::vector<NodeLinks> getLinks() const;
  /// What each device has for tensors, in the order of ranks; B.
  std::vector<int64_t> getMemory() const;
  /// Seconds that computation loses in a second of copies beside it.
  double getCopyLoss() const { return 1 - 1 / copySlowdown; }
};

/// Reads a cluster file. An override is `KEY=VALUE` with a dotted path of keys
/// and indices (`link.network.bandwidth=25 Gbit/s`, `nodes.0.count=4`), and
/// stands in place of what the file says there. On failure returns nothing and
/// sets `error` to one line `FILE:LINE: found X, expected Y`.
std::optional<Cluster> readCluster(const std::string &path, std::string &error,
                                   std::span<const std::string> overrides = {});

/// The same from text; `name` stands for the file in errors.
std::optional<Cluster>
parseCluster(std::string_view text, std::string_view name, std::string &error,
             std::span<const std::string> overrides = {});

/// The cluster of the file at `path`; without one a laptop
/// (examples/clusters/laptop.yaml) of as many devices as are asked for.
std::optional<Cluster> getCluster(const std::string &path, int64_t numDevices,
                                  std::string &error);

/// The cluster as a file that reads back to the same one (numbers to 1e-12).
std::string print(const Cluster &cluster);

/// Sets the rates and the queue of each axis. Space axes are laid over the
/// devices in the order of the mesh, the last one over neighbours; the time
/// axis is priced by the memory of a device. False, with `error`, if the space
/// axes have more or fewer points than the cluster has devices, or cross a
/// level without a link.
bool priceMesh(const Cluster &cluster, std::vector<Axis> &axes,
               std::string &error);

/// Rates that stand beside those of data types.
inline constexpr std::string_view kAttentionRate = "attention";
inline constexpr std::string_view kFusedRate = "fused";

/// The rate of an operator, `nn.add`, that goes before that of its type:
/// `attention`, `fused`, or empty for products and convolutions.
std::string_view getRateName(std::string_view op);

/// Seconds of an operator on one device: the measured time of its name, type
/// and shape if there is one, else max(flops / rate, bytes / bandwidth) +
/// overhead. `bytes` are those read and written.
double getComputeSeconds(const Cluster &cluster, std::string_view type,
                         double flops, double bytes, std::string_view op,
                         std::span<const int64_t> shape = {});

/// Seconds of a copy of so many bytes from a device to its host, or back, while
/// all that share its link copy as much; of the nodes where most share one.
double getHostSeconds(const Cluster &cluster, double bytes, bool isToHost);

/// What a cluster without a link `host` lacks, as an error for users.
std::string describeMissingHost(const Cluster &cluster);

/// FLOP/s that a device of the kind reaches at most in a data type.
double getPeakRate(const DeviceKind &kind, std::string_view type);

/// Sets slow-downs, latency of a piece and memory limit of a problem.
void setLimits(const Cluster &cluster, SearchProblem &problem);

} // namespace tandem::cost

#endif // TANDEM_COST_CLUSTER_H
