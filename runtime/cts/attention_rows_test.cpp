//===- attention_rows_test.cpp - softmax of attention rows ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/attention_rows.h"
#include "cts/support.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tandem::rt::cts {
namespace {

TEST(AttentionRows, AreRoundedAsNumbersAre) {
  std::vector<float> from;
  for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += 65521 * 7) {
    auto word = uint32_t(bits);
    std::memcpy(&from.emplace_back(), &word, sizeof word);
  }
  from.push_back(std::numeric_limits<float>::quiet_NaN());
  ASSERT_NE(int64_t(from.size()) % cpu::kLanes, 0);
  std::vector<cpu::Bf16> to(from.size() + 1, {0x1234});
  cpu::scaleRow(to.data(), from.data(), int64_t(from.size()), 1.0f);
  for (size_t i = 0; i < from.size(); ++i)
    EXPECT_EQ(to[i].bits, floatToBf16(from[i])) << from[i];
  EXPECT_EQ(to.back().bits, 0x1234);
}

TEST(AttentionRows, AreSummedToTheirEnd) {
  for (int64_t columns : {1, 15, 16, 17, 40}) {
    std::vector<float> a(size_t(columns), 2), b(size_t(columns), 0.5);
    a.push_back(NAN), b.push_back(NAN);
    EXPECT_EQ(cpu::dotRow(a.data(), b.data(), columns), float(columns));
    std::vector<cpu::Bf16> narrow(a.size());
    cpu::scaleRow(narrow.data(), a.data(), int64_t(a.size()), 1.0f);
    EXPECT_EQ(cpu::dotRow(narrow.data(), narrow.data(), columns),
              float(4 * columns));
  }
}

} // namespace
} // namespace tandem::rt::cts
