//===- ShapesTest.cpp - sizes that change a kernel's code -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On a GPU above all, whose tiles, teams and chunks small sizes do not fill.
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "KernelRunner.h"
#include "tandem/Device/Device.h"
#include "tandem/Reference/Interpreter.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace tandem;
using namespace tandem::test;

/// For each of the types in place of $T.
static void checkTypes(StringRef text, ArrayRef<StringRef> types) {
  for (StringRef type : types) {
    std::string own = text.str();
    for (size_t at; (at = own.find("$T")) != std::string::npos;)
      own.replace(at, 2, type.str());
    SCOPED_TRACE(type.str());
    checkKernels(own);
  }
}

/// Every device that is described has a folder that makes its kernels.
TEST(KernelTargets, HaveAllDevices) {
  std::string names = listDevices();
  SmallVector<StringRef> split;
  StringRef(names).split(split, ", ");
  ASSERT_GE(split.size(), 2u);
  for (StringRef name : split)
    EXPECT_GT(getMaxBuffers(*findDevice(name)), 1) << name.str();
}

//===----------------------------------------------------------------------===//
// Sums at an index
//===----------------------------------------------------------------------===//

/// Few terms for each element, so that each is found from the one before; the
/// last one has more elements than a launch has threads.
TEST(IndexSums, OfFewTerms) {
  checkTypes(R"(
    func.func @rows(%g: tensor<90x5x$T>, %i: tensor<90xi64> {test.low = 0, test.high = 40}) -> tensor<40x5x$T> {
      %0 = nn.embedding_backward %g, %i : (tensor<90x5x$T>, tensor<90xi64>) -> tensor<40x5x$T>
      return %0 : tensor<40x5x$T>
    }
    func.func @onto(%b: tensor<7x5x$T>, %g: tensor<90x5x$T>, %i: tensor<90xi64> {test.low = 0, test.high = 7}) -> tensor<7x5x$T> {
      %0 = nn.embedding_backward %g, %i : (tensor<90x5x$T>, tensor<90xi64>) -> tensor<7x5x$T>
      %1 = nn.add %0, %b : (tensor<7x5x$T>, tensor<7x5x$T>) -> tensor<7x5x$T>
      return %1 : tensor<7x5x$T>
    }
    func.func @elements(%s: tensor<2x70x3x$T>, %i: tensor<2x70x3xi64> {test.low = 0, test.high = 9}) -> tensor<2x9x3x$T> {
      %0 = nn.scatter_add %s, %i {dim = 1 : i64} : (tensor<2x70x3x$T>, tensor<2x70x3xi64>) -> tensor<2x9x3x$T>
      return %0 : tensor<2x9x3x$T>
    }
    func.func @flat(%s: tensor<1000x$T>, %i: tensor<1000xi64> {test.low = 0, test.high = 600}) -> tensor<600x$T> {
      %0 = nn.scatter_add %s, %i {dim = 0 : i64} : (tensor<1000x$T>, tensor<1000xi64>) -> tensor<600x$T>
      return %0 : tensor<600x$T>
    })",
             {"f64", "f32", "bf16", "i64"});
}

/// Many terms for each element: chunks of the terms, the last of which is
/// shorter.
TEST(IndexSums, OfManyTerms) {
  checkTypes(R"(
    func.func @rows(%g: tensor<211x5x$T>, %i: tensor<211xi64> {test.low = 0, test.high = 2}) -> tensor<2x5x$T> {
      %0 = nn.embedding_backward %g, %i : (tensor<211x5x$T>, tensor<211xi64>) -> tensor<2x5x$T>
      return %0 : tensor<2x5x$T>
    }
    func.func @onto(%b: tensor<2x5x$T>, %g: tensor<211x5x$T>, %i: tensor<211xi64> {test.low = 0, test.high = 2}) -> tensor<2x5x$T> {
      %0 = nn.embedding_backward %g, %i : (tensor<211x5x$T>, tensor<211xi64>) -> tensor<2x5x$T>
      %1 = nn.add %0, %b : (tensor<2x5x$T>, tensor<2x5x$T>) -> tensor<2x5x$T>
      return %1 : tensor<2x5x$T>
    }
    func.func @elements(%s: tensor<2x211x3x$T>, %i: tensor<2x211x3xi64> {test.low = 0, test.high = 2}) -> tensor<2x2x3x$T> {
      %0 = nn.scatter_add %s, %i {dim = 1 : i64} : (tensor<2x211x3x$T>, tensor<2x211x3xi64>) -> tensor<2x2x3x$T>
      return %0 : tensor<2x2x3x$T>
    })",
             {"f64", "f32", "bf16", "i64"});
}

