//===- ClusterTest.cpp - cluster files are read, or refused ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Cluster.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace tandem::cost;

/// Two nodes of two devices; line numbers below are those of this text.
static const char *const kText = R"(name: pair
kinds:
  slow:
    rates: {f32: 2 TFLOP/s, bf16: {peak: 8 TFLOP/s, efficiency: 0.5}}
    memory: {size: 8 GiB, bandwidth: 100 GB/s, reserved: 1 GiB}
    overhead: 10 us
  fast:
    rates:
      f32:
        peak: 4 TFLOP/s
        efficiency: {1 MFLOP: 0.25, 100 MFLOP: 0.75}
    memory: {size: 16 GiB, bandwidth: 400 GB/s}
    overhead: 1 us
nodes:
  - {count: 1, devices: {slow: 2}}
  - {count: 1, devices: {slow: 1, fast: 1}}
link:
  node: {latency: 5 us, bandwidth: 80 Gbit/s, per: device}
  network: {latency: 20 us, bandwidth: 1 GB/s, per: node, queue: 1}
interference: {computation: 1.25, collective: 1.5}
piece: 30 us
measured:
  operators:
    - {operator: nn.matmul, type: f32, shape: 128x64x32, time: 7 ms}
  collectives:
    - {collective: all-to-all, link: network, ranks: 2, bytes: 1 MB, time: 3 ms}
)";

static std::optional<Cluster> parse(const std::string &text,
                                    std::vector<std::string> overrides = {}) {
  std::string error;
  auto cluster = parseCluster(text, "c.yaml", error, overrides);
  EXPECT_TRUE(cluster) << error;
  return cluster;
}

/// The text with `from` replaced by `to`, and what the reader says of it.
static std::string getError(const std::string &from, const std::string &to,
                            std::vector<std::string> overrides = {}) {
  std::string text = kText;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at == std::string::npos)
    return "";
  text.replace(at, from.size(), to);
  std::string error;
  EXPECT_FALSE(parseCluster(text, "c.yaml", error, overrides)) << to;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return error;
}

TEST(ClusterTest, ReadsEverything) {
  auto cluster = parse(kText);
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->name, "pair");
  EXPECT_EQ(cluster->getNumDevices(), 4);
  ASSERT_EQ(cluster->kinds.size(), 2u);
  const DeviceKind &slow = cluster->kinds[0], &fast = cluster->kinds[1];
  EXPECT_EQ(slow.rates[0].second.peak, 2e12);
  EXPECT_EQ(slow.rates[1].second.efficiency[0].second, 0.5);
  EXPECT_EQ(slow.memorySize, int64_t(8) << 30);
  EXPECT_EQ(slow.memoryReserved, int64_t(1) << 30);
  EXPECT_EQ(slow.memoryBandwidth, 1e11);
  EXPECT_EQ(slow.overhead, 1e-5);
  EXPECT_EQ(fast.rates[0].second.efficiency,
            (std::vector<std::pair<double, double>>{{1e6, 0.25}, {1e8, 0.75}}));
  EXPECT_EQ(cluster->nodes[1].devices,
            (std::vector<std::pair<unsigned, int64_t>>{{0, 1}, {1, 1}}));
  EXPECT_EQ(cluster->node, (Link{5e-6, 1e10, true, 0}));
  EXPECT_EQ(cluster->network, (Link{2e-5, 1e9, false, 1}));
  EXPECT_EQ(cluster->computeSlowdown, 1.25);
  EXPECT_EQ(cluster->collectiveSlowdown, 1.5);
  EXPECT_EQ(cluster->pieceLatency, 3e-5);
  EXPECT_EQ(cluster->operators[0],
            (MeasuredOperator{"nn.matmul", "f32", {128, 64, 32}, 7e-3}));
  EXPECT_EQ(cluster->collectives[0],
            (MeasuredCollective{Change::AllToAll, true, 2, 1000000, 3e-3}));
}

