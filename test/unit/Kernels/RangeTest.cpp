//===- RangeTest.cpp - functions of f32 over all numbers ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace tandem;
using namespace tandem::test;

namespace {
struct Function {
  const char *name;
  double (*exact)(double);
  /// The largest error, in units in the last place of the result.
  double ulps;
};

void PrintTo(const Function &function, std::ostream *os) {
  *os << function.name;
}
} // namespace

/// This many patterns of bits, the step odd: every exponent and both signs,
/// NaNs and infinities, a thousandth of all mantissas.
static constexpr int64_t kCount = 1 << 20;
static constexpr uint32_t kStep = 4093;

static Tensor makeAllNumbers(Type type) {
  Tensor tensor({kCount}, type);
  for (int64_t i = 0; i < kCount; ++i)
    tensor.setDouble(i,
                     llvm::bit_cast<float>(static_cast<uint32_t>(i) * kStep));
  return tensor;
}

/// The distance of f32 numbers at `x`, 2^-149 among those without exponent.
static double getUlp(double x) {
  int exponent;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// NaN where the result should be, infinity where it is no number.
static double getError(double actual, double exact) {
  float rounded = static_cast<float>(exact);
  if (std::isnan(exact) || std::isinf(rounded))
    return (std::isnan(actual) && std::isnan(exact)) || actual == rounded
               ? 0
               : INFINITY;
  return std::isfinite(actual) ? std::abs(actual - exact) / getUlp(exact)
                               : INFINITY;
}

class RangeTest : public testing::TestWithParam<Function> {};

TEST_P(RangeTest, ErrorIsSmallEverywhere) {
  Function function = GetParam();
  std::string type = "tensor<" + std::to_string(kCount) + "xf32>";
  auto context = makeContext();
  auto module =
      parse(*context, "func.func @f(%x: " + type + ") -> " + type +
                          " {\n  %0 = nn." + function.name + " %x : (" + type +
                          ") -> " + type + "\n  return %0 : " + type + "\n}");
  ASSERT_TRUE(module);
  KernelOptions options;
  options.useCache = false;
  LoadedKernels kernels(*module, options);
  ASSERT_EQ(kernels.getError(), "");
  Tensor input = makeAllNumbers(Float32Type::get(context.get()));
  Tensor actual =
      kernels.run(module->lookupSymbol<func::FuncOp>("f"), {input}).front();
  double worst = 0, where = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    double x = input.getDouble(i);
    double error = getError(actual.getDouble(i), function.exact(x));
    if (error > worst)
      worst = error, where = x;
  }
  RecordProperty("ulps", std::to_string(worst));
  EXPECT_LE(worst, function.ulps) << "at " << where;
}

INSTANTIATE_TEST_SUITE_P(
    All, RangeTest,
    testing::Values(
        Function{"exp", std::exp, 1.5}, Function{"exp2", std::exp2, 1},
        Function{"expm1", std::expm1, 3}, Function{"log", std::log, 1},
        Function{"log2", std::log2, 1}, Function{"log10", std::log10, 2},
        Function{"log1p", std::log1p, 3}, Function{"sin", std::sin, 1},
        Function{"cos", std::cos, 1}, Function{"tanh", std::tanh, 5},
        Function{"erf", std::erf, 2.5}, Function{"erfc", std::erfc, 3},
        Function{"sqrt", std::sqrt, 1},
        Function{"reciprocal", [](double x) { return 1 / x; }, 1},
        Function{"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 2}));
