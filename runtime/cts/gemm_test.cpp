//===- gemm_test.cpp - matrix products, against three loops ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/cache_folder.h"
#include "cts/narrowed.h"
#include "cts/support.h"
#ifdef TANDEM_CPU
#include "cpu/product_ways.h"
#endif

#include <cmath>
#include <fstream>

namespace tandem::rt::cts {
namespace {

/// Where an element of a batch of matrices lies.
int64_t offsetOf(const Shape &strides, const Shape &point, int64_t row,
                 int64_t column) {
  int64_t at = strides[point.size()] * row + strides[point.size() + 1] * column;
  for (size_t dim = 0; dim < point.size(); ++dim)
    at += strides[dim] * point[dim];
  return at;
}

double activation(PostOp op, double x) {
  if (op == PostOp::GeluErf)
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  if (op == PostOp::GeluTanh)
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return op == PostOp::Relu ? std::max(x, 0.0) : x;
}

std::vector<double> reference(const Gemm &g, const std::vector<double> &a,
                              const std::vector<double> &b,
                              std::vector<double> c,
                              const std::vector<double> &bias) {
  for (int64_t i = 0; i < numElements(g.batch); ++i) {
    Shape point(g.batch.size());
    int64_t rest = i;
    for (size_t dim = point.size(); dim-- > 0; rest /= g.batch[dim])
      point[dim] = rest % g.batch[dim];
    for (int64_t m = 0; m < g.m; ++m)
      for (int64_t n = 0; n < g.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < g.k; ++k)
          sum += a[size_t(offsetOf(g.stridesA, point, m, k))] *
                 b[size_t(offsetOf(g.stridesB, point, k, n))];
        double &out = c[size_t(offsetOf(g.stridesC, point, m, n))];
        out = activation(g.postOp, g.alpha * sum + (g.accumulate ? out : 0) +
                                       (g.bias ? bias[size_t(n)] : 0));
      }
  }
  return c;
}

/// Elements that an operand spans.
int64_t spanOf(const Gemm &g, const Shape &strides, int64_t rows,
               int64_t columns) {
  int64_t last = strides[g.batch.size()] * (rows - 1) +
                 strides[g.batch.size() + 1] * (columns - 1);
  for (size_t dim = 0; dim < g.batch.size(); ++dim)
    last += strides[dim] * (g.batch[dim] - 1);
  return last + 1;
}

/// Runs a Gemm as a Program, twice, and compares every element that it spans,
/// those between the strides too, which must stay as they were.
void check(Gemm g) {
  int64_t sizeA = spanOf(g, g.stridesA, g.m, g.k);
  int64_t sizeB = spanOf(g, g.stridesB, g.k, g.n);
  int64_t sizeC = spanOf(g, g.stridesC, g.m, g.n);
  Tensor a = encode(g.inputType, randomValues<double>(sizeA, 1));
  Tensor b = encode(g.inputType, randomValues<double>(sizeB, 2));
  Tensor c = encode(g.outputType, randomValues<double>(sizeC, 3));
  Tensor bias = encode(g.outputType, randomValues<double>(g.n, 4));

  ProgramBuilder p({});
  auto add = [&](const char *name, const Tensor &value) {
    return p.addArgument(
        {"parameter", name, value.type, value.shape, {}, {}, -1, {}});
  };
  g.a = p.argument(add("a", a));
  g.b = p.argument(add("b", b));
  uint32_t out = add("c", c);
  p.addUpdate(out);
  g.c = p.argument(out);
  BufferRef biasRef = p.argument(add("bias", bias));
  if (g.bias)
    g.bias = biasRef;
  p.add({.name = "gemm"}, g);
  auto session = startTwin(p);
  ASSERT_TRUE(session);
  set(*session, "parameter", "a", a);
  set(*session, "parameter", "b", b);
  set(*session, "parameter", "bias", bias);

  std::vector<double> expected =
      reference(g, decode(a), decode(b), decode(c), decode(bias));
  double tolerance = g.outputType == ElementType::F64 ? 1e-13
                     : g.outputType == ElementType::F32
                         ? (hasTf32() ? 1e-3 : 1e-5)
                         : 8e-3;
  for (int round = 0; round < 2; ++round) {
    set(*session, "parameter", "c", c);
    EXPECT_OK(session->step());
    auto found = decode(argument(*session, "parameter", "c"));
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i],
                  tolerance * (std::sqrt(double(g.k)) + 1))
          << "element " << i << " in round " << round;
  }
}