TEST(ClusterTest, OneDeviceNeedsNoLinks) {
  constexpr const char *text = R"(name: one
kinds:
  a:
    rates: {f32: 1 TFLOP/s}
    memory: {size: 1 GiB, bandwidth: 100 GB/s}
    overhead: 1 us
nodes:
  - {count: 1, devices: {a: 1}}
)";
  for (const char *links : {"", "link:\n", "link: {}\n"})
    EXPECT_TRUE(parse(text + std::string(links))) << links;
}

TEST(ClusterTest, PrintsAndReadsBack) {
  auto cluster = parse(kText);
  ASSERT_TRUE(cluster);
  std::string text = print(*cluster);
  EXPECT_EQ(parse(text), cluster) << text;
  EXPECT_EQ(print(*parse(text)), text);
}

/// The cluster with such a link to the host; without a line in the file.
static std::vector<std::string> withHost(const std::string &bandwidth,
                                         const std::string &per) {
  return {"link.host.latency=10 us", bandwidth, "link.host.per=" + per};
}

TEST(ClusterTest, ReadsLinksToTheHost) {
  auto read = [](const std::string &per) {
    auto cluster = parse(kText, withHost("link.host.bandwidth=16 GB/s", per));
    return cluster ? cluster->host.value_or(HostLink()) : HostLink();
  };
  EXPECT_EQ(read("device"), (HostLink{1e-5, 16e9, 16e9, 1}));
  EXPECT_EQ(read("node"), (HostLink{1e-5, 16e9, 16e9, 0}));
  EXPECT_EQ(read("2"), (HostLink{1e-5, 16e9, 16e9, 2}));
  std::string text = kText;
  text.replace(text.find("interference: {"), 15,
               "  host: {latency: 10 us, bandwidth: {to: 8 GB/s, from: 12 "
               "GB/s}, per: 2}\ninterference: {copy: 1.1, ");
  auto both = parse(text);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->host, (HostLink{1e-5, 8e9, 12e9, 2}));
  EXPECT_EQ(both->copySlowdown, 1.1);
  EXPECT_EQ(parse(kText)->copySlowdown, 1);
  for (const char *per : {"2", "node", "device"}) {
    both->host->sharers = *per == '2' ? 2 : *per == 'd';
    EXPECT_EQ(parse(print(*both)), both) << print(*both);
  }
}

TEST(ClusterTest, LinksToTheHostCanBeWrong) {
  auto of = [](const std::string &bandwidth, const std::string &per) {
    return getError("pair", "pair", withHost(bandwidth, per));
  };
  std::string both = "link.host.bandwidth=16 GB/s";
  std::string expected =
      ", expected 'device', 'node' or how many devices share it, such as 2";
  for (std::string per : {"0", "1.5", "-2", "all"})
    EXPECT_EQ(of(both, per), "--set link.host.per=" + per + ": found '" + per +
                                 "'" + expected);
  EXPECT_EQ(of("link.host.bandwidth.to=8 GB/s", "2"),
            "--set link.host.bandwidth.to=8 GB/s: found no 'from', expected a "
            "bandwidth above zero, such as '9.71 Gbit/s'");
  EXPECT_EQ(of("link.host.bandwidth.up=8 GB/s", "2"),
            "--set link.host.bandwidth.up=8 GB/s: found unknown key 'up', "
            "expected one of to, from");
  EXPECT_EQ(getError("collective: 1.5", "copy: 0.5"),
            "c.yaml:20: found '0.5', expected a factor of at least 1, such as "
            "1.14");
}

TEST(ClusterTest, PrintsNamesThatNeedQuotes) {
  auto cluster = parse(kText, {"name=it's: a #1"});
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->name, "it's: a #1");
  EXPECT_EQ(parse(print(*cluster))->name, cluster->name);
}

TEST(ClusterTest, OverridesStandInPlace) {
  auto cluster = parse(kText, {"link.network.bandwidth=25 Gbit/s",
                               "nodes.0.count=3", "link.node.queue=2"});
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->network->bandwidth, 25e9 / 8);
  EXPECT_EQ(cluster->getNumDevices(), 8);
  EXPECT_EQ(cluster->node->queue, 2u);
}

