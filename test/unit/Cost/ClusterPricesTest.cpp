//===- ClusterPricesTest.cpp - prices computed by hand --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Cluster.h"
#include <gtest/gtest.h>

using namespace tandem::cost;

/// A shipped cluster.
static Cluster read(const char *name, std::vector<std::string> overrides = {}) {
  std::string error;
  auto cluster = readCluster(std::string(TANDEM_CLUSTERS) + name + ".yaml",
                             error, overrides);
  EXPECT_TRUE(cluster) << error;
  return cluster.value_or(Cluster());
}

static Axis axis(const char *name, int64_t size, bool isTime = false) {
  Axis axis;
  axis.name = name;
  axis.size = size;
  axis.isTime = isTime;
  return axis;
}

static std::vector<Axis> price(const Cluster &cluster, std::vector<Axis> axes) {
  std::string error;
  EXPECT_TRUE(priceMesh(cluster, axes, error)) << error;
  return axes;
}

/// Latency and seconds per byte of one kind.
static void expectRate(const Axis &axis, Change kind, double latency,
                       double secondsPerByte) {
  const ChangeRate &rate = axis.rates[static_cast<unsigned>(kind)];
  EXPECT_NEAR(rate.latency, latency, 1e-12) << axis.name << int(kind);
  EXPECT_NEAR(rate.secondsPerByte * 1e12, secondsPerByte * 1e12,
              1e-9 * secondsPerByte * 1e12)
      << axis.name << int(kind);
}

// HiDup, section 6.1: 64 devices, 9.71 Gbit/s = 1.21375e9 B/s between machines.
TEST(ClusterPricesTest, PaperEightMachines) {
  auto axes = price(read("v100-8x8"), {axis("data", 64)});
  double w = 1.21375e9;
  // A ring enters each machine once: the published rate W N / (N - 1).
  expectRate(axes[0], Change::AllGather, 3 * 5e-6 + 3 * 30e-6, 63. / 64 / w);
  expectRate(axes[0], Change::ReduceScatter, 105e-6, 63. / 64 / w);
  expectRate(axes[0], Change::AllReduce, 210e-6, 2 * 63. / 64 / w);
  // Each of 8 devices sends 1 / 64^2 of the tensor to each of 56 others, all
  // over the machine's one link.
  expectRate(axes[0], Change::AllToAll, 30e-6, 8. * 56 / 64 / 64 / w);
}

TEST(ClusterPricesTest, PaperMeshByMachine) {
  // Between machines eight groups share each link; inside, NVLink's 200 Gbit/s.
  auto axes = price(read("v100-8x8"), {axis("data", 8), axis("model", 8)});
  double w = 1.21375e9, nvlink = 25e9;
  expectRate(axes[0], Change::AllGather, 90e-6, 7. / 8 * 8 / w);
  expectRate(axes[0], Change::AllReduce, 180e-6, 2 * 7. / 8 * 8 / w);
  expectRate(axes[0], Change::AllToAll, 30e-6, 7. / 64 * 8 / w);
  expectRate(axes[1], Change::AllGather, 15e-6, 7. / 8 / nvlink);
  expectRate(axes[1], Change::ReduceScatter, 15e-6, 7. / 8 / nvlink);
  expectRate(axes[1], Change::AllReduce, 30e-6, 2 * 7. / 8 / nvlink);
  expectRate(axes[1], Change::AllToAll, 5e-6, 7. / 64 / nvlink);
}

TEST(ClusterPricesTest, PaperOneMachine) {
  auto axes = price(read("v100-1x8"), {axis("data", 8)});
  expectRate(axes[0], Change::AllReduce, 30e-6, 2 * 7. / 8 / 25e9);
  expectRate(axes[0], Change::AllToAll, 5e-6, 7. / 64 / 25e9);
}

TEST(ClusterPricesTest, AxesThatShareMachines) {
  // 2x2x2 on two machines of four: `a` crosses with one member per machine and
  // four groups, `b` and `c` stay inside.
  Cluster cluster = read("v100-2x4", {"link.network.bandwidth=8 Gbit/s"});
  auto axes = price(cluster, {axis("a", 2), axis("b", 2), axis("c", 2)});
  expectRate(axes[0], Change::AllGather, 30e-6, 0.5 * 4 / 1e9);
  expectRate(axes[1], Change::AllGather, 5e-6, 0.5 / 25e9);
  expectRate(axes[2], Change::AllGather, 5e-6, 0.5 / 25e9);
  // An outer axis of 4: two members per machine, two groups on each link.
  axes = price(cluster, {axis("a", 4), axis("b", 2)});
  expectRate(axes[0], Change::AllGather, 5e-6 + 30e-6, 0.75 * 2 / 1e9);
  expectRate(axes[0], Change::AllToAll, 30e-6, 2. * 2 / 16 * 2 / 1e9);
}

