//===- MistakesTest.cpp - mistakes in GPU kernels are noticed -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every barrier, shuffle, read and write of the families of kernels, each wrong
// once: the emulated GPU reports it, or the result is another one.
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "KernelRunner.h"
#include "tandem/Reference/Interpreter.h"
#include <gtest/gtest.h>
#include <map>

using namespace mlir;
using namespace tandem;
using namespace tandem::test;

/// So few that each goes over several rows or squares.
constexpr uint32_t kFewBlocks = 2;

/// Bytes behind a multiple of 16, where no access is of 16 bytes.
constexpr uint64_t kShift = 8;

/// Whether the kernel runs, and gives what is expected.
static bool isRight(KernelsOfText &kernels, func::FuncOp function,
                    ArrayRef<Tensor> inputs, ArrayRef<Tensor> expected) {
  std::vector<Tensor> actual = kernels->run(function, inputs);
  if (!LoadedKernels::lastRefusal.empty() || !LoadedKernels::lastReport.empty())
    return false;
  for (auto [value, reference] : llvm::zip_equal(actual, expected))
    if (!(compare(value, reference) <= getTolerance(reference)))
      return false;
  return true;
}

/// Mistakes that change nothing, by kernel and name, and how many of them.
using Harmless = std::map<std::string, int>;

/// Plants every mistake in the kernel, and counts those that change nothing.
static void plantAll(KernelsOfText &kernels, func::FuncOp function,
                     Harmless &unnoticed) {
  const auto &mistakes = kernels->getEmulated()->getMistakes();
  std::vector<Tensor> inputs = makeInputs(function, 7);
  auto expected = reference::interpret(function, {}, inputs);
  ASSERT_TRUE(succeeded(expected));
  mistakes.list();
  ASSERT_TRUE(isRight(kernels, function, inputs, *expected))
      << function.getName().str() << LoadedKernels::lastRefusal;
  kernels->hasMistakes = true;
  for (int64_t number = 0, e = mistakes.count(); number < e; ++number) {
    mistakes.plant(number);
    if (isRight(kernels, function, inputs, *expected))
      ++unnoticed[function.getName().str() + ": " + mistakes.name(number)];
  }
  mistakes.plant(-1);
  kernels->hasMistakes = false;
}

/// In every kernel of the text, by accesses of 16 bytes where it has such, and
/// by single elements.
static void checkMistakes(StringRef text, const Harmless &harmless = {},
                          uint32_t maxBlocks = UINT32_MAX) {
  ASSERT_TRUE(EmulatedKernels::areWanted()) << "TANDEM_TEST_DEVICE is no GPU";
  KernelsOfText kernels(text);
  ASSERT_EQ(kernels.getError(), "");
  kernels->getEmulated()->limitBlocks(maxBlocks);
  for (uint64_t shift : {uint64_t(0), kShift}) {
    SCOPED_TRACE(shift);
    kernels->getEmulated()->shiftBuffers(shift);
    Harmless unnoticed;
    for (auto function : kernels.getFunctions())
      plantAll(kernels, function, unnoticed);
    EXPECT_EQ(unnoticed, harmless);
  }
}

/// `short` has teams of four threads, 64 of which share a block.
TEST(Mistakes, OfRows) {
  checkMistakes(R"(
    func.func @softmax(%x: tensor<3x70xf32>) -> tensor<3x70xf32> {
      %0 = nn.softmax %x {dim = 1 : i64} : (tensor<3x70xf32>) -> tensor<3x70xf32>
      return %0 : tensor<3x70xf32>
    }
    func.func @short(%x: tensor<192x16xf32>) -> tensor<192x16xf32> {
      %0 = nn.softmax %x {dim = 1 : i64} : (tensor<192x16xf32>) -> tensor<192x16xf32>
      return %0 : tensor<192x16xf32>
    }
    func.func @norm(%x: tensor<5x300xf32>, %w: tensor<300xf32>, %b: tensor<300xf32>) -> tensor<5x300xf32> {
      %0:3 = nn.layer_norm %x, %w, %b {eps = 1.0e-05 : f64, normalized_rank = 1 : i64} : (tensor<5x300xf32>, tensor<300xf32>, tensor<300xf32>) -> (tensor<5x300xf32>, tensor<5x1xf32>, tensor<5x1xf32>)
      return %0#0 : tensor<5x300xf32>
    })",
                {}, kFewBlocks);
}

