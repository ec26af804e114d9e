//===- Cluster.cpp - reading cluster files --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterMeasured.h"
#include "ClusterText.h"
#include "Laptop.h"
#include "tandem/Support/TextFile.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>

using namespace tandem::cost;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

namespace {
using Names = std::initializer_list<const char *>;

/// Understands a tree. The first error stays; after it values mean nothing.
class Reader {
public:
  explicit Reader(std::string &error) : error(error) {}

  std::optional<Cluster> read(const TextNode &root);

private:
  void fail(const std::string &place, const std::string &found,
            const std::string &expected) {
    if (error.empty())
      error = place + ": found " + found + ", expected " + expected;
  }

  bool isMapping(const TextNode &node, const char *expected);
  bool isSequence(const TextNode &node, const char *expected);
  void checkKeys(const TextNode &node, Names names);
  const TextNode *require(const TextNode &node, const char *key,
                          const std::string &expected);
  std::string getWord(const TextNode &node, const char *key,
                      const char *expected);
  unsigned getChoice(const TextNode &node, const char *key, Names names,
                     int fallback);
  double convert(const TextNode &node, Quantity quantity, bool mayBeZero);
  double get(const TextNode &node, const char *key, Quantity quantity,
             bool mayBeZero = false);
  double getOr(const TextNode &node, const char *key, Quantity quantity,
               double fallback, bool mayBeZero = false);

  void readKinds(const TextNode &node);
  void readKind(const TextNode &node, DeviceKind &kind);
  void readMemory(const TextNode &node, DeviceKind &kind);
  void readRate(const TextNode &node, ComputeRate &rate);
  void readEfficiency(const TextNode &node, ComputeRate &rate);
  void readNodes(const TextNode &node);
  void readNodeGroup(const TextNode &node);
  std::optional<Link> readLink(const TextNode &links, const char *level);
  int64_t readSharers(const TextNode &node);
  std::optional<HostLink> readHostLink(const TextNode &links);
  void checkLinks(const std::string &place);
  void readLinks(const TextNode &root);
  void readInterference(const TextNode &node);
  void readMeasured(const TextNode &node);
  void readMeasuredOperator(const TextNode &node);
  void readMeasuredCollective(const TextNode &node);
  std::vector<int64_t> readShape(const TextNode &node);
  void checkType(const std::string &place, const std::string &type);

  std::string &error;
  Cluster cluster;
  /// Of each measured time.
  std::vector<std::string> groupPlaces;
  std::vector<std::string> operatorPlaces, collectivePlaces;
};
} // namespace

static std::string describe(const TextNode &node) {
  if (node.kind == TextNode::Kind::Mapping)
    return "keys and values";
  if (node.kind == TextNode::Kind::Sequence)
    return "a list";
  if (node.scalar.empty())
    return "nothing";
  // A text that is no YAML is one value.
  constexpr size_t kShown = 60;
  bool isLong = node.scalar.size() > kShown;
  return "'" + node.scalar.substr(0, kShown) + (isLong ? "...'" : "'");
}

static bool isEmpty(const TextNode &node) {
  return node.items.empty() && node.scalar.empty();
}