TEST(IndexSums, InPlace) {
  KernelsOfText kernels(R"(
    func.func @few(%b: tensor<7x4xf32>, %s: tensor<90x4xf32>, %i: tensor<90xi64> {test.low = 0, test.high = 7}) -> tensor<7x4xf32> {
      %0 = nn.embedding_backward %s, %i : (tensor<90x4xf32>, tensor<90xi64>) -> tensor<7x4xf32>
      %1 = nn.add %0, %b : (tensor<7x4xf32>, tensor<7x4xf32>) -> tensor<7x4xf32>
      return %1 : tensor<7x4xf32>
    }
    func.func @many(%b: tensor<2x4xf32>, %s: tensor<211x4xf32>, %i: tensor<211xi64> {test.low = 0, test.high = 2}) -> tensor<2x4xf32> {
      %0 = nn.embedding_backward %s, %i : (tensor<211x4xf32>, tensor<211xi64>) -> tensor<2x4xf32>
      %1 = nn.add %0, %b : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      return %1 : tensor<2x4xf32>
    })");
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : kernels.getFunctions()) {
    std::vector<Tensor> inputs = makeInputs(function, 5);
    Tensor apart = kernels->run(function, inputs).front();
    std::vector<std::vector<char>> buffers;
    for (const Tensor &input : inputs)
      buffers.push_back(toBytes(input));
    std::vector<llvm::MutableArrayRef<char>> ranges(buffers.begin(),
                                                    buffers.end());
    ranges.push_back(buffers[0]);
    kernels->runOn(function.getName(), ranges, /*scalars=*/{});
    Tensor inPlace = fromBytes(buffers[0], inputs[0].getType());
    EXPECT_TRUE(inPlace.isIdenticalTo(apart)) << function.getName().str();
  }
}

/// What is at a bad index is left out, and told.
TEST(IndexSums, ReportBadIndices) {
  KernelsOfText kernels(R"(
    func.func @few(%g: tensor<90x5xf32>, %i: tensor<90xi64>) -> tensor<40x5xf32> {
      %0 = nn.embedding_backward %g, %i : (tensor<90x5xf32>, tensor<90xi64>) -> tensor<40x5xf32>
      return %0 : tensor<40x5xf32>
    }
    func.func @many(%g: tensor<2700x5xf32>, %i: tensor<2700xi64>) -> tensor<40x5xf32> {
      %0 = nn.embedding_backward %g, %i : (tensor<2700x5xf32>, tensor<2700xi64>) -> tensor<40x5xf32>
      return %0 : tensor<40x5xf32>
    })");
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : kernels.getFunctions()) {
    std::vector<Tensor> inputs = makeInputs(function, 1);
    int64_t rows = inputs[1].getNumElements();
    for (int64_t bad : {40, -1}) {
      std::vector<double> sums(40 * 5);
      for (int64_t i = 0; i < rows; ++i) {
        bool isBad = i == 50 || i == rows - 1;
        inputs[1].setInteger(i, isBad ? bad : i % 40);
        for (int64_t j = 0; j < 5 && !isBad; ++j)
          sums[i % 40 * 5 + j] += inputs[0].getDouble(i * 5 + j);
      }
      Tensor result = kernels->run(function, inputs).front();
      EXPECT_EQ(LoadedKernels::lastReport,
                "site 0: " + std::to_string(bad) + " of 40");
      for (size_t i = 0; i < sums.size(); ++i)
        EXPECT_NEAR(result.getDouble(i), sums[i], 1e-4);
    }
  }
}

//===----------------------------------------------------------------------===//
// Sums over rows
//===----------------------------------------------------------------------===//