/// `all` is one row: nobody writes behind the barrier at its end, which `norm`
/// needs above.
TEST(Mistakes, OfColumns) {
  checkMistakes(R"(
    func.func @columns(%x: tensor<90x64xf32>) -> tensor<64xf32> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<90x64xf32>) -> tensor<64xf32>
      return %0 : tensor<64xf32>
    }
    func.func @all(%x: tensor<33x65xf32>) -> tensor<f32> {
      %0 = nn.sum %x {dims = array<i64: 0, 1>} : (tensor<33x65xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func @both(%g: tensor<50x48xf32>, %x: tensor<50x48xf32>, %m: tensor<50x1xf32>, %r: tensor<50x1xf32>, %w: tensor<48xf32>) -> (tensor<50x48xf32>, tensor<48xf32>, tensor<48xf32>) {
      %0:3 = nn.layer_norm_backward %g, %x, %m, %r, %w {normalized_rank = 1 : i64} : (tensor<50x48xf32>, tensor<50x48xf32>, tensor<50x1xf32>, tensor<50x1xf32>, tensor<48xf32>) -> (tensor<50x48xf32>, tensor<48xf32>, tensor<48xf32>)
      return %0#0, %0#1, %0#2 : tensor<50x48xf32>, tensor<48xf32>, tensor<48xf32>
    })",
                {{"all: a barrier that nobody waits at", 1}});
}

TEST(Mistakes, OfSquares) {
  checkMistakes(R"(
    func.func @transposed(%x: tensor<45x70xf32>) -> tensor<70x45xf32> {
      %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<45x70xf32>) -> tensor<70x45xf32>
      return %0 : tensor<70x45xf32>
    })",
                {}, kFewBlocks);
}

TEST(Mistakes, OfSumsAtAnIndex) {
  checkMistakes(R"(
    func.func @few(%g: tensor<60x5xf32>, %i: tensor<60xi64> {test.low = 0, test.high = 30}) -> tensor<30x5xf32> {
      %0 = nn.embedding_backward %g, %i : (tensor<60x5xf32>, tensor<60xi64>) -> tensor<30x5xf32>
      return %0 : tensor<30x5xf32>
    }
    func.func @many(%g: tensor<211x5xf32>, %i: tensor<211xi64> {test.low = 0, test.high = 2}) -> tensor<2x5xf32> {
      %0 = nn.embedding_backward %g, %i : (tensor<211x5xf32>, tensor<211xi64>) -> tensor<2x5xf32>
      return %0 : tensor<2x5xf32>
    })");
}

TEST(Mistakes, OfOwnLoops) {
  checkMistakes(R"(
    func.func @first(%x: tensor<6x20xf32>) -> (tensor<6x2xf32>, tensor<6x2xi64>) {
      %v, %i = nn.topk %x {k = 2 : i64, dim = 1 : i64} : (tensor<6x20xf32>) -> (tensor<6x2xf32>, tensor<6x2xi64>)
      return %v, %i : tensor<6x2xf32>, tensor<6x2xi64>
    }
    func.func @cumulated(%x: tensor<6x20xf32>) -> tensor<6x20xf32> {
      %0 = nn.cumsum %x {dim = 1 : i64} : (tensor<6x20xf32>) -> tensor<6x20xf32>
      return %0 : tensor<6x20xf32>
    }
    func.func @lookup(%t: tensor<9x8xf32>, %i: tensor<12xi64> {test.low = 0, test.high = 9}) -> tensor<12x8xf32> {
      %0 = nn.embedding %t, %i : (tensor<9x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
      return %0 : tensor<12x8xf32>
    }
    func.func @pointwise(%x: tensor<7x11xf32>, %y: tensor<11xf32>) -> tensor<7x11xf32> {
      %0 = nn.add %x, %y : (tensor<7x11xf32>, tensor<11xf32>) -> tensor<7x11xf32>
      %1 = nn.gelu none %0 : (tensor<7x11xf32>) -> tensor<7x11xf32>
      return %1 : tensor<7x11xf32>
    })");
}