TEST(ClusterPricesTest, OneNetworkLinkPerDevice) {
  auto axes = price(read("h100-8x8"), {axis("data", 8), axis("model", 8)});
  expectRate(axes[0], Change::AllGather, 3 * 6e-6, 7. / 8 / 50e9);
  expectRate(axes[1], Change::AllGather, 3 * 3e-6, 7. / 8 / 450e9);
  // A ring over all 64 has eight links per machine, 400 GB/s; that is still
  // slower than NVLink. In an all-to-all each device uses its own.
  axes = price(read("h100-8x8"), {axis("data", 64)});
  expectRate(axes[0], Change::AllGather, 3 * 9e-6, 63. / 64 / 400e9);
  expectRate(axes[0], Change::AllToAll, 6e-6, 56. / 64 / 64 / 50e9);
}

TEST(ClusterPricesTest, SlowerLevelDecides) {
  // A network faster than the links inside: the links inside decide.
  auto axes = price(read("v100-2x4", {"link.network.bandwidth=1 TB/s"}),
                    {axis("data", 8)});
  expectRate(axes[0], Change::AllReduce, 2 * (10e-6 + 30e-6),
             2 * 7. / 8 / 25e9);
  expectRate(axes[0], Change::AllToAll, 30e-6, 3. / 64 / 25e9);
}

TEST(ClusterPricesTest, SharedLinkInsideNode) {
  // Four threads share 20 GB/s, two groups of two as much as one of four.
  auto axes = price(read("laptop"), {axis("data", 2), axis("model", 2)});
  expectRate(axes[0], Change::AllGather, 20e-6, 0.5 * 4 / 20e9);
  expectRate(axes[1], Change::AllGather, 20e-6, 0.5 * 4 / 20e9);
  axes = price(read("laptop"), {axis("data", 4)});
  expectRate(axes[0], Change::AllGather, 40e-6, 0.75 * 4 / 20e9);
}

TEST(ClusterPricesTest, AxisOfOneIsFree) {
  auto axes = price(read("v100-1x8"), {axis("one", 1), axis("data", 8)});
  for (const ChangeRate &rate : axes[0].rates)
    EXPECT_EQ(rate, ChangeRate());
}

TEST(ClusterPricesTest, QueuesOfLevels) {
  Cluster cluster = read("v100-8x8", {"link.network.queue=1"});
  auto axes = price(cluster, {axis("a", 8), axis("b", 8), axis("t", 2, true)});
  EXPECT_EQ(axes[0].queue, 1u);
  EXPECT_EQ(axes[1].queue, 0u);
  EXPECT_EQ(axes[2].queue, 0u);
}

TEST(ClusterPricesTest, TimeAxisUsesMemory) {
  auto axes = price(read("v100-1x8"), {axis("d", 8), axis("micro", 4, true)});
  expectRate(axes[1], Change::AllGather, 5e-6, 2 / 900e9);
  expectRate(axes[1], Change::AllToAll, 5e-6, 2 / 900e9);
  expectRate(axes[1], Change::AllReduce, 5e-6, 5 / 900e9);
  expectRate(axes[1], Change::ReduceScatter, 5e-6, 5 / 900e9);
}

TEST(ClusterPricesTest, UnevenNodes) {
  // Machines of one and of three: the group of four has three members in the
  // second, which decide the all-to-all (3 x 1 pairs over its link); rings load
  // both links alike.
  std::string error;
  auto cluster = parseCluster(R"(name: uneven
kinds:
  k: {rates: {f32: 1 TFLOP/s}, memory: {size: 1 GB, bandwidth: 1 GB/s}, overhead: 0 s}
nodes:
  - {count: 1, devices: {k: 1}}
  - {count: 1, devices: {k: 3}}
link:
  node: {latency: 1 us, bandwidth: 100 GB/s, per: device}
  network: {latency: 10 us, bandwidth: 1 GB/s, per: node}
)",
                              "c.yaml", error);
  ASSERT_TRUE(cluster) << error;
  auto axes = price(*cluster, {axis("data", 4)});
  expectRate(axes[0], Change::AllGather, 2e-6 + 10e-6, 0.75 / 1e9);
  expectRate(axes[0], Change::AllToAll, 10e-6, 3. / 16 / 1e9);
}

