//===- numbers_test.cpp - rounding and finite numbers ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expectations are bits worked out by hand, never by a function of the runtime.
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"

#include <bit>
#include <limits>

namespace tandem::rt::cts {
namespace {

struct Rounding {
  const char *what;
  uint32_t single;
  uint16_t bf16;
};

/// The upper 16 bits are kept; 0x8000 below them is half of their last place.
const Rounding kRoundings[] = {
    {"zero", 0x00000000, 0x0000},
    {"minus zero", 0x80000000, 0x8000},
    {"one", 0x3f800000, 0x3f80},
    {"just below half of the last place", 0x3f807fff, 0x3f80},
    {"half above an even one: down", 0x3f808000, 0x3f80},
    {"just above half", 0x3f808001, 0x3f81},
    {"half above an odd one: up", 0x3f818000, 0x3f82},
    {"all of the last place but one bit", 0x3f80ffff, 0x3f81},
    {"negative, half above an even one", 0xbf808000, 0xbf80},
    {"negative, half above an odd one", 0xbf818000, 0xbf82},
    {"negative, just above half", 0xbf808001, 0xbf81},
    {"carries into the exponent", 0x3fffffff, 0x4000},
    {"half of an odd one carries into the exponent", 0x3fff8000, 0x4000},
    {"0.1", 0x3dcccccd, 0x3dcd},
    {"1/3", 0x3eaaaaab, 0x3eab},
    {"pi", 0x40490fdb, 0x4049},
    {"the smallest number without exponent: down to zero", 0x00000001, 0x0000},
    {"half of the smallest bf16, which is odd: zero is even", 0x00008000,
     0x0000},
    {"half above the smallest bf16", 0x00018000, 0x0002},
    {"the largest without exponent becomes normal", 0x007fffff, 0x0080},
    {"the largest bf16", 0x7f7f0000, 0x7f7f},
    {"the largest single: infinity is nearer", 0x7f7fffff, 0x7f80},
    {"just below half above the largest bf16", 0x7f7f7fff, 0x7f7f},
    {"infinity", 0x7f800000, 0x7f80},
    {"minus infinity", 0xff800000, 0xff80},
};

TEST(Bf16, RoundsToNearestEven) {
  for (const Rounding &row : kRoundings)
    EXPECT_EQ(floatToBf16(std::bit_cast<float>(row.single)), row.bf16)
        << row.what;
}

/// A NaN whose bits are all in the lower half must not become infinity.
TEST(Bf16, KeepsWhatIsNoNumber) {
  for (uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0xffffffffu}) {
    uint16_t half = floatToBf16(std::bit_cast<float>(bits));
    EXPECT_EQ(half & 0x7f80, 0x7f80) << std::hex << bits;
    EXPECT_NE(half & 0x007f, 0) << std::hex << bits;
    EXPECT_EQ(half >> 15, bits >> 31) << std::hex << bits;
  }
}

TEST(Bf16, WidensToTheBitsAboveZeros) {
  for (uint32_t half : {0x0000u, 0x8000u, 0x0001u, 0x3f80u, 0x7f7fu, 0xff80u})
    EXPECT_EQ(std::bit_cast<uint32_t>(bf16ToFloat(uint16_t(half))), half << 16);
}

/// Two ranks add 1 and a part of its last place, 2^-7: the sum of a collective
/// is rounded, not cut.
TEST(Bf16, CollectivesRound) {
  struct Sum {
    uint16_t first, second, sum;
  };
  const Sum kSums[] = {
      {0x3f80, 0x3b80, 0x3f80}, // 1 + 2^-8, half: to even, down
      {0x3f81, 0x3b80, 0x3f82}, // 1 + 2^-7 + 2^-8, half: to even, up
      {0x3f80, 0x3bc0, 0x3f81}, // 1 + 1.5 2^-8: up
      {0x3f80, 0x3b00, 0x3f80}, // 1 + 2^-9: down
      {0xbf80, 0xbbc0, 0xbf81}, // the same below zero
  };
  ProgramBuilder b({{"data", 2}});
  constexpr int64_t kCount = int64_t(std::size(kSums));
  Form rows;
  rows.dims.resize(2);
  rows.dims[0] = {1, {0}};
  uint32_t x = b.addArgument({.role = "input",
                              .name = "x",
                              .type = ElementType::BF16,
                              .globalShape = {2, kCount},
                              .form = rows});
  uint32_t y = b.addResult({.role = "output",
                            .name = "y",
                            .type = ElementType::BF16,
                            .globalShape = {1, kCount}});
  b.add({.name = "sum"}, Collective{.kind = CollectiveKind::AllReduce,
                                    .axes = {0},
                                    .type = ElementType::BF16,
                                    .shape = {1, kCount},
                                    .source = b.argument(x),
                                    .destination = b.result(y)});
  auto session = startTwin(b);
  Tensor values(ElementType::BF16, {2, kCount});
  auto *bits = reinterpret_cast<uint16_t *>(values.data.data());
  for (int64_t i = 0; i < kCount; ++i)
    bits[i] = kSums[i].first, bits[kCount + i] = kSums[i].second;
  set(*session, "input", "x", values);
  EXPECT_OK(session->step());
  auto sums = valuesOf<uint16_t>(result(*session, "output", "y"));
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(sums[i], kSums[i].sum) << i;
}

struct Special {
  const char *word; ///< What the error says.
  double value;
};

/// One value that is not finite among finite ones: of each kind, in each type,
/// at each place, on one rank of two.
class FiniteTest : public testing::TestWithParam<ElementType> {
protected:
  static constexpr int64_t kCount = 5;