static std::string join(Names names) {
  std::string text;
  for (const char *name : names)
    text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

bool Reader::isMapping(const TextNode &node, const char *expected) {
  if (node.kind != TextNode::Kind::Mapping || node.items.empty())
    fail(node.place, describe(node), expected);
  return error.empty();
}

bool Reader::isSequence(const TextNode &node, const char *expected) {
  if (node.kind != TextNode::Kind::Sequence || node.items.empty())
    fail(node.place, describe(node), expected);
  return error.empty();
}

void Reader::checkKeys(const TextNode &node, Names names) {
  for (size_t i = 0; i < node.keys.size(); ++i)
    if (std::find(names.begin(), names.end(), node.keys[i]) == names.end())
      fail(node.keyPlaces[i], "unknown key '" + node.keys[i] + "'",
           "one of " + join(names));
}

const TextNode *Reader::require(const TextNode &node, const char *key,
                                const std::string &expected) {
  const TextNode *item = node.find(key);
  if (!item)
    fail(node.place, "no '" + std::string(key) + "'", expected);
  return item;
}

std::string Reader::getWord(const TextNode &node, const char *key,
                            const char *expected) {
  const TextNode *item = require(node, key, expected);
  if (!item)
    return "";
  if (item->kind != TextNode::Kind::Scalar || item->scalar.empty())
    fail(item->place, describe(*item), expected);
  return item->scalar;
}

/// Index of the word among the names; `fallback` without the key, unless it is
/// negative.
unsigned Reader::getChoice(const TextNode &node, const char *key, Names names,
                           int fallback) {
  std::string expected = "one of " + join(names);
  if (fallback >= 0 && !node.find(key))
    return fallback;
  const TextNode *item = require(node, key, expected);
  if (!item)
    return 0;
  auto found = std::find(names.begin(), names.end(), item->scalar);
  if (item->kind != TextNode::Kind::Scalar || found == names.end()) {
    fail(item->place, describe(*item), expected);
    return 0;
  }
  return found - names.begin();
}

double Reader::convert(const TextNode &node, Quantity quantity,
                       bool mayBeZero) {
  std::string found = describe(node);
  if (node.kind == TextNode::Kind::Scalar)
    if (auto value = parseQuantity(node.scalar, quantity, mayBeZero, found))
      return *value;
  fail(node.place, found, tandem::cost::describe(quantity, mayBeZero));
  return 1;
}

double Reader::get(const TextNode &node, const char *key, Quantity quantity,
                   bool mayBeZero) {
  const TextNode *item =
      require(node, key, tandem::cost::describe(quantity, mayBeZero));
  return item ? convert(*item, quantity, mayBeZero) : 1;
}

double Reader::getOr(const TextNode &node, const char *key, Quantity quantity,
                     double fallback, bool mayBeZero) {
  const TextNode *item = node.find(key);
  return item ? convert(*item, quantity, mayBeZero) : fallback;
}

/// A type that no operator has would be priced, and never used.
void Reader::checkType(const std::string &place, const std::string &type) {
  static constexpr Names types = {"f64",  "f32",      "tf32",   "f16",
                                  "bf16", "f8E4M3FN", "f8E5M2", "i64",
                                  "i32",  "i16",      "i8",     "i1"};
  if (std::find(types.begin(), types.end(), type) == types.end())
    fail(place, "type '" + type + "'", "one of " + join(types));
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

void Reader::readEfficiency(const TextNode &node, ComputeRate &rate) {
  if (node.kind == TextNode::Kind::Scalar) {
    rate.efficiency = {{1, convert(node, Quantity::Share, false)}};
    return;
  }
  if (!isMapping(node, "a share, or shares by work such as {1 MFLOP: 0.2}"))
    return;
  for (size_t i = 0; i < node.items.size(); ++i) {
    TextNode key(node.keyPlaces[i], node.keys[i]);
    double flops = convert(key, Quantity::Flops, false);
    if (!rate.efficiency.empty() && flops <= rate.efficiency.back().first)
      fail(key.place, "'" + key.scalar + "'",
           "more work than the entry before");
    rate.efficiency.push_back(
        {flops, convert(node.items[i], Quantity::Share, false)});
  }
}

void Reader::readRate(const TextNode &node, ComputeRate &rate) {
  if (node.kind == TextNode::Kind::Scalar) {
    rate.peak = convert(node, Quantity::Rate, false);
    return;
  }
  if (!isMapping(node, "a rate such as '125 TFLOP/s', or 'peak' and "
                       "'efficiency'"))
    return;
  checkKeys(node, {"peak", "efficiency"});
  rate.peak = get(node, "peak", Quantity::Rate);
  if (const TextNode *efficiency = node.find("efficiency"))
    readEfficiency(*efficiency, rate);
}

void Reader::readMemory(const TextNode &node, DeviceKind &kind) {
  if (!isMapping(node, "'size' and 'bandwidth'"))
    return;
  checkKeys(node, {"size", "bandwidth", "reserved"});
  kind.memorySize = std::llround(get(node, "size", Quantity::Bytes));
  kind.memoryBandwidth = get(node, "bandwidth", Quantity::Bandwidth);
  kind.memoryReserved =
      std::llround(getOr(node, "reserved", Quantity::Bytes, 0, true));
  if (kind.memoryReserved >= kind.memorySize)
    fail(node.place, "all of the memory reserved", "'reserved' below 'size'");
}

void Reader::readKind(const TextNode &node, DeviceKind &kind) {
  if (!isMapping(node, "'rates', 'memory' and 'overhead'"))
    return;
  checkKeys(node, {"rates", "memory", "overhead", "price"});
  kind.overhead = get(node, "overhead", Quantity::Time, true);
  kind.price = getOr(node, "price", Quantity::Price, 0);
  if (const TextNode *memory = require(node, "memory", "'size', 'bandwidth'"))
    readMemory(*memory, kind);
  const char *expected = "a rate per data type, such as {f32: 15.7 TFLOP/s}";
  const TextNode *rates = require(node, "rates", expected);
  if (!rates || !isMapping(*rates, expected))
    return;
  bool hasType = false;
  for (size_t i = 0; i < rates->items.size(); ++i) {
    auto &[type, rate] = kind.rates.emplace_back();
    type = rates->keys[i];
    bool isOfType = type != kAttentionRate && type != kFusedRate;
    hasType |= isOfType;
    if (isOfType)
      checkType(rates->keyPlaces[i], type);
    readRate(rates->items[i], rate);
  }
  if (!hasType)
    fail(rates->place, "no rate of a data type", expected);
}

void Reader::readKinds(const TextNode &node) {
  if (!isMapping(node, "a kind of device by name"))
    return;
  for (size_t i = 0; i < node.items.size(); ++i) {
    DeviceKind &kind = cluster.kinds.emplace_back();
    kind.name = node.keys[i];
    readKind(node.items[i], kind);
  }
}

void Reader::readNodeGroup(const TextNode &node) {
  if (!isMapping(node, "'count' and 'devices'"))
    return;
  checkKeys(node, {"count", "devices", "link"});
  NodeGroup &group = cluster.nodes.emplace_back();
  groupPlaces.push_back(node.place);
  if (const TextNode *links = node.find("link");
      links && isMapping(*links, "'node' and 'network'")) {
    checkKeys(*links, {"node", "network"});
    group.node = readLink(*links, "node");
    group.network = readLink(*links, "network");
  }
  group.count = static_cast<int64_t>(get(node, "count", Quantity::Count));
  const char *expected = "a number per kind, such as {V100: 8}";
  const TextNode *devices = require(node, "devices", expected);
  if (!devices || !isMapping(*devices, expected))
    return;
  for (size_t i = 0; i < devices->items.size(); ++i) {
    unsigned kind = 0;
    while (kind < cluster.kinds.size() &&
           cluster.kinds[kind].name != devices->keys[i])
      ++kind;
    if (kind == cluster.kinds.size()) {
      fail(devices->keyPlaces[i], "kind '" + devices->keys[i] + "'",
           "one that stands under 'kinds'");
      continue;
    }
    double count = convert(devices->items[i], Quantity::Count, false);
    group.devices.push_back({kind, static_cast<int64_t>(count)});
  }
}

void Reader::readNodes(const TextNode &node) {
  if (!isSequence(node, "a list of 'count' and 'devices'"))
    return;
  for (const TextNode &item : node.items)
    readNodeGroup(item);
  // More would only be a slip of the keyboard, and no sum may overflow.
  constexpr double mostDevices = 1 << 20;
  double devices = 0;
  for (const NodeGroup &group : cluster.nodes)
    for (auto [kind, count] : group.devices)
      devices += static_cast<double>(group.count) * static_cast<double>(count);
  if (devices > mostDevices)
    fail(node.place, printQuantity(devices, Quantity::Count) + " devices",
         "at most " + printQuantity(mostDevices, Quantity::Count));
}

//===----------------------------------------------------------------------===//
// Links
//===----------------------------------------------------------------------===//

std::optional<Link> Reader::readLink(const TextNode &links, const char *level) {
  const TextNode *node = links.find(level);
  if (!node || !isMapping(*node, "'latency', 'bandwidth' and 'per'"))
    return std::nullopt;
  checkKeys(*node, {"latency", "bandwidth", "per", "queue"});
  Link link;
  link.latency = get(*node, "latency", Quantity::Time, true);
  link.bandwidth = get(*node, "bandwidth", Quantity::Bandwidth);
  link.isPerDevice = getChoice(*node, "per", {"node", "device"}, -1) == 1;
  link.queue = getChoice(*node, "queue", {"0", "1", "2", "3"}, 0);
  return link;
}

/// How many devices share a link to the host; 0: all of a node.
int64_t Reader::readSharers(const TextNode &node) {
  const char *expected =
      "'device', 'node' or how many devices share it, such as 2";
  const TextNode *per = require(node, "per", expected);
  if (!per || per->scalar == "device")
    return 1;
  if (per->scalar == "node")
    return 0;
  std::string found = describe(*per);
  if (per->kind == TextNode::Kind::Scalar)
    if (auto count = parseQuantity(per->scalar, Quantity::Count, false, found))
      return static_cast<int64_t>(*count);
  fail(per->place, found, expected);
  return 1;
}

/// Each direction has a queue, and may have a bandwidth.
std::optional<HostLink> Reader::readHostLink(const TextNode &links) {
  const TextNode *node = links.find("host");
  if (!node || !isMapping(*node, "'latency', 'bandwidth' and 'per'"))
    return std::nullopt;
  checkKeys(*node, {"latency", "bandwidth", "per"});
  HostLink link;
  link.latency = get(*node, "latency", Quantity::Time, true);
  const TextNode *both = node->find("bandwidth");
  if (both && both->kind == TextNode::Kind::Mapping) {
    checkKeys(*both, {"to", "from"});
    link.toHost = get(*both, "to", Quantity::Bandwidth);
    link.fromHost = get(*both, "from", Quantity::Bandwidth);
  } else {
    link.toHost = link.fromHost = get(*node, "bandwidth", Quantity::Bandwidth);
  }
  link.sharers = readSharers(*node);
  return link;
}

void Reader::readLinks(const TextNode &root) {
  const TextNode *links = root.find("link");
  if (links && !isEmpty(*links) && isMapping(*links, "'node' and 'network'")) {
    checkKeys(*links, {"node", "network", "host"});
    cluster.node = readLink(*links, "node");
    cluster.network = readLink(*links, "network");
    cluster.host = readHostLink(*links);
  }
  checkLinks(links ? links->place : root.place);
}

/// All nodes have the links that they need, their own or those of all.
void Reader::checkLinks(const std::string &place) {
  int64_t numNodes = 0;
  bool someOwn = false;
  for (const NodeGroup &group : cluster.nodes) {
    numNodes += group.count;
    someOwn |= group.node || group.network;
  }
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    const NodeGroup &group = cluster.nodes[i];
    bool hasNeighbours = group.devices.size() > 1 || group.devices.empty() ||
                         group.devices[0].second > 1;
    const char *missing = hasNeighbours && !cluster.node && !group.node ? "node"
                          : numNodes > 1 && !cluster.network && !group.network
                              ? "network"
                              : nullptr;
    if (!missing)
      continue;
    if (someOwn && !group.devices.empty())
      return fail(groupPlaces[i],
                  "nodes of kind '" +
                      cluster.kinds[group.devices[0].first].name +
                      "' that no link '" + missing + "' reaches",
                  "one under their 'link', or under that of all nodes");
    return fail(place, std::string("no link '") + missing + "'",
                hasNeighbours && !cluster.node && !group.node
                    ? "one, as nodes have several devices"
                    : "one, as there are several nodes");
  }
}

void Reader::readInterference(const TextNode &node) {
  if (!isMapping(node, "'computation', 'collective' or 'copy'"))
    return;
  checkKeys(node, {"computation", "collective", "copy"});
  cluster.computeSlowdown = getOr(node, "computation", Quantity::Factor, 1);
  cluster.collectiveSlowdown = getOr(node, "collective", Quantity::Factor, 1);
  cluster.copySlowdown = getOr(node, "copy", Quantity::Factor, 1);
}

//===----------------------------------------------------------------------===//
// Measured times
//===----------------------------------------------------------------------===//

/// `128x64`.
std::vector<int64_t> Reader::readShape(const TextNode &node) {
  std::vector<int64_t> shape;
  const char *at = node.scalar.data(), *end = at + node.scalar.size();
  while (true) {
    int64_t size = 0;
    auto [next, code] = std::from_chars(at, end, size);
    if (code != std::errc() || size <= 0 || (next != end && *next != 'x'))
      break;
    shape.push_back(size);
    if (next == end)
      return shape;
    at = next + 1;
  }
  fail(node.place, describe(node), "a shape, such as 128x64");
  return {};
}

void Reader::readMeasuredOperator(const TextNode &node) {
  if (!isMapping(node, "'operator', 'type', 'shape' and 'time'"))
    return;
  checkKeys(node, {"operator", "type", "shape", "time"});
  MeasuredOperator measured;
  measured.op = getWord(node, "operator", "an operator, such as nn.matmul");
  measured.type = getWord(node, "type", "a data type, such as f32");
  if (const TextNode *shape = require(node, "shape", "a shape, such as 128x64"))
    measured.shape = readShape(*shape);
  measured.seconds = get(node, "time", Quantity::Time);
  // Others are parts of fused kernels, which have no time of their own.
  if (measured.op != "nn.matmul")
    fail(node.place, "operator '" + measured.op + "'",
         "nn.matmul: times of other operators are not used");
  checkType(node.place, measured.type);
  if (size_t size = measured.shape.size(); size != 3 && size != 4)
    fail(node.place, std::to_string(size) + " sizes of nn.matmul",
         "its batch, if it has one, m, n and k, such as 128x64x32");
  operatorPlaces.push_back(node.place);
  cluster.operators.push_back(std::move(measured));
}

/// In the order of `Change`.
constexpr Names kCollectiveNames = {"all-gather", "reduce-scatter",
                                    "all-reduce", "all-to-all"};

void Reader::readMeasuredCollective(const TextNode &node) {
  if (!isMapping(node, "'collective', 'link', 'ranks', 'bytes' and 'time'"))
    return;
  checkKeys(node, {"collective", "link", "ranks", "bytes", "time"});
  MeasuredCollective measured;
  measured.kind =
      static_cast<Change>(getChoice(node, "collective", kCollectiveNames, -1));
  measured.isNetwork = getChoice(node, "link", {"node", "network"}, -1) == 1;
  measured.ranks = static_cast<int64_t>(get(node, "ranks", Quantity::Count));
  if (measured.ranks == 1)
    fail(node.place, "a collective of 1 rank",
         "at least 2, as one alone does not communicate");
  measured.bytes = std::llround(get(node, "bytes", Quantity::Bytes));
  measured.seconds = get(node, "time", Quantity::Time);
  auto hasLink = [&](const NodeGroup &group) {
    return (measured.isNetwork ? group.network : group.node).has_value();
  };
  if (!(measured.isNetwork ? cluster.network : cluster.node) &&
      std::none_of(cluster.nodes.begin(), cluster.nodes.end(), hasLink))
    fail(node.place,
         std::string("link '") + (measured.isNetwork ? "network" : "node") +
             "'",
         "one that stands under 'link'");
  collectivePlaces.push_back(node.place);
  cluster.collectives.push_back(measured);
}

void Reader::readMeasured(const TextNode &node) {
  if (!isMapping(node, "'operators' or 'collectives'"))
    return;
  checkKeys(node, {"operators", "collectives"});
  const TextNode *operators = node.find("operators");
  if (operators && isSequence(*operators, "a list of measured operators"))
    for (const TextNode &item : operators->items)
      readMeasuredOperator(item);
  const TextNode *collectives = node.find("collectives");
  if (collectives && isSequence(*collectives, "a list of measured collectives"))
    for (const TextNode &item : collectives->items)
      readMeasuredCollective(item);
  if (error.empty())
    error = findContradiction(cluster, operatorPlaces, collectivePlaces);
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

std::optional<Cluster> Reader::read(const TextNode &root) {
  if (!isMapping(root, "a cluster: 'name', 'kinds', 'nodes', 'link'"))
    return std::nullopt;
  checkKeys(root, {"name", "machine", "kinds", "nodes", "link", "interference",
                   "piece", "measured"});
  cluster.name = getWord(root, "name", "the cluster's name");
  if (root.find("machine"))
    cluster.machine = getWord(root, "machine", "a machine's name");
  if (const TextNode *kinds = require(root, "kinds", "kinds of devices"))
    readKinds(*kinds);
  if (const TextNode *nodes = require(root, "nodes", "a list of nodes"))
    readNodes(*nodes);
  readLinks(root);
  if (const TextNode *interference = root.find("interference"))
    readInterference(*interference);
  cluster.pieceLatency = getOr(root, "piece", Quantity::Time, 0, true);
  if (const TextNode *measured = root.find("measured"))
    readMeasured(*measured);
  if (!error.empty())
    return std::nullopt;
  return std::move(cluster);
}

std::optional<Cluster>
tandem::cost::parseCluster(std::string_view text, std::string_view name,
                           std::string &error,
                           std::span<const std::string> overrides) {
  std::optional<TextNode> root = parseTree(text, name, error);
  if (!root)
    return std::nullopt;
  for (const std::string &text : overrides)
    if (!applyOverride(*root, text, error))
      return std::nullopt;
  return Reader(error).read(*root);
}

std::optional<Cluster>
tandem::cost::readCluster(const std::string &path, std::string &error,
                          std::span<const std::string> overrides) {
  // A file of ten thousand measured products is smaller.
  constexpr size_t kMaxBytes = size_t(1) << 24;
  std::string why;
  std::optional<std::string> text = readTextFile(path, why, kMaxBytes);
  if (text && !text->empty())
    return parseCluster(*text, path, error, overrides);
  error = path + ": " + (text ? "found an empty file" : why) +
          ", expected a cluster, such as examples/clusters/laptop.yaml";
  return std::nullopt;
}

std::optional<Cluster> tandem::cost::getCluster(const std::string &path,
                                                int64_t numDevices,
                                                std::string &error) {
  if (!path.empty())
    return readCluster(path, error);
  auto laptop = parseCluster(kLaptop, "laptop.yaml", error);
  if (laptop)
    laptop->nodes = {{1, {{0, numDevices}}}};
  return laptop;
}