class GemmTest : public testing::TestWithParam<GemmTypes> {
protected:
  Gemm gemm(int64_t m, int64_t n, int64_t k, Shape batch = {}) {
    Gemm g = contiguousGemm(GetParam().first, m, n, k, std::move(batch));
    g.outputType = GetParam().second;
    return g;
  }
  Watchdog watchdog{120};
};

TEST_P(GemmTest, Contiguous) {
  check(gemm(7, 5, 3));
  check(gemm(64, 48, 100));
  check(gemm(1, 1, 1));
  check(gemm(1, 33, 17));
  check(gemm(33, 1, 17));
  check(gemm(33, 17, 1));
}

TEST_P(GemmTest, Transposed) {
  for (int which = 0; which < 8; ++which) {
    Gemm g = gemm(9, 6, 12);
    if (which & 1)
      g.stridesA = {1, 9};
    if (which & 2)
      g.stridesB = {1, 12};
    if (which & 4)
      g.stridesC = {1, 9};
    check(g);
  }
}

TEST_P(GemmTest, NoUnitStride) {
  Gemm g = gemm(9, 6, 12);
  g.stridesA = {36, 3}, g.stridesB = {14, 2}, g.stridesC = {40, 5};
  check(g);
  g.accumulate = true;
  check(g);
}

TEST_P(GemmTest, PaddedRows) {
  Gemm g = gemm(9, 6, 12);
  g.stridesA = {20, 1}, g.stridesB = {11, 1}, g.stridesC = {7, 1};
  check(g);
}

TEST_P(GemmTest, Batches) {
  check(gemm(5, 6, 7, {3}));
  check(gemm(5, 6, 7, {2, 3}));
  check(gemm(5, 6, 7, {1, 3, 1}));
}

/// Heads within rows, as attention has them: [batch, sequence, head, width].
TEST_P(GemmTest, HeadsWithinRows) {
  int64_t B = 2, H = 3, S = 8, D = 4;
  Gemm scores = gemm(S, S, D, {B, H});
  scores.stridesA = {S * H * D, D, H * D, 1};
  scores.stridesB = {S * H * D, D, 1, H * D};
  check(scores);
  Gemm values = gemm(S, D, S, {B, H});
  values.stridesB = {S * H * D, D, H * D, 1};
  values.stridesC = {S * H * D, D, H * D, 1};
  check(values);
  values.stridesA = {H * S * S, S * S, 1, S};
  check(values);
}

TEST_P(GemmTest, Broadcasts) {
  Gemm g = gemm(5, 6, 7, {2, 3});
  g.stridesB = {0, 0, 6, 1};
  check(g);
  g.stridesB = {42, 0, 6, 1};
  check(g);
  g = gemm(5, 6, 7, {2, 3});
  g.stridesA = {0, 35, 7, 1};
  check(g);
}

/// A batch that repeats one product, as a state does that is the same for all
/// samples.
TEST_P(GemmTest, BroadcastsBoth) {
  Gemm g = gemm(1, 36, 12, {8});
  g.stridesA = {0, 12, 1};
  g.stridesB = {0, 1, 12};
  check(g);
  g = gemm(12, 1, 1, {12});
  g.stridesA = {0, 1, 12};
  g.stridesB = {0, 1, 1};
  check(g);
  g = gemm(5, 6, 7, {2, 3});
  g.stridesA = {35, 0, 7, 1};
  g.stridesB = {0, 0, 6, 1};
  check(g);
}

TEST_P(GemmTest, ScaledBiasedAccumulatedActivated) {
  for (PostOp op :
       {PostOp::None, PostOp::GeluErf, PostOp::GeluTanh, PostOp::Relu})
    for (int which = 0; which < 8; ++which) {
      Gemm g = gemm(16, 10, 8, {2});
      g.alpha = which & 1 ? 0.5 : 1.0;
      g.accumulate = which & 2;
      if (which & 4)
        g.bias = BufferRef();
      g.postOp = op;
      check(g);
    }
}

