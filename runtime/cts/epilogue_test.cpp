//===- epilogue_test.cpp - epilogues of products --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pre-activations and sums, on devices that have them: by the library, or
// behind its product where it refuses. The twin has the numbers; that the slope
// of GELU is one is asked of differences.
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"

#include <cmath>
#include <cstdlib>

namespace tandem::rt::cts {
namespace {

bool hasEpilogues() { return std::getenv("TANDEM_CTS_DEVICE"); }
bool isEmulated() { return std::getenv("TANDEM_CUDA_LIBRARIES"); }

class BesideGemmTest : public testing::TestWithParam<GemmTypes> {
protected:
  /// A Program of one product whose buffers are arguments of numbers.
  struct Beside {
    explicit Beside(const Gemm &gemm) : gemm(gemm), p({}) {
      this->gemm.a =
          add("a", gemm.inputType, span(gemm.stridesA, gemm.m, gemm.k));
      this->gemm.b =
          add("b", gemm.inputType, span(gemm.stridesB, gemm.k, gemm.n));
      this->gemm.c = made("c", span(gemm.stridesC, gemm.m, gemm.n));
    }
    static int64_t span(const Shape &strides, int64_t rows, int64_t columns) {
      return strides[0] * (rows - 1) + strides[1] * (columns - 1) + 1;
    }
    BufferRef add(const char *name, ElementType type, int64_t size) {
      names.push_back(name), types.push_back(type), sizes.push_back(size);
      return p.argument(
          p.addArgument({"parameter", name, type, {size}, {}, {}, -1, {}}));
    }
    BufferRef made(const char *name, int64_t size) {
      BufferRef ref = add(name, gemm.outputType, size);
      p.addUpdate(ref.index);
      return ref;
    }

    Gemm gemm;
    ProgramBuilder p;
    std::vector<const char *> names;
    std::vector<ElementType> types;
    std::vector<int64_t> sizes;
  };