/// Whether several threads share each kernel of the text.
static void expectShared(StringRef text) {
  KernelsOfText kernels(text);
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : kernels.getFunctions())
    EXPECT_TRUE(kernels->isShared(function.getName()))
        << function.getName().str();
}

/// What adds up over rows, columns that are many enough to share alone, all
/// elements, one loop of several, what follows such a sum, and such sums of
/// several loops.
constexpr char kShared[] = R"(
    func.func @rows(%x: tensor<600x64xf32>) -> tensor<64xf32> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<600x64xf32>) -> tensor<64xf32>
      return %0 : tensor<64xf32>
    }
    func.func @columns(%x: tensor<40x1025xf32>) -> tensor<1025xf32> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<40x1025xf32>) -> tensor<1025xf32>
      return %0 : tensor<1025xf32>
    }
    func.func @all(%x: tensor<33x1025xf32>) -> tensor<f32> {
      %0 = nn.mul %x, %x : (tensor<33x1025xf32>, tensor<33x1025xf32>) -> tensor<33x1025xf32>
      %1 = nn.sum %0 {dims = array<i64: 0, 1>} : (tensor<33x1025xf32>) -> tensor<f32>
      return %1 : tensor<f32>
    }
    func.func @inner(%x: tensor<3x300x20xf32>) -> (tensor<300x20xf32>, tensor<3x300x20xf32>) {
      %0 = nn.exp %x : (tensor<3x300x20xf32>) -> tensor<3x300x20xf32>
      %1 = nn.sum %0 {dims = array<i64: 0>} : (tensor<3x300x20xf32>) -> tensor<300x20xf32>
      return %1, %0 : tensor<300x20xf32>, tensor<3x300x20xf32>
    }
    func.func @norm(%g: tensor<500x48xf32>, %x: tensor<500x48xf32>, %m: tensor<500x1xf32>, %r: tensor<500x1xf32>, %w: tensor<48xf32>) -> (tensor<500x48xf32>, tensor<48xf32>, tensor<48xf32>) {
      %0:3 = nn.layer_norm_backward %g, %x, %m, %r, %w {normalized_rank = 1 : i64} : (tensor<500x48xf32>, tensor<500x48xf32>, tensor<500x1xf32>, tensor<500x1xf32>, tensor<48xf32>) -> (tensor<500x48xf32>, tensor<48xf32>, tensor<48xf32>)
      return %0#0, %0#1, %0#2 : tensor<500x48xf32>, tensor<48xf32>, tensor<48xf32>
    }
    func.func @narrow(%x: tensor<600x64xbf16>) -> tensor<64xbf16> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<600x64xbf16>) -> tensor<64xbf16>
      return %0 : tensor<64xbf16>
    }
    func.func @loss(%x: tensor<512x50xf32>, %t: tensor<512x1xi64> {test.low = 0, test.high = 50}) -> tensor<f32> {
      %0 = nn.log_softmax %x {dim = 1 : i64} : (tensor<512x50xf32>) -> tensor<512x50xf32>
      %1 = nn.gather %0, %t {dim = 1 : i64} : (tensor<512x50xf32>, tensor<512x1xi64>) -> tensor<512x1xf32>
      %2 = nn.sum %1 {dims = array<i64: 0, 1>} : (tensor<512x1xf32>) -> tensor<f32>
      %3 = nn.neg %2 : (tensor<f32>) -> tensor<f32>
      return %3 : tensor<f32>
    }
    func.func @clipped(%x: tensor<150x70xf32>, %m: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<150x70xf32>) {
      %0 = nn.mul %x, %x : (tensor<150x70xf32>, tensor<150x70xf32>) -> tensor<150x70xf32>
      %1 = nn.sum %0 {dims = array<i64: 0, 1>} : (tensor<150x70xf32>) -> tensor<f32>
      %2 = nn.sqrt %1 : (tensor<f32>) -> tensor<f32>
      %3 = nn.div %m, %2 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      return %3, %1, %0 : tensor<f32>, tensor<f32>, tensor<150x70xf32>
    }
    func.func @norms(%x: tensor<1003x32xf32>, %y: tensor<32xf32>, %z: tensor<4xf32>) -> tensor<f32> {
      %0 = nn.mul %x, %x : (tensor<1003x32xf32>, tensor<1003x32xf32>) -> tensor<1003x32xf32>
      %1 = nn.sum %0 {dims = array<i64: 0, 1>} : (tensor<1003x32xf32>) -> tensor<f32>
      %2 = nn.sqrt %1 : (tensor<f32>) -> tensor<f32>
      %3 = nn.exp %y : (tensor<32xf32>) -> tensor<32xf32>
      %4 = nn.sum %3 {dims = array<i64: 0>} : (tensor<32xf32>) -> tensor<f32>
      %5 = nn.sqrt %4 : (tensor<f32>) -> tensor<f32>
      %6 = nn.sum %z {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %7 = nn.exp %6 : (tensor<f32>) -> tensor<f32>
      %8 = nn.add %2, %5 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %9 = nn.add %8, %7 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      return %9 : tensor<f32>
    }
    func.func @largest(%x: tensor<600x64xf32>) -> (tensor<64xf32>, tensor<64xi64>) {
      %0 = nn.max %x {dims = array<i64: 0>} : (tensor<600x64xf32>) -> tensor<64xf32>
      %1 = nn.argmax %x {dim = 0 : i64} : (tensor<600x64xf32>) -> tensor<64xi64>
      return %0, %1 : tensor<64xf32>, tensor<64xi64>
    }
    func.func @table(%g: tensor<90x64xf32>, %i: tensor<90xi64> {test.low = 0, test.high = 40}) -> tensor<40x64xf32> {
      %0 = nn.embedding_backward %g, %i : (tensor<90x64xf32>, tensor<90xi64>) -> tensor<40x64xf32>
      return %0 : tensor<40x64xf32>
    }
    func.func @cumulated(%x: tensor<60x20xf32>) -> tensor<60x20xf32> {
      %0 = nn.cumsum %x {dim = 1 : i64} : (tensor<60x20xf32>) -> tensor<60x20xf32>
      return %0 : tensor<60x20xf32>
    }
    func.func @first(%x: tensor<60x20xf32>) -> (tensor<60x2xf32>, tensor<60x2xi64>) {
      %v, %i = nn.topk %x {k = 2 : i64, dim = 1 : i64} : (tensor<60x20xf32>) -> (tensor<60x2xf32>, tensor<60x2xi64>)
      return %v, %i : tensor<60x2xf32>, tensor<60x2xi64>
    })";