  /// Two ranks with `kCount` numbers each; the step counts only if they pass.
  std::unique_ptr<TwinSession> checked(ElementType type) {
    ProgramBuilder b({{"data", 2}});
    Form split;
    split.dims.push_back({1, {0}});
    uint32_t x = b.addArgument({.role = "input",
                                .name = "x",
                                .type = type,
                                .globalShape = {2 * kCount},
                                .form = split});
    uint32_t count = b.addArgument(
        {.role = "step", .name = "step", .type = ElementType::I64});
    b.addUpdate(count);
    uint32_t code = b.addCodeObject("kernels", kernelImage());
    b.add({.name = "check"},
          Check{CheckKind::Finite, type, b.argument(x), "loss", {0}});
    b.launch({.name = "count"}, code, "increment", {b.argument(count)},
             {b.argument(count)});
    return startTwin(b);
  }

  static void store(Tensor &tensor, int64_t at, double value) {
    char *place = reinterpret_cast<char *>(tensor.data.data()) +
                  at * elementBytes(tensor.type);
    float single = float(value);
    uint32_t bits = std::bit_cast<uint32_t>(single);
    uint16_t half = uint16_t(bits >> 16); // exact for what is stored here
    if (tensor.type == ElementType::F64)
      std::memcpy(place, &value, sizeof value);
    else if (tensor.type == ElementType::F32)
      std::memcpy(place, &single, sizeof single);
    else
      std::memcpy(place, &half, sizeof half);
  }

  Watchdog watchdog{60};
};

/// Large ones and zeros are finite.
TEST_P(FiniteTest, PassesWhatIsFinite) {
  auto session = checked(GetParam());
  Tensor values(GetParam(), {2 * kCount});
  for (int64_t i = 0; i < 2 * kCount; ++i)
    store(values, i, (i % 2 ? -1 : 1) * 0x1p120 * double(i));
  set(*session, "input", "x", values);
  EXPECT_OK(session->step());
  EXPECT_EQ(valuesOf<int64_t>(argument(*session, "step", "step"))[0], 1);
}

TEST_P(FiniteTest, RefusesEveryInfinityAndNan) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto session = checked(GetParam());
  for (Special special : {Special{"nan", std::nan("")},
                          Special{"inf", kInfinity},
                          {"inf", -kInfinity}})
    for (int64_t place = 0; place < 2 * kCount; ++place) {
      Tensor values(GetParam(), {2 * kCount});
      store(values, place, special.value);
      set(*session, "input", "x", values);
      expectError(session->step(), std::string("loss is ") + special.word +
                                       ", expected a finite value");
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, FiniteTest,
                         testing::Values(ElementType::F64, ElementType::F32,
                                         ElementType::BF16),
                         [](const testing::TestParamInfo<ElementType> &info) {
                           return std::string(elementName(info.param));
                         });

} // namespace
} // namespace tandem::rt::cts