TEST(ClusterTest, OverridesCanBeWrong) {
  auto of = [](const char *override) {
    return getError("pair", "pair", {override});
  };
  EXPECT_EQ(of("link.network.bandwidth=25"),
            "--set link.network.bandwidth=25: found '25' without a unit, "
            "expected a bandwidth above zero, such as '9.71 Gbit/s'");
  EXPECT_EQ(of("link.netwrk.bandwidth=25 GB/s"),
            "--set link.netwrk.bandwidth=25 GB/s: found unknown key 'netwrk', "
            "expected one of node, network, host");
  EXPECT_EQ(of("nodes.2.count=3"), "--set nodes.2.count=3: found '2', "
                                   "expected an index below 2");
  EXPECT_EQ(of("name.x=1"),
            "--set name.x=1: found 'x' below the value 'pair' of c.yaml:1, "
            "expected the path to end there");
  EXPECT_EQ(of("bandwidth"),
            "--set bandwidth: found 'bandwidth', expected KEY=VALUE, such as "
            "'link.network.bandwidth=25 Gbit/s'");
}

TEST(ClusterTest, UnknownKeys) {
  EXPECT_EQ(getError("piece:", "pieces:"),
            "c.yaml:21: found unknown key 'pieces', expected one of name, "
            "machine, kinds, nodes, link, interference, piece, measured");
  EXPECT_EQ(getError("overhead: 1 us", "overheads: 1 us"),
            "c.yaml:13: found unknown key 'overheads', expected one of rates, "
            "memory, overhead, price");
  EXPECT_EQ(getError("reserved", "kept"),
            "c.yaml:5: found unknown key 'kept', expected one of size, "
            "bandwidth, reserved");
  EXPECT_EQ(getError("peak: 4", "top: 4"),
            "c.yaml:10: found unknown key 'top', expected one of peak, "
            "efficiency");
  EXPECT_EQ(
      getError("count: 1, devices: {slow: 2}", "count: 1, device: {slow: 2}"),
      "c.yaml:15: found unknown key 'device', expected one of count, "
      "devices, link");
  EXPECT_EQ(getError("per: device", "for: device"),
            "c.yaml:18: found unknown key 'for', expected one of latency, "
            "bandwidth, per, queue");
  EXPECT_EQ(getError("collective: 1.5", "comm: 1.5"),
            "c.yaml:20: found unknown key 'comm', expected one of "
            "computation, collective, copy");
  EXPECT_EQ(getError("operators:", "ops:"),
            "c.yaml:23: found unknown key 'ops', expected one of operators, "
            "collectives");
  EXPECT_EQ(getError("shape: 128", "dims: 128"),
            "c.yaml:24: found unknown key 'dims', expected one of operator, "
            "type, shape, time");
  EXPECT_EQ(getError("ranks: 2", "size: 2"),
            "c.yaml:26: found unknown key 'size', expected one of collective, "
            "link, ranks, bytes, time");
  EXPECT_EQ(getError("piece: 30 us", "piece: 30 us\npiece: 30 us"),
            "c.yaml:22: found key 'piece' again, expected it once");
}