/// With the bits of one thread, as `run` asks for.
TEST(Shared, EqualReference) { checkKernels(kShared); }

TEST(Shared, HaveParts) {
  if (!EmulatedKernels::areWanted())
    expectShared(kShared);
}

/// Of which not every block can have its own, among others.
TEST(ColumnSums, ThatAreLarge) {
  checkTypes(R"(
    func.func @beside(%x: tensor<3x68x1025x$T>) -> (tensor<3x68x$T>, tensor<68x1025x$T>, tensor<1025x$T>, tensor<68x1025x$T>) {
      %0 = nn.tanh %x : (tensor<3x68x1025x$T>) -> tensor<3x68x1025x$T>
      %1 = nn.sum %0 {dims = array<i64: 2>} : (tensor<3x68x1025x$T>) -> tensor<3x68x$T>
      %2 = nn.sum %0 {dims = array<i64: 0>} : (tensor<3x68x1025x$T>) -> tensor<68x1025x$T>
      %3 = nn.sum %0 {dims = array<i64: 0, 1>} : (tensor<3x68x1025x$T>) -> tensor<1025x$T>
      %4 = nn.exp %2 : (tensor<68x1025x$T>) -> tensor<68x1025x$T>
      return %1, %2, %3, %4 : tensor<3x68x$T>, tensor<68x1025x$T>, tensor<1025x$T>, tensor<68x1025x$T>
    }
    func.func @across(%x: tensor<1036x70x2x$T>) -> (tensor<70x1036x$T>, tensor<70x1x1036x$T>) {
      %0 = nn.permute %x {permutation = array<i64: 2, 1, 0>} : (tensor<1036x70x2x$T>) -> tensor<2x70x1036x$T>
      %1 = nn.sum %0 {dims = array<i64: 0>} : (tensor<2x70x1036x$T>) -> tensor<70x1036x$T>
      %2 = nn.reshape %1 : (tensor<70x1036x$T>) -> tensor<70x1x1036x$T>
      return %1, %2 : tensor<70x1036x$T>, tensor<70x1x1036x$T>
    })",
             {"f64", "f32"});
}