TEST(ClusterPricesTest, CountsMustAgree) {
  std::string error;
  std::vector<Axis> axes = {axis("data", 4), axis("model", 2),
                            axis("micro", 2, true)};
  EXPECT_FALSE(priceMesh(read("v100-8x8"), axes, error));
  EXPECT_EQ(error, "mesh 'data=4,model=2': found 8 devices, expected 64, those "
                   "of cluster 'v100-8x8': choose axes whose sizes multiply "
                   "to that");
  axes = {axis("data", 16)};
  EXPECT_FALSE(priceMesh(read("v100-1x8"), axes, error));
  EXPECT_EQ(error, "mesh 'data=16': found 16 devices, expected 8, those of "
                   "cluster 'v100-1x8': choose axes whose sizes multiply to "
                   "that");
  axes = {axis("a", int64_t(1) << 40), axis("b", int64_t(1) << 40)};
  EXPECT_FALSE(priceMesh(read("v100-1x8"), axes, error));
  EXPECT_NE(error.find("found a number outside of 1 to 2^40 devices"),
            std::string::npos);
}

TEST(ClusterPricesTest, MeasuredCollectivesReplaceFormulas) {
  // Two sizes on one line of 1 ms + bytes / (1 GB/s): found exactly.
  Cluster cluster = read("v100-1x8");
  for (int64_t bytes : {1000000, 9000000})
    cluster.collectives.push_back(
        {Change::AllReduce, false, 8, bytes, 1e-3 + double(bytes) / 1e9});
  // Of another group or level: not taken.
  cluster.collectives.push_back({Change::AllGather, false, 4, 1000, 1});
  cluster.collectives.push_back({Change::AllGather, true, 8, 1000, 1});
  // A single size keeps the formula's latency of 5 us.
  cluster.collectives.push_back({Change::AllToAll, false, 8, 1000000, 105e-6});
  auto axes = price(cluster, {axis("data", 8)});
  expectRate(axes[0], Change::AllReduce, 1e-3, 1e-9);
  expectRate(axes[0], Change::AllGather, 15e-6, 7. / 8 / 25e9);
  expectRate(axes[0], Change::AllToAll, 5e-6, 100e-6 / 1e6);
}

TEST(ClusterPricesTest, MeasuredLinesAreNeverNegative) {
  Cluster cluster = read("v100-1x8");
  // Falling with size, and rising faster than in proportion.
  cluster.collectives = {{Change::AllGather, false, 8, 1000, 2e-3},
                         {Change::AllGather, false, 8, 2000, 1e-3},
                         {Change::AllToAll, false, 8, 1000, 1e-3},
                         {Change::AllToAll, false, 8, 2000, 9e-3}};
  std::vector<Axis> axes = price(cluster, {axis("d", 8)});
  for (const ChangeRate &rate : axes[0].rates) {
    EXPECT_GE(rate.latency, 0);
    EXPECT_GE(rate.secondsPerByte, 0);
    EXPECT_GT(rate.latency + rate.secondsPerByte, 0);
  }
}

TEST(ClusterPricesTest, ComputationIsARoofline) {
  Cluster cluster = read("v100-8x8");
  // 4.1448e12 FLOP take a second and one launch; 900 GB as well.
  EXPECT_NEAR(
      getComputeSeconds(cluster, "f32", 15.7e12 * 0.264, 1e9, "nn.matmul"),
      1 + 5e-6, 1e-9);
  EXPECT_NEAR(getComputeSeconds(cluster, "f32", 1e9, 900e9, "nn.matmul"),
              1 + 5e-6, 1e-9);
  EXPECT_NEAR(getComputeSeconds(cluster, "f32", 0, 0, "nn.matmul"), 5e-6,
              1e-15);
  // No rate for bf16: the lowest one, that of f64.
  EXPECT_NEAR(getComputeSeconds(cluster, "bf16", 3.9e12, 0, "nn.matmul"),
              1 + 5e-6, 1e-9);
}

TEST(ClusterPricesTest, attentionAndFusedKernelsMayHaveRates) {
  Cluster cluster = read("v100-8x8");
  auto of = [&](std::string_view op) {
    return getComputeSeconds(cluster, "f32", 1e12, 0, op) - 5e-6;
  };
  double product = of("nn.matmul");
  EXPECT_EQ(of("nn.attention"), product);
  EXPECT_EQ(of("nn.add"), product);
  cluster.kinds[0].rates.push_back({"attention", {1e12, {}}});
  cluster.kinds[0].rates.push_back({"fused", {1e11, {}}});
  EXPECT_NEAR(of("nn.attention_backward"), 1, 1e-9);
  EXPECT_NEAR(of("nn.add"), 10, 1e-9);
  EXPECT_EQ(of("nn.matmul"), product);
  EXPECT_EQ(of("nn.conv"), product);
  // A type without a rate takes the lowest one of types.
  EXPECT_NEAR(getComputeSeconds(cluster, "bf16", 3.9e12, 0, "nn.matmul"),
              1 + 5e-6, 1e-9);
}