TEST(ClusterTest, MissingKeys) {
  EXPECT_EQ(getError("overhead: 1 us", ""),
            "c.yaml:8: found no 'overhead', expected a time of at least zero, "
            "such as '10 us'");
  EXPECT_EQ(getError("latency: 5 us, ", ""),
            "c.yaml:18: found no 'latency', expected a time of at least zero, "
            "such as '10 us'");
  EXPECT_EQ(getError(", per: device", ""),
            "c.yaml:18: found no 'per', expected one of node, device");
  EXPECT_EQ(getError("  node: {latency: 5 us, bandwidth: 80 Gbit/s, per: "
                     "device}\n",
                     ""),
            "c.yaml:18: found no link 'node', expected one, as nodes have "
            "several devices");
  EXPECT_EQ(getError("  network: {latency: 20 us, bandwidth: 1 GB/s, per: "
                     "node, queue: 1}\n",
                     ""),
            "c.yaml:18: found no link 'network', expected one, as there are "
            "several nodes");
  EXPECT_EQ(getError("  node: {latency: 5 us, bandwidth: 80 Gbit/s, per: "
                     "device}\n  network: {latency: 20 us, bandwidth: 1 GB/s, "
                     "per: node, queue: 1}\n",
                     ""),
            "c.yaml:17: found no link 'node', expected one, as nodes have "
            "several devices");
  EXPECT_EQ(getError("{count: 1, devices: {slow: 2}}", "{count: 1}"),
            "c.yaml:15: found no 'devices', expected a number per kind, such "
            "as {V100: 8}");
  EXPECT_EQ(getError("name: pair\n", ""),
            "c.yaml:1: found no 'name', expected the cluster's name");
}

TEST(ClusterTest, MissingAndWrongUnits) {
  EXPECT_EQ(getError("80 Gbit/s", "80"),
            "c.yaml:18: found '80' without a unit, expected a bandwidth above "
            "zero, such as '9.71 Gbit/s'");
  EXPECT_EQ(getError("8 GiB", "8"),
            "c.yaml:5: found '8' without a unit, expected a size above zero, "
            "such as '32 GiB'");
  EXPECT_EQ(getError("f32: 2 TFLOP/s", "f32: 2"),
            "c.yaml:4: found '2' without a unit, expected a rate of "
            "computation above zero, such as '125 TFLOP/s'");
  EXPECT_EQ(getError("30 us", "30"),
            "c.yaml:21: found '30' without a unit, expected a time of at "
            "least zero, such as '10 us'");
  EXPECT_EQ(getError("{1 MFLOP: 0.25", "{1: 0.25"),
            "c.yaml:11: found '1' without a unit, expected an amount of work "
            "above zero, such as '100 MFLOP'");
  EXPECT_EQ(getError("80 Gbit/s", "80 Gbit"),
            "c.yaml:18: found '80 Gbit', expected a bandwidth above zero, such "
            "as '9.71 Gbit/s'");
  EXPECT_EQ(getError("computation: 1.25", "computation: 1.25 x"),
            "c.yaml:20: found '1.25 x', expected a factor of at least 1, such "
            "as 1.14");
}

TEST(ClusterTest, RatesBeyondTheirRange) {
  EXPECT_EQ(getError("80 Gbit/s", "0 Gbit/s"),
            "c.yaml:18: found '0 Gbit/s', expected a bandwidth above zero, "
            "such as '9.71 Gbit/s'");
  EXPECT_EQ(getError("f32: 2 TFLOP/s", "f32: -2 TFLOP/s"),
            "c.yaml:4: found '-2 TFLOP/s', expected a rate of computation "
            "above zero, such as '125 TFLOP/s'");
  EXPECT_EQ(getError("latency: 5 us", "latency: -5 us"),
            "c.yaml:18: found '-5 us', expected a time of at least zero, such "
            "as '10 us'");
  EXPECT_EQ(getError("30 us", "inf s"),
            "c.yaml:21: found 'inf s', expected a time of at least zero, such "
            "as '10 us'");
  EXPECT_EQ(getError("30 us", "1e999 s"),
            "c.yaml:21: found '1e999 s', expected a time of at least zero, "
            "such as '10 us'");
  EXPECT_EQ(getError("efficiency: 0.5", "efficiency: 1.5"),
            "c.yaml:4: found '1.5', expected a share above 0 and at most 1, "
            "such as 0.7");
  EXPECT_EQ(getError("computation: 1.25", "computation: 0.5"),
            "c.yaml:20: found '0.5', expected a factor of at least 1, such as "
            "1.14");
  EXPECT_EQ(getError("count: 1, devices: {slow: 2}",
                     "count: 1.5, devices: {slow: 2}"),
            "c.yaml:15: found '1.5', expected a whole number above zero, such "
            "as 8");
  EXPECT_EQ(getError("count: 1, devices: {slow: 2}",
                     "count: 9999999, devices: {slow: 2}"),
            "c.yaml:15: found 20000000 devices, expected at most 1048576");
  EXPECT_EQ(getError("reserved: 1 GiB", "reserved: 8 GiB"),
            "c.yaml:5: found all of the memory reserved, expected 'reserved' "
            "below 'size'");
  EXPECT_EQ(getError("100 MFLOP: 0.75", "0.5 MFLOP: 0.75"),
            "c.yaml:11: found '0.5 MFLOP', expected more work than the entry "
            "before");
}