/// Columns that fit into registers of a team's threads, with a rest and
/// without, and that do not; other rows that stay; two sums of one nest.
TEST(ColumnSums, EqualReference) {
  checkTypes(R"(
    func.func @narrow(%x: tensor<300x64x$T>) -> tensor<64x$T> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<300x64x$T>) -> tensor<64x$T>
      return %0 : tensor<64x$T>
    }
    func.func @odd(%x: tensor<300x1001x$T>) -> tensor<1001x$T> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<300x1001x$T>) -> tensor<1001x$T>
      return %0 : tensor<1001x$T>
    }
    func.func @wide(%x: tensor<9x9000x$T>) -> tensor<9000x$T> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<9x9000x$T>) -> tensor<9000x$T>
      return %0 : tensor<9000x$T>
    }
    func.func @kept(%x: tensor<20x3x30x$T>) -> tensor<3x30x$T> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<20x3x30x$T>) -> tensor<3x30x$T>
      return %0 : tensor<3x30x$T>
    }
    func.func @largest(%x: tensor<300x64x$T>) -> tensor<64x$T> {
      %0 = nn.max %x {dims = array<i64: 0>} : (tensor<300x64x$T>) -> tensor<64x$T>
      return %0 : tensor<64x$T>
    })",
             {"f64", "f32", "bf16"});
  checkTypes(R"(
    func.func @two(%g: tensor<90x48x$T>, %x: tensor<90x48x$T>, %m: tensor<90x1x$T>, %r: tensor<90x1x$T>, %w: tensor<48x$T>) -> (tensor<90x48x$T>, tensor<48x$T>, tensor<48x$T>) {
      %0:3 = nn.layer_norm_backward %g, %x, %m, %r, %w {normalized_rank = 1 : i64} : (tensor<90x48x$T>, tensor<90x48x$T>, tensor<90x1x$T>, tensor<90x1x$T>, tensor<48x$T>) -> (tensor<90x48x$T>, tensor<48x$T>, tensor<48x$T>)
      return %0#0, %0#1, %0#2 : tensor<90x48x$T>, tensor<48x$T>, tensor<48x$T>
    })",
             {"f64", "f32"});
}

/// Of one loop, which has to be cut, of loops the inner of which are short or
/// long, and of a loop that nothing divides.
constexpr char kWhole[] = R"(
    func.func @line(%x: tensor<33800xf32>) -> tensor<f32> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<33800xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func @squares(%x: tensor<2x130x130xf32>) -> tensor<f32> {
      %0 = nn.mul %x, %x : (tensor<2x130x130xf32>, tensor<2x130x130xf32>) -> tensor<2x130x130xf32>
      %1 = nn.sum %0 {dims = array<i64: 0, 1, 2>} : (tensor<2x130x130xf32>) -> tensor<f32>
      return %1 : tensor<f32>
    }
    func.func @rows(%x: tensor<33x1025xf32>) -> tensor<f32> {
      %0 = nn.sum %x {dims = array<i64: 0, 1>} : (tensor<33x1025xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func @reshaped(%x: tensor<3x4x5000xf32>) -> (tensor<f32>, tensor<12x5000xf32>) {
      %0 = nn.neg %x : (tensor<3x4x5000xf32>) -> tensor<3x4x5000xf32>
      %1 = nn.reshape %0 : (tensor<3x4x5000xf32>) -> tensor<12x5000xf32>
      %2 = nn.sum %1 {dims = array<i64: 0, 1>} : (tensor<12x5000xf32>) -> tensor<f32>
      return %2, %1 : tensor<f32>, tensor<12x5000xf32>
    }
    func.func @prime(%x: tensor<8209xf32>) -> tensor<f32> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<8209xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    })";

TEST(WholeSums, EqualReference) { checkKernels(kWhole); }

