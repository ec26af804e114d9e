//===- algorithms_test.cpp - cuBLASLt algorithms --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On the emulated cuBLASLt, which has several algorithms, and is told which of
// them is the fastest.
//
//===----------------------------------------------------------------------===//

#include "cts/cache_folder.h"
#include "cts/emulator/emulator.h"
#include "cts/support.h"
#include "cuda/libraries/algorithms.h"

#include <fstream>

namespace tandem::rt::cts {
namespace {
using namespace cuda::emulated;

class Algorithms : public testing::Test {
protected:
  void SetUp() override {
    if (!std::getenv("TANDEM_CTS_DEVICE"))
      GTEST_SKIP() << "TANDEM_CTS_DEVICE names no device with GPUs";
  }

  /// The result of a product of two matrices of random numbers, or of more of
  /// them that lie `distance` elements apart; and that it is right.
  static std::vector<float> run(EmulatedAlgorithm fastest, int64_t batch = 1,
                                int64_t distance = kSize * kSize) {
    Variable variable("TANDEM_EMULATED_FASTEST", std::to_string(fastest));
    Gemm product =
        contiguousGemm(ElementType::F32, kSize, kSize, kSize, {batch, 1});
    product.stridesA[0] = distance;
    int64_t span = (batch - 1) * distance + kSize * kSize;
    auto a = randomValues<float>(span, 1);
    auto b = randomValues<float>(batch * kSize * kSize, 2);
    ProgramBuilder p({});
    auto add = [&](const char *name, int64_t size) {
      return p.argument(p.addArgument(
          {"parameter", name, ElementType::F32, {size}, {}, {}, -1, {}}));
    };
    product.a = add("a", span);
    product.b = add("b", int64_t(b.size()));
    product.c = add("c", int64_t(b.size()));
    p.addUpdate(product.c.index);
    p.add({.name = "multiply"}, product);
    auto session = start(p);
    if (!session)
      return {};
    set(*session, "parameter", "a", tensorOf<float>({span}, a));
    set(*session, "parameter", "b", tensorOf<float>({int64_t(b.size())}, b));
    EXPECT_OK(session->step());
    auto found = valuesOf<float>(argument(*session, "parameter", "c"));
    for (int64_t at = 0; at < batch * kSize * kSize; at += 97) {
      int64_t i = at / kSize / kSize, row = at / kSize % kSize;
      double sum = 0;
      for (int64_t k = 0; k < kSize; ++k)
        sum += double(a[size_t(i * distance + row * kSize + k)]) *
               double(b[size_t((i * kSize + k) * kSize + at % kSize)]);
      EXPECT_NEAR(found[size_t(at)], sum, 1e-4) << at;
    }
    return found;
  }

  /// The line of the only file.
  static std::pair<std::string, std::string> kept(const CacheFolder &folder) {
    std::ifstream file(folder.onlyFile());
    std::string word, key;
    file >> word;
    std::getline(file >> std::ws, key);
    return {word, key};
  }
  static uint64_t idOf(const std::string &word) {
    auto algorithm = cuda::parseAlgorithm(word);
    EXPECT_TRUE(algorithm) << word;
    return algorithm ? algorithm->data[0] : 0;
  }
  static std::string wordOf(uint64_t id) {
    return cuda::wordOf(cuda::MatmulAlgorithm{{id}});
  }

  static constexpr int64_t kSize = 256;
  CacheFolder folder;
};

TEST_F(Algorithms, TheFastestIsTakenAndKept) {
  for (EmulatedAlgorithm fastest : {kPlainSum, kSplitSum, kAlignedOnly}) {
    CacheFolder own;
    run(fastest);
    EXPECT_EQ(idOf(kept(own).first), fastest);
  }
}

/// Else they are equally fast, and the library's first counts.
TEST_F(Algorithms, WhatIsRefusedIsNotTaken) {
  for (EmulatedAlgorithm fastest : {kRefusing, kFailed}) {
    CacheFolder own;
    run(fastest);
    EXPECT_EQ(idOf(kept(own).first), kPlainSum);
  }
}

/// Its bits are those of the file.
TEST_F(Algorithms, WhatIsKeptIsNotMeasuredAgain) {
  auto split = run(kSplitSum);
  auto [word, key] = kept(folder);
  EXPECT_EQ(idOf(word), kSplitSum);
  EXPECT_TRUE(run(kPlainSum) == split);
  EXPECT_EQ(kept(folder).first, word);
  std::ofstream(folder.onlyFile()) << wordOf(kPlainSum) << ' ' << key << '\n';
  EXPECT_TRUE(run(kSplitSum) != split);
}

TEST_F(Algorithms, WhatIsDamagedIsMeasuredAgain) {
  run(kSplitSum);
  std::string key = kept(folder).second;
  for (const std::string &word :
       {std::string("plain"), wordOf(kLast + 1), wordOf(kFailed),
        wordOf(kPlainSum).substr(1), "x" + wordOf(kPlainSum).substr(1)}) {
    std::ofstream(folder.onlyFile()) << word << ' ' << key << '\n';
    run(kSplitSum);
    EXPECT_EQ(idOf(kept(folder).first), kSplitSum) << word;
  }
  std::ofstream(folder.onlyFile()) << wordOf(kPlainSum) << " another key\n";
  run(kSplitSum);
  EXPECT_EQ(idOf(kept(folder).first), kSplitSum);
}

/// All calls of a batch have to be.
TEST_F(Algorithms, OperandsAreAlignedAsTheAlgorithmNeeds) {
  constexpr int64_t kLine = 128 / sizeof(float);
  for (int64_t more : {kLine, kLine / 2}) {
    CacheFolder own;
    run(kAlignedOnly, 2, kSize * kSize + more);
    EXPECT_EQ(idOf(kept(own).first), more == kLine ? kAlignedOnly : kPlainSum);
  }
}

TEST_F(Algorithms, WhatIsSmallIsNotMeasured) {
  Gemm product = contiguousGemm(ElementType::F32, 128, 256, 255);
  EXPECT_FALSE(cuda::isMeasured(product));
  product.k = 256;
  EXPECT_TRUE(cuda::isMeasured(product));
  product.batch = {2};
  product.m = 64;
  EXPECT_TRUE(cuda::isMeasured(product));
}

/// On a GPU without room for the operands once more.
TEST_F(Algorithms, WithoutRoomTheFirstIsTaken) {
  Variable memory("TANDEM_EMULATED_MEMORY",
                  std::to_string(4 * kSize * kSize * int64_t(sizeof(float))));
  run(kSplitSum);
  EXPECT_TRUE(folder.isEmpty());
}

} // namespace
} // namespace tandem::rt::cts