  static Gemm gemm(int64_t m, int64_t n, int64_t k) {
    Gemm g = contiguousGemm(GetParam().first, m, n, k);
    g.outputType = GetParam().second;
    return g;
  }
  /// Runs it beside its twin, twice; the library alone does it if that is
  /// expected, and if its heuristics, which are the GPU's, have a way. Null,
  /// with a failure, if it does not run.
  static std::unique_ptr<TwinSession> run(Beside &beside, bool isLibrarys) {
    beside.p.add({.name = "gemm"}, beside.gemm);
    auto session = startTwin(beside.p);
    if (!session)
      return nullptr;
    for (size_t i = 0; i < beside.names.size(); ++i)
      set(*session, "parameter", beside.names[i],
          encode(beside.types[i],
                 randomValues<double>(beside.sizes[i], unsigned(i))));
    EXPECT_OK(session->step());
    EXPECT_OK(session->step());
    if (isEmulated() || !isLibrarys)
      EXPECT_EQ(session->plain().notice().empty(), isLibrarys)
          << session->plain().notice();
    return session;
  }
  static bool isWide() { return GetParam().first == ElementType::F64; }
  void SetUp() override {
    if (!hasEpilogues())
      GTEST_SKIP() << "TANDEM_CTS_DEVICE names no device that has them";
  }
  Watchdog watchdog{120};
};

/// With and without a bias, a sum and a factor; and where rows are not by
/// eights, not contiguous, or columns.
TEST_P(BesideGemmTest, KeepsPreActivations) {
  for (int which = 0; which < 8; ++which) {
    Gemm g = gemm(6, 16, 12);
    g.postOp = PostOp::GeluTanh;
    g.accumulate = which & 1;
    g.alpha = which & 2 ? 0.5 : 1;
    Beside beside(g);
    beside.gemm.preActivation = beside.made("x", 6 * 16);
    if (which & 4)
      beside.gemm.bias = beside.add("bias", g.outputType, 16);
    run(beside, !isWide());
  }
  for (Shape strides :
       {Shape{12, 1}, Shape{20, 1}, Shape{1, 6}, Shape{40, 3}}) {
    Gemm g = gemm(6, 12, 12);
    g.postOp = PostOp::GeluTanh;
    g.stridesC = strides;
    Beside beside(g);
    beside.gemm.preActivation = beside.made("x", 6 * 12);
    run(beside, false);
  }
}

TEST_P(BesideGemmTest, MultipliesByTheSlopeOfGelu) {
  for (int which = 0; which < 4; ++which) {
    Gemm g = gemm(6, 16, 12);
    g.postOp = PostOp::GeluTanhGradient;
    g.accumulate = which & 1;
    Beside beside(g);
    beside.gemm.preActivation = beside.add("x", g.outputType, 6 * 16);
    if (which & 2)
      beside.gemm.bias = beside.add("bias", g.outputType, 16);
    run(beside, !isWide() && !(which & 2));
  }
}

TEST_P(BesideGemmTest, KeepsSumsOfEitherOperand) {
  for (int which = 0; which < 24; ++which) {
    Gemm g = gemm(6, 10, 12);
    if (which & 1)
      g.stridesA = {1, 6}, g.stridesB = {1, 12};
    g.accumulate = which & 2;
    Beside beside(g);
    int operands = which / 4 % 3 + 1;
    if (operands & 1)
      beside.gemm.sumsA = beside.made("of a", 6);
    if (operands & 2)
      beside.gemm.sumsB = beside.made("of b", 10);
    if (which >= 12)
      beside.gemm.bias = beside.add("bias", g.outputType, 10);
    run(beside, !isWide() && operands != 3 && which < 12);
  }
  // By columns the library's operands change places.
  for (bool ofA : {true, false}) {
    Gemm g = gemm(6, 10, 12);
    g.stridesC = {1, 6};
    Beside beside(g);
    (ofA ? beside.gemm.sumsA : beside.gemm.sumsB) =
        beside.made("sums", ofA ? 6 : 10);
    run(beside, !isWide());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BesideGemmTest, allGemmTypes(), nameOfTypes);

/// The product is 1 at one place, which becomes the slope there.
TEST(BesideGemmTest, TheSlopeIsThatOfDifferences) {
  if (!hasEpilogues())
    GTEST_SKIP() << "TANDEM_CTS_DEVICE names no device that has them";
  std::vector<double> points;
  for (double x = -9; x <= 9; x += 0.25)
    points.push_back(x);
  auto gelu = [](double x) {
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  // cuBLASLt takes the tanh of float32 by an instruction, whose slope is right
  // to 1.3e-5 (on an H100).
  double bound = isEmulated() ? 1e-6 : 2e-5;
  for (ElementType type : {ElementType::F32, ElementType::F64}) {
    int64_t count = int64_t(points.size()) / 8 * 8;
    ProgramBuilder p({});
    auto add = [&](const char *name, int64_t size) {
      return p.argument(
          p.addArgument({"parameter", name, type, {size}, {}, {}, -1, {}}));
    };
    Gemm g = contiguousGemm(type, 1, count, 1);
    g.postOp = PostOp::GeluTanhGradient;
    g.a = add("a", 1), g.b = add("b", count);
    g.preActivation = add("x", count);
    g.c = p.result(p.addResult({"output", "c", type, {count}, {}, {}, {}}));
    p.add({.name = "gemm"}, g);
    auto session = start(p);
    ASSERT_TRUE(session);
    std::vector<double> ones(size_t(count), 1);
    std::vector<double> some(points.begin(), points.begin() + count);
    set(*session, "parameter", "a", encode(type, {1}));
    set(*session, "parameter", "b", encode(type, ones));
    set(*session, "parameter", "x", encode(type, some));
    EXPECT_OK(session->step({}));
    std::vector<double> found = decode(result(*session, "output", "c"));
    for (size_t i = 0; i < found.size(); ++i) {
      constexpr double kStep = 1e-5;
      double slope =
          (gelu(some[i] + kStep) - gelu(some[i] - kStep)) / (2 * kStep);
      EXPECT_NEAR(found[i], slope, type == ElementType::F32 ? bound : 1e-9)
          << some[i];
    }
  }
}

/// A CPU says so when the Program is loaded.
TEST(BesideGemmTest, ACpuRefusesThem) {
  if (hasEpilogues())
    GTEST_SKIP() << "it is no CPU";
  ProgramBuilder p({});
  auto add = [&](const char *name, int64_t size) {
    return p.argument(p.addArgument(
        {"parameter", name, ElementType::F32, {size}, {}, {}, -1, {}}));
  };
  Gemm g = contiguousGemm(ElementType::F32, 2, 8, 2);
  g.postOp = PostOp::GeluTanhGradient;
  g.a = add("a", 4), g.b = add("b", 16), g.preActivation = add("x", 16);
  g.c = p.result(
      p.addResult({"output", "c", ElementType::F32, {16}, {}, {}, {}}));
  p.add({.name = "gemm"}, g);
  Expected<Bytes> program = finish(p);
  ASSERT_TRUE(program.ok()) << program.status().message();
  expectError(
      Session::create(*program).status(),
      "gemm has a pre-activation or sums beside it, which a CPU has not");
}

} // namespace
} // namespace tandem::rt::cts