/// What several teams add up has a second part.
TEST(WholeSums, AreDividedAmongTeams) {
  if (!EmulatedKernels::areWanted())
    GTEST_SKIP() << "TANDEM_TEST_DEVICE is no GPU";
  KernelsOfText kernels(kWhole);
  ASSERT_EQ(kernels.getError(), "");
  const CompiledKernels &compiled = kernels->getCompiled();
  for (const auto &[name, blocks] : {std::pair("line", 26u),
                                     {"squares", 26u},
                                     {"rows", 33u},
                                     {"reshaped", 48u}}) {
    const auto &parts = compiled.kernels.find(name)->second.parts;
    ASSERT_EQ(parts.size(), 2u) << name;
    EXPECT_EQ(parts.front().geometry.grid[0], blocks) << name;
  }
  EXPECT_EQ(compiled.kernels.find("prime")->second.parts.size(), 1u);
}

//===----------------------------------------------------------------------===//
// Transposes
//===----------------------------------------------------------------------===//

/// Sizes that divide by a square's side and that do not; a dimension before,
/// between and behind; two that are read across, and one that is read both
/// ways; bytes.
TEST(Transposes, EqualReference) {
  checkTypes(R"(
    func.func @plain(%x: tensor<64x96x$T>) -> tensor<96x64x$T> {
      %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<64x96x$T>) -> tensor<96x64x$T>
      return %0 : tensor<96x64x$T>
    }
    func.func @odd(%x: tensor<37x70x$T>, %y: tensor<70x37x$T>) -> tensor<70x37x$T> {
      %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<37x70x$T>) -> tensor<70x37x$T>
      %1 = nn.add %0, %y : (tensor<70x37x$T>, tensor<70x37x$T>) -> tensor<70x37x$T>
      return %1 : tensor<70x37x$T>
    }
    func.func @batch(%x: tensor<3x40x33x$T>) -> tensor<3x33x40x$T> {
      %0 = nn.permute %x {permutation = array<i64: 0, 2, 1>} : (tensor<3x40x33x$T>) -> tensor<3x33x40x$T>
      return %0 : tensor<3x33x40x$T>
    }
    func.func @outer(%x: tensor<34x3x35x$T>) -> tensor<35x3x34x$T> {
      %0 = nn.permute %x {permutation = array<i64: 2, 1, 0>} : (tensor<34x3x35x$T>) -> tensor<35x3x34x$T>
      return %0 : tensor<35x3x34x$T>
    }
    func.func @heads(%x: tensor<2x40x48x$T>) -> tensor<2x3x16x40x$T> {
      %0 = nn.reshape %x : (tensor<2x40x48x$T>) -> tensor<2x40x3x16x$T>
      %1 = nn.permute %0 {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x40x3x16x$T>) -> tensor<2x3x16x40x$T>
      return %1 : tensor<2x3x16x40x$T>
    }
    func.func @both(%x: tensor<50x50x$T>, %y: tensor<50x50x$T>) -> (tensor<50x50x$T>, tensor<50x50x$T>) {
      %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<50x50x$T>) -> tensor<50x50x$T>
      %1 = nn.permute %y {permutation = array<i64: 1, 0>} : (tensor<50x50x$T>) -> tensor<50x50x$T>
      %2 = nn.sub %0, %1 : (tensor<50x50x$T>, tensor<50x50x$T>) -> tensor<50x50x$T>
      %3 = nn.add %2, %x : (tensor<50x50x$T>, tensor<50x50x$T>) -> tensor<50x50x$T>
      return %2, %3 : tensor<50x50x$T>, tensor<50x50x$T>
    })",
             {"f64", "f32", "bf16", "i64"});
  checkKernels(R"(
    func.func @mask(%m: tensor<40x41xi1>, %x: tensor<41x40xf32>) -> tensor<41x40xf32> {
      %0 = nn.permute %m {permutation = array<i64: 1, 0>} : (tensor<40x41xi1>) -> tensor<41x40xi1>
      %1 = nn.neg %x : (tensor<41x40xf32>) -> tensor<41x40xf32>
      %2 = nn.select %0, %x, %1 : (tensor<41x40xi1>, tensor<41x40xf32>, tensor<41x40xf32>) -> tensor<41x40xf32>
      return %2 : tensor<41x40xf32>
    })");
}