TEST(ClusterPricesTest, EfficiencyBySize) {
  Cluster cluster = read("v100-1x8");
  cluster.kinds[0].overhead = 0;
  cluster.kinds[0].rates = {{"f32", {1e12, {{1e6, 0.2}, {1e8, 0.8}}}}};
  auto getRate = [&](double flops) {
    return flops / getComputeSeconds(cluster, "f32", flops, 0, "nn.matmul");
  };
  EXPECT_NEAR(getRate(1e3), 0.2e12, 1);
  EXPECT_NEAR(getRate(1e6), 0.2e12, 1);
  EXPECT_NEAR(getRate(1e7), 0.5e12, 1); // halfway in log FLOP
  EXPECT_NEAR(getRate(1e8), 0.8e12, 1);
  EXPECT_NEAR(getRate(1e12), 0.8e12, 1);
}

TEST(ClusterPricesTest, SlowestKindDecidesForEachOperator) {
  Cluster cluster = read("v100-1x8");
  DeviceKind other = cluster.kinds[0];
  // Half the rate, twice the bandwidth, less memory.
  other.rates = {{"f32", {2e12, {}}}};
  other.memoryBandwidth = 1800e9;
  other.memorySize = 16e9;
  other.memoryReserved = 1e9;
  cluster.kinds.push_back(other);
  EXPECT_NEAR(getComputeSeconds(cluster, "f32", 2e12, 0, "nn.matmul"), 1 + 5e-6,
              1e-9);
  EXPECT_NEAR(getComputeSeconds(cluster, "f32", 0, 900e9, "nn.matmul"),
              1 + 5e-6, 1e-9);
  SearchProblem problem;
  setLimits(cluster, problem);
  EXPECT_EQ(problem.memoryLimit, 15000000000);
}

TEST(ClusterPricesTest, MeasuredOperatorsReplaceTheRoofline) {
  Cluster cluster = read("v100-1x8");
  cluster.operators = {{"nn.matmul", "f32", {128, 64, 32}, 7e-3}};
  std::vector<int64_t> shape = {128, 64, 32}, other = {128, 64, 33};
  auto of = [&](const char *type, const char *op, auto &shape) {
    return getComputeSeconds(cluster, type, 1e6, 1e3, op, shape);
  };
  EXPECT_EQ(of("f32", "nn.matmul", shape), 7e-3);
  EXPECT_LT(of("f32", "nn.matmul", other), 1e-3);
  EXPECT_LT(of("f16", "nn.matmul", shape), 1e-3);
  EXPECT_LT(of("f32", "nn.add", shape), 1e-3);
}

/// Of the node where most devices share a link.
TEST(ClusterPricesTest, CopiesShareTheLinkToTheHost) {
  Cluster cluster = read("v100-2x4");
  cluster.host = HostLink{1e-5, 8e9, 16e9, 0};
  cluster.nodes = {{2, {{0, 1}}}, {1, {{0, 3}}}};
  auto of = [&](int64_t sharers, bool isToHost) {
    cluster.host->sharers = sharers;
    return getHostSeconds(cluster, 16e6, isToHost);
  };
  EXPECT_NEAR(of(0, true), 1e-5 + 3 * 2e-3, 1e-12);
  EXPECT_NEAR(of(0, false), 1e-5 + 3 * 1e-3, 1e-12);
  EXPECT_NEAR(of(1, true), 1e-5 + 2e-3, 1e-12);
  EXPECT_NEAR(of(2, false), 1e-5 + 2 * 1e-3, 1e-12);
  EXPECT_NEAR(of(8, false), 1e-5 + 3 * 1e-3, 1e-12);
  cluster.nodes.pop_back();
  EXPECT_NEAR(of(0, false), 1e-5 + 1e-3, 1e-12);
}

TEST(ClusterPricesTest, Limits) {
  SearchProblem problem;
  setLimits(read("v100-1x8"), problem);
  EXPECT_EQ(problem.computeSlowdown, 1.14); // table 2
  EXPECT_EQ(problem.collectiveSlowdown, 1);
  EXPECT_EQ(problem.pieceLatency, 20e-6);
  EXPECT_EQ(problem.memoryLimit, int64_t(31) << 30);
}