TEST(ClusterTest, RatesBeyondAllMachines) {
  EXPECT_EQ(getError("8 GiB", "1e30 GiB"),
            "c.yaml:5: found '1e30 GiB', which is above 1000000 TB, expected a "
            "size above zero, such as '32 GiB'");
  EXPECT_EQ(getError("80 Gbit/s", "1e-300 B/s"),
            "c.yaml:18: found '1e-300 B/s', which is below 1 B/s, expected a "
            "bandwidth above zero, such as '9.71 Gbit/s'");
  EXPECT_EQ(getError("overhead: 10 us", "overhead: 1e308 s"),
            "c.yaml:6: found '1e308 s', which is above 1000000 s, expected a "
            "time of at least zero, such as '10 us'");
  EXPECT_EQ(
      getError("f32: 2 TFLOP/s", "f32: 1e-15 TFLOP/s"),
      "c.yaml:4: found '1e-15 TFLOP/s', which is below 1 FLOP/s, expected "
      "a rate of computation above zero, such as '125 TFLOP/s'");
}

TEST(ClusterTest, MeasuredTimesOfNothing) {
  EXPECT_EQ(getError("nn.matmul", "nn.matmull"),
            "c.yaml:24: found operator 'nn.matmull', expected nn.matmul: times "
            "of other operators are not used");
  EXPECT_EQ(getError("type: f32", "type: f99").substr(0, 50),
            "c.yaml:24: found type 'f99', expected one of f64, ");
  EXPECT_EQ(getError("bf16: {peak", "b16: {peak").substr(0, 49),
            "c.yaml:4: found type 'b16', expected one of f64, ");
  EXPECT_EQ(getError("128x64x32", "128x64"),
            "c.yaml:24: found 2 sizes of nn.matmul, expected its batch, if it "
            "has one, m, n and k, such as 128x64x32");
  EXPECT_EQ(getError("ranks: 2", "ranks: 1"),
            "c.yaml:26: found a collective of 1 rank, expected at least 2, as "
            "one alone does not communicate");
}

TEST(ClusterTest, MeasuredTimesThatContradict) {
  EXPECT_EQ(getError("7 ms}", "7 ms}\n    - {operator: nn.matmul, type: f32, "
                              "shape: 128x64x32, time: 8 ms}"),
            "c.yaml:25: found nn.matmul of f32 128x64x32 again, expected it "
            "once; it stands at c.yaml:24 too");
  std::string more = "3 ms}\n    - {collective: all-to-all, link: network, "
                     "ranks: 2, bytes: ";
  EXPECT_EQ(getError("3 ms}", more + "1 MB, time: 3 ms}"),
            "c.yaml:27: found all-to-all of 2 ranks on link 'network' with 1 "
            "MB again, expected it once; it stands at c.yaml:26 too");
  EXPECT_EQ(
      getError("3 ms}", more + "2 MB, time: 1 ms}"),
      "c.yaml:27: found all-to-all of 2 ranks on link 'network' with 2 "
      "MB in 1 ms, expected more than 3 ms, which 1 MB take at c.yaml:26: "
      "by these times more bytes would cost nothing");
  EXPECT_EQ(getError("3 ms}", more + "2 MB, time: 3 ms}").substr(0, 16),
            "c.yaml:27: found");
  // Noise between two sizes of a line that rises is no contradiction.
  std::string text = kText;
  text.replace(text.find("3 ms}"), 5,
               more + "1.1 MB, time: 2.9 ms}" + more.substr(5) +
                   "9 MB, time: 20 ms}");
  EXPECT_EQ(parse(text)->collectives.size(), 3u);
}