/// Where factors have 10 bits, 1 + 2^-12 is 1; it is what is asked of the tests
/// whose tolerance is that of such factors.
TEST(Gemm, FactorsOfTf32HaveTenBits) {
  if (!hasTf32())
    GTEST_SKIP() << "TANDEM_TF32 is not set";
  ProgramBuilder p({});
  Gemm g = contiguousGemm(ElementType::F32, 4, 4, 1, {});
  g.a = g.b = p.argument(
      p.addArgument({"parameter", "a", ElementType::F32, {4}, {}, {}, -1, {}}));
  g.c = p.result(
      p.addResult({"output", "c", ElementType::F32, {4, 4}, {}, {}, {}}));
  p.add({.name = "gemm"}, g);
  auto session = start(p);
  ASSERT_TRUE(session);
  set(*session, "parameter", "a",
      tensorOf<float>({4}, std::vector<float>(4, 1 + 0x1p-12f)));
  EXPECT_OK(session->step({}));
  for (float value : valuesOf<float>(result(*session, "output", "c")))
    EXPECT_EQ(value, 1);
}

/// What comes behind the product knows the strides of the output, too.
TEST_P(GemmTest, BiasedAndActivatedBetweenStrides) {
  for (Shape strides : {Shape{16, 1}, Shape{1, 9}, Shape{40, 5}})
    for (bool accumulate : {false, true}) {
      Gemm g = gemm(9, 6, 12);
      g.stridesC = strides;
      g.accumulate = accumulate;
      g.bias = BufferRef();
      g.postOp = PostOp::GeluErf;
      check(g);
    }
  Gemm heads = gemm(8, 4, 8, {2, 3});
  heads.stridesC = {96, 4, 12, 1};
  heads.bias = BufferRef();
  check(heads);
}

#ifdef TANDEM_CPU
/// Every way that may be kept, for a product that is large enough.
TEST_P(GemmTest, WaysThatAreKept) {
  for (size_t way = 0; way < cpu::kNumProductWays; ++way) {
    CacheFolder folder;
    Gemm g = gemm(128, 256, 256);
    if (way & 1)
      g.stridesA = {1, 128};
    if (way & 2)
      g.stridesB = {1, 260};
    g.accumulate = way & 1;
    if (way & 2)
      g.bias = BufferRef();
    cpu::keepWay(cpu::keyOf(g, 1), cpu::ProductWay(way));
    check(g);
  }
}

TEST(ProductWays, AreMeasuredOnceAndKept) {
  CacheFolder folder;
  Gemm g = contiguousGemm(ElementType::F32, 128, 256, 256);
  std::string key = cpu::keyOf(g, 1);
  EXPECT_FALSE(cpu::findWay(key));
  check(g);
  auto kept = cpu::findWay(key);
  ASSERT_TRUE(kept);
  // Who comes later has that of the first.
  auto other = cpu::ProductWay((size_t(*kept) + 1) % cpu::kNumProductWays);
  EXPECT_EQ(cpu::keepWay(key, other), *kept);
  EXPECT_FALSE(cpu::findWay(cpu::keyOf(g, 2)));
}

TEST(ProductWays, AreKeptNowhereWhereTheFolderIsEmpty) {
  Variable folder("TANDEM_CACHE_DIR", "");
  std::string key =
      cpu::keyOf(contiguousGemm(ElementType::F32, 128, 256, 256), 1);
  EXPECT_EQ(cpu::keepWay(key, cpu::ProductWay::PackedB),
            cpu::ProductWay::PackedB);
  EXPECT_FALSE(cpu::findWay(key));
}

TEST(ProductWays, OfDamagedFilesAreNone) {
  CacheFolder folder;
  Gemm g = contiguousGemm(ElementType::F32, 128, 256, 256);
  std::string key = cpu::keyOf(g, 1);
  cpu::keepWay(key, cpu::ProductWay::PackedB);
  EXPECT_EQ(cpu::findWay(key), cpu::ProductWay::PackedB);
  for (const std::string &text : {std::string(), std::string("packed-b"),
                                  "packed-c " + key, "packed-b " + key + "0"}) {
    std::ofstream(folder.onlyFile()) << text;
    EXPECT_FALSE(cpu::findWay(key)) << text;
  }
  check(g);
  EXPECT_TRUE(cpu::findWay(key));
}
#endif // TANDEM_CPU

INSTANTIATE_TEST_SUITE_P(Types, GemmTest, allGemmTypes(), nameOfTypes);

} // namespace
} // namespace tandem::rt::cts