TEST(ClusterTest, ValuesOfAnotherKind) {
  EXPECT_EQ(getError("slow: 1, fast: 1", "slow: 1, quick: 1"),
            "c.yaml:16: found kind 'quick', expected one that stands under "
            "'kinds'");
  EXPECT_EQ(getError("per: device", "per: machine"),
            "c.yaml:18: found 'machine', expected one of node, device");
  EXPECT_EQ(getError("queue: 1", "queue: 7"),
            "c.yaml:19: found '7', expected one of 0, 1, 2, 3");
  EXPECT_EQ(getError("all-to-all", "broadcast"),
            "c.yaml:26: found 'broadcast', expected one of all-gather, "
            "reduce-scatter, all-reduce, all-to-all");
  EXPECT_EQ(getError("128x64x32", "128x-4"),
            "c.yaml:24: found '128x-4', expected a shape, such as 128x64");
  EXPECT_EQ(getError("30 us", "[30 us]"),
            "c.yaml:21: found a list, expected a time of at least zero, such "
            "as '10 us'");
  EXPECT_EQ(getError("{latency: 5 us, bandwidth: 80 Gbit/s, per: device}",
                     "80 Gbit/s"),
            "c.yaml:18: found '80 Gbit/s', expected 'latency', 'bandwidth' and "
            "'per'");
  EXPECT_EQ(getError("name: pair", "name: {a: b}"),
            "c.yaml:1: found keys and values, expected the cluster's name");
  EXPECT_EQ(getError("  - {count: 1, devices: {slow: 2}}\n"
                     "  - {count: 1, devices: {slow: 1, fast: 1}}\n",
                     ""),
            "c.yaml:14: found nothing, expected a list of 'count' and "
            "'devices'");
}

TEST(ClusterTest, TextThatIsNoCluster) {
  auto of = [](const char *text) {
    std::string error;
    EXPECT_FALSE(parseCluster(text, "c.yaml", error)) << text;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    return error;
  };
  EXPECT_EQ(of("").substr(0, 9), "c.yaml:1:");
  EXPECT_EQ(of("# only a comment\n").substr(0, 7), "c.yaml:");
  EXPECT_EQ(of("a: [1, 2").substr(0, 7), "c.yaml:");
  EXPECT_EQ(of("name: x\n\t- y: }{").substr(0, 7), "c.yaml:");
  EXPECT_EQ(of("- 1\n- 2\n"),
            "c.yaml:1: found a list, expected a cluster: 'name', 'kinds', "
            "'nodes', 'link'");
  EXPECT_EQ(of("name: &a x\nkinds: *a\n"),
            "c.yaml:1: found an anchor or a tag, expected the value itself");
  for (const char *text : {"name: 'a\n\n  b'\n", "kinds:\n  \"a\\rb\": 1\n"})
    EXPECT_NE(of(text).find("found a text of several lines, expected one line"),
              std::string::npos)
        << text;
  std::string error;
  EXPECT_FALSE(readCluster("/nowhere/c.yaml", error));
  EXPECT_EQ(error, "/nowhere/c.yaml: No such file or directory, expected a "
                   "cluster, such as examples/clusters/laptop.yaml");
  std::string empty = testing::TempDir() + "empty.yaml";
  std::ofstream(empty).close();
  EXPECT_FALSE(readCluster(empty, error));
  EXPECT_EQ(error, empty + ": found an empty file, expected a cluster, such as "
                           "examples/clusters/laptop.yaml");
}

TEST(ClusterTest, CutAnywhereIsReadOrRefused) {
  std::string text = kText;
  for (size_t size = 0; size < text.size(); ++size) {
    std::string error;
    if (!parseCluster(text.substr(0, size), "c.yaml", error)) {
      EXPECT_EQ(error.substr(0, 7), "c.yaml:") << size;
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    }
  }
}

TEST(ClusterTest, ShippedExamples) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(TANDEM_CLUSTERS))
    names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "a100-16x8", "a100-4x8", "ethernet-4x1", "g4dn-4x4",
                       "h100-128x8", "h100-8x8", "laptop", "p3-g4dn",
                       "v100-1x8", "v100-2x4", "v100-8x8", "v100-8x8-100g"}));
  for (const std::string &name : names) {
    std::string error;
    auto cluster = readCluster(TANDEM_CLUSTERS + name + ".yaml", error);
    ASSERT_TRUE(cluster) << error;
    EXPECT_EQ(cluster->name, name);
    EXPECT_EQ(parse(print(*cluster)), cluster);
  }
}

TEST(ClusterTest, DocumentedExample) {
  std::stringstream text;
  text << std::ifstream(TANDEM_DOCS "clusters.md").rdbuf();
  std::string document = text.str(), fence = "```yaml\n";
  size_t begin = document.find(fence) + fence.size();
  auto cluster =
      parse(document.substr(begin, document.find("```", begin) - begin));
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->getNumDevices(), 8);
  EXPECT_EQ(cluster->collectives.size(), 1u);
}

/// Nodes with links of their own, beside those of all.
TEST(ClusterTest, ReadsLinksOfNodes) {
  std::string text = kText;
  std::string from = "{count: 1, devices: {slow: 1, fast: 1}}";
  text.replace(text.find(from), from.size(),
               "{count: 1, devices: {slow: 1, fast: 1}, link: {network: "
               "{latency: 20 us, bandwidth: 250 MB/s, per: node}}}");
  auto cluster = parse(text);
  ASSERT_TRUE(cluster);
  std::vector<NodeLinks> links = cluster->getLinks();
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].network->bandwidth, 1e9);
  EXPECT_EQ(links[1].network->bandwidth, 250e6);
  EXPECT_EQ(links[1].node->bandwidth, 1e10);
  EXPECT_EQ(parse(print(*cluster)), cluster);
  // The slowest link of a group decides.
  std::vector<Axis> axes(2);
  axes[0].size = axes[1].size = 2;
  axes[0].name = "data";
  axes[1].name = "model";
  std::string error;
  cluster->collectives.clear();
  ASSERT_TRUE(priceMesh(*cluster, axes, error)) << error;
  EXPECT_NEAR(axes[0].rates[0].secondsPerByte, 0.5 * 2 / 250e6, 1e-15);
  EXPECT_EQ(getError("{count: 1, devices: {slow: 1, fast: 1}}\nlink:\n  node: "
                     "{latency: 5 us, bandwidth: 80 Gbit/s, per: device}\n  "
                     "network: {latency: 20 us, bandwidth: 1 GB/s, per: node, "
                     "queue: 1}\n",
                     "{count: 1, devices: {slow: 1, fast: 1}, link: {node: "
                     "{latency: 1 us, bandwidth: 1 GB/s, per: node}}}\n"),
            "c.yaml:15: found nodes of kind 'slow' that no link 'node' "
            "reaches, expected one under their 'link', or under that of all "
            "nodes");
  // A kind that nobody knows has no name to say which link it lacks.
  EXPECT_EQ(getError("{count: 1, devices: {slow: 2}}\n  - {count: 1, devices: "
                     "{slow: 1, fast: 1}}\nlink:\n  node: {latency: 5 us, "
                     "bandwidth: 80 Gbit/s, per: device}\n  network: {latency: "
                     "20 us, bandwidth: 1 GB/s, per: node, queue: 1}\n",
                     "{count: 1, devices: {slwo: 2}, link: {network: {latency: "
                     "20 us, bandwidth: 250 MB/s, per: node}}}\n"),
            "c.yaml:15: found kind 'slwo', expected one that stands under "
            "'kinds'");
}
