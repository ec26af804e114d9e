//===- FusionTest.cpp - groups compute equal results ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Fusion.h"
#include "KernelRunner.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Reference/Interpreter.h"
#include <gtest/gtest.h>
#include <map>

using namespace mlir;
using namespace tandem;
using namespace tandem::test;

namespace {

/// The groups of one function, each run as a kernel or by the interpreter.
class Fused {
public:
  explicit Fused(StringRef text) : context(makeContext()) {
    source = parse(*context, text);
    if (!source)
      return;
    function = *source->getOps<func::FuncOp>().begin();
    groups =
        formFusionGroups(function.front(), findDevice(kDefaultDevice)->fusion);
  }

  unsigned count(FusionGroup::Kind kind) const {
    return llvm::count_if(
        groups, [&](const FusionGroup &group) { return group.kind == kind; });
  }
  unsigned countKernels() const { return count(FusionGroup::Kind::Kernel); }

  FusionGroup::Kind getFirstKind() const { return groups.front().kind; }

  /// Expects the results of the groups, run in their order, to be those of the
  /// function.
  void check(double tolerance);

private:
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> source;
  func::FuncOp function;
  SmallVector<FusionGroup> groups;
};

void Fused::check(double tolerance) {
  ASSERT_TRUE(source);
  OwningOpRef<ModuleOp> module = ModuleOp::create(source->getLoc());
  std::vector<func::FuncOp> outlined;
  for (auto [index, group] : llvm::enumerate(groups))
    outlined.push_back(outlineGroup(group, getGroupInputs(group),
                                    getGroupOutputs(group, groups), *module,
                                    ("k" + Twine(index)).str()));
  OwningOpRef<ModuleOp> compiled = ModuleOp::create(source->getLoc());
  for (auto [group, kernel] : llvm::zip(groups, outlined))
    if (group.kind == FusionGroup::Kind::Kernel)
      compiled->push_back(kernel->clone());
  KernelOptions options;
  options.useCache = false;
  LoadedKernels kernels(*compiled, options);
  ASSERT_EQ(kernels.getError(), "");

  std::vector<Tensor> inputs = makeInputs(function, 3);
  DenseMap<Value, Tensor> values;
  for (auto [argument, input] : llvm::zip(function.getArguments(), inputs))
    values[argument] = input;
  for (auto [group, kernel] : llvm::zip(groups, outlined)) {
    std::vector<Tensor> args, results;
    for (Value value : getGroupInputs(group)) {
      ASSERT_TRUE(values.contains(value)) << "read before it is made";
      args.push_back(values[value]);
    }
    if (group.kind == FusionGroup::Kind::Kernel)
      results = kernels.run(kernel, args);
    else
      results = *reference::interpret(kernel, {}, args);
    for (auto [value, result] :
         llvm::zip(getGroupOutputs(group, groups), results))
      values[value] = result;
  }
  auto expected = reference::interpret(function, {}, inputs);
  ASSERT_TRUE(succeeded(expected));
  Operation *terminator = function.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    ASSERT_TRUE(values.contains(value)) << "result " << index;
    EXPECT_LE(compare(values[value], (*expected)[index]), tolerance)
        << "result " << index;
  }
}

} // namespace

TEST(Fusion, BiasAndGeluAreOneKernelBehindAProduct) {
  Fused fused(R"(
    func.func @f(%x: tensor<6x8xf32>, %w: tensor<8x10xf32>, %b: tensor<10xf32>) -> tensor<6x10xf32> {
      %0 = nn.matmul %x, %w : (tensor<6x8xf32>, tensor<8x10xf32>) -> tensor<6x10xf32>
      %1 = nn.reshape %0 : (tensor<6x10xf32>) -> tensor<2x3x10xf32>
      %2 = nn.add %1, %b : (tensor<2x3x10xf32>, tensor<10xf32>) -> tensor<2x3x10xf32>
      %3 = nn.gelu none %2 : (tensor<2x3x10xf32>) -> tensor<2x3x10xf32>
      %4 = nn.reshape %3 : (tensor<2x3x10xf32>) -> tensor<6x10xf32>
      return %4 : tensor<6x10xf32>
    })");
  EXPECT_EQ(fused.countKernels(), 1u);
  EXPECT_EQ(fused.count(FusionGroup::Kind::Library), 1u);
  EXPECT_EQ(fused.count(FusionGroup::Kind::View), 1u);
  fused.check(2e-6);
}

TEST(Fusion, GeluBackwardAndBiasGradientAreOneKernel) {
  Fused fused(R"(
    func.func @f(%dy: tensor<2x3x10xf32>, %x: tensor<2x3x10xf32>) -> (tensor<6x10xf32>, tensor<10xf32>) {
      %0 = nn.gelu_backward none %dy, %x : (tensor<2x3x10xf32>, tensor<2x3x10xf32>) -> tensor<2x3x10xf32>
      %1 = nn.reshape %0 : (tensor<2x3x10xf32>) -> tensor<6x10xf32>
      %2 = nn.sum %1 {dims = array<i64: 0>} : (tensor<6x10xf32>) -> tensor<10xf32>
      return %1, %2 : tensor<6x10xf32>, tensor<10xf32>
    })");
  EXPECT_EQ(fused.countKernels(), 1u);
  fused.check(2e-6);
}

TEST(Fusion, LayerNormWithResidualIsOneKernelEachWay) {
  Fused fused(R"(
    func.func @f(%x: tensor<2x3x16xf32>, %r: tensor<2x3x16xf32>, %w: tensor<16xf32>, %b: tensor<16xf32>, %dy: tensor<2x3x16xf32>) -> (tensor<6x16xf32>, tensor<2x3x16xf32>, tensor<16xf32>, tensor<16xf32>) {
      %s = nn.add %x, %r : (tensor<2x3x16xf32>, tensor<2x3x16xf32>) -> tensor<2x3x16xf32>
      %0:3 = nn.layer_norm %s, %w, %b {normalized_rank = 1 : i64, eps = 1.0e-5 : f64} : (tensor<2x3x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x3x16xf32>, tensor<2x3x1xf32>, tensor<2x3x1xf32>)
      %1 = nn.reshape %0#0 : (tensor<2x3x16xf32>) -> tensor<6x16xf32>
      %w2 = nn.reshape %w : (tensor<16xf32>) -> tensor<16x1xf32>
      %m = nn.matmul %1, %w2 : (tensor<6x16xf32>, tensor<16x1xf32>) -> tensor<6x1xf32>
      %m3 = nn.reshape %m : (tensor<6x1xf32>) -> tensor<2x3x1xf32>
      %g = nn.mul %dy, %m3 : (tensor<2x3x16xf32>, tensor<2x3x1xf32>) -> tensor<2x3x16xf32>
      %2:3 = nn.layer_norm_backward %g, %s, %0#1, %0#2, %w {normalized_rank = 1 : i64} : (tensor<2x3x16xf32>, tensor<2x3x16xf32>, tensor<2x3x1xf32>, tensor<2x3x1xf32>, tensor<16xf32>) -> (tensor<2x3x16xf32>, tensor<16xf32>, tensor<16xf32>)
      %3 = nn.add %2#0, %dy : (tensor<2x3x16xf32>, tensor<2x3x16xf32>) -> tensor<2x3x16xf32>
      return %1, %3, %2#1, %2#2 : tensor<6x16xf32>, tensor<2x3x16xf32>, tensor<16xf32>, tensor<16xf32>
    })");
  EXPECT_EQ(fused.countKernels(), 2u);
  fused.check(2e-6);
}

TEST(Fusion, MaskedSoftmaxWithDropoutIsOneKernel) {
  Fused fused(R"(
    func.func @f(%x: tensor<2x2x8x8xf32>, %seed: tensor<i64>, %step: tensor<i64>) -> (tensor<2x2x8x8xf32>, tensor<2x2x8x8xi1>) {
      %i = nn.iota : tensor<8xi64>
      %r = nn.reshape %i : (tensor<8xi64>) -> tensor<8x1xi64>
      %m = nn.compare le %i, %r : (tensor<8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
      %n = nn.constant dense<0xFF800000> : tensor<f32> -> tensor<f32>
      %0 = nn.select %m, %x, %n : (tensor<8x8xi1>, tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8x8xf32>
      %1 = nn.softmax %0 {dim = 3 : i64} : (tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
      %j = nn.iota : tensor<256xi64>
      %k = nn.reshape %j : (tensor<256xi64>) -> tensor<2x2x8x8xi64>
      %p = nn.philox %k, %seed, %step {ordinal = 1 : i64} : (tensor<2x2x8x8xi64>, tensor<i64>, tensor<i64>) -> tensor<2x2x8x8xi64>
      %t = nn.constant dense<3865470566> : tensor<i64> -> tensor<i64>
      %keep = nn.compare lt %p, %t : (tensor<2x2x8x8xi64>, tensor<i64>) -> tensor<2x2x8x8xi1>
      %z = nn.constant dense<0.0> : tensor<f32> -> tensor<f32>
      %2 = nn.select %keep, %1, %z : (tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8x8xf32>
      return %2, %keep : tensor<2x2x8x8xf32>, tensor<2x2x8x8xi1>
    })");
  EXPECT_EQ(fused.countKernels(), 1u);
  fused.check(2e-6);
}

static const char *kAdamW = R"(
    func.func @adamw(%p: tensor<12x10xf32>, %g: tensor<12x10xf32>, %m: tensor<12x10xf32>, %v: tensor<12x10xf32> {test.low = 0}, %lr: tensor<f32> {test.low = 0, test.high = 1}, %c1: tensor<f32> {test.low = 1}, %c2: tensor<f32> {test.low = 1}) -> (tensor<12x10xf32>, tensor<12x10xf32>, tensor<12x10xf32>) {
      %b1 = nn.constant dense<0.9> : tensor<f32> -> tensor<f32>
      %a1 = nn.constant dense<0.1> : tensor<f32> -> tensor<f32>
      %b2 = nn.constant dense<0.999> : tensor<f32> -> tensor<f32>
      %a2 = nn.constant dense<0.001> : tensor<f32> -> tensor<f32>
      %eps = nn.constant dense<1.0e-8> : tensor<f32> -> tensor<f32>
      %one = nn.constant dense<1.0> : tensor<f32> -> tensor<f32>
      %wd = nn.constant dense<0.01> : tensor<f32> -> tensor<f32>
      %0 = nn.mul %m, %b1 : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %1 = nn.mul %g, %a1 : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %m2 = nn.add %0, %1 : (tensor<12x10xf32>, tensor<12x10xf32>) -> tensor<12x10xf32>
      %2 = nn.mul %v, %b2 : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %3 = nn.mul %g, %g : (tensor<12x10xf32>, tensor<12x10xf32>) -> tensor<12x10xf32>
      %4 = nn.mul %3, %a2 : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %v2 = nn.add %2, %4 : (tensor<12x10xf32>, tensor<12x10xf32>) -> tensor<12x10xf32>
      %5 = nn.div %v2, %c2 : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %6 = nn.sqrt %5 : (tensor<12x10xf32>) -> tensor<12x10xf32>
      %7 = nn.add %6, %eps : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %8 = nn.div %m2, %c1 : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %9 = nn.div %8, %7 : (tensor<12x10xf32>, tensor<12x10xf32>) -> tensor<12x10xf32>
      %10 = nn.mul %9, %lr : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %11 = nn.mul %lr, %wd : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %12 = nn.sub %one, %11 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %13 = nn.mul %p, %12 : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %p2 = nn.sub %13, %10 : (tensor<12x10xf32>, tensor<12x10xf32>) -> tensor<12x10xf32>
      return %p2, %m2, %v2 : tensor<12x10xf32>, tensor<12x10xf32>, tensor<12x10xf32>
    })";

/// The scalars make a kernel of their own, which all updates share.
TEST(Fusion, AdamWIsOneKernel) {
  Fused fused(kAdamW);
  EXPECT_EQ(fused.countKernels(), 2u);
  fused.check(4e-6);
}

/// The only kernel of the module gives the same bits where results lie in place
/// of inputs.
static void expectEqualInPlace(ModuleOp module,
                               ArrayRef<std::pair<size_t, size_t>> places) {
  auto function = *module.getOps<func::FuncOp>().begin();
  KernelOptions options;
  options.useCache = false;
  LoadedKernels kernels(module, options);
  ASSERT_EQ(kernels.getError(), "");
  std::vector<Tensor> inputs = makeInputs(function, 5);
  std::vector<Tensor> expected = kernels.run(function, inputs);
  std::vector<std::vector<char>> buffers;
  for (const Tensor &tensor : llvm::concat<const Tensor>(inputs, expected))
    buffers.push_back(toBytes(tensor));
  std::vector<llvm::MutableArrayRef<char>> ranges(buffers.begin(),
                                                  buffers.end());
  for (auto [input, result] : places)
    ranges[inputs.size() + result] = buffers[input];
  kernels.runOn(function.getName(), ranges, /*scalars=*/{});
  for (auto [input, result] : places) {
    Tensor actual = fromBytes(buffers[input], inputs[input].getType());
    EXPECT_TRUE(actual.isIdenticalTo(expected[result])) << result;
  }
}

TEST(Fusion, AdamWMayBeInPlace) {
  std::unique_ptr<MLIRContext> context = makeContext();
  auto module = parse(*context, kAdamW);
  auto function = *module->getOps<func::FuncOp>().begin();
  EXPECT_TRUE(mayAlias(function, 0, 0));  // parameter
  EXPECT_TRUE(mayAlias(function, 2, 1));  // first moment
  EXPECT_TRUE(mayAlias(function, 3, 2));  // second moment
  EXPECT_TRUE(mayAlias(function, 1, 0));  // gradient, read for all of them
  EXPECT_FALSE(mayAlias(function, 1, 1)); // the second moment needs it, too
  EXPECT_FALSE(mayAlias(function, 4, 0)); // another type

  expectEqualInPlace(*module, {{0, 0}, {2, 1}, {3, 2}});
}

/// The parameter is scaled by its own norm, and a moment is read by what is not
/// its own next value; numbers are updated as well.
constexpr char kNormed[] = R"(
    func.func @normed(%p: tensor<12x10xf32>, %g: tensor<12x10xf32>, %v: tensor<12x10xf32>, %w: tensor<12x10xf32>) -> (tensor<12x10xf32>, tensor<12x10xf32>, tensor<12x10xf32>) {
      %0 = nn.mul %p, %p : (tensor<12x10xf32>, tensor<12x10xf32>) -> tensor<12x10xf32>
      %1 = nn.sum %0 {dims = array<i64: 0, 1>} : (tensor<12x10xf32>) -> tensor<f32>
      %2 = nn.sqrt %1 : (tensor<f32>) -> tensor<f32>
      %v2 = nn.add %v, %g : (tensor<12x10xf32>, tensor<12x10xf32>) -> tensor<12x10xf32>
      %3 = nn.mul %v2, %2 : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %4 = nn.neg %w : (tensor<12x10xf32>) -> tensor<12x10xf32>
      %w2 = nn.exp %4 : (tensor<12x10xf32>) -> tensor<12x10xf32>
      %5 = nn.mul %4, %2 : (tensor<12x10xf32>, tensor<f32>) -> tensor<12x10xf32>
      %6 = nn.add %3, %5 : (tensor<12x10xf32>, tensor<12x10xf32>) -> tensor<12x10xf32>
      %p2 = nn.sub %p, %6 : (tensor<12x10xf32>, tensor<12x10xf32>) -> tensor<12x10xf32>
      return %p2, %v2, %w2 : tensor<12x10xf32>, tensor<12x10xf32>, tensor<12x10xf32>
    })";

TEST(Fusion, AnUpdateByTheNormMayBeInPlace) {
  std::unique_ptr<MLIRContext> context = makeContext();
  auto module = parse(*context, kNormed);
  auto function = *module->getOps<func::FuncOp>().begin();
  EXPECT_TRUE(mayAlias(function, 0, 0));
  EXPECT_TRUE(mayAlias(function, 2, 1));
  // What is computed of it in the loop that knows the norm.
  EXPECT_FALSE(mayAlias(function, 3, 2));
  expectEqualInPlace(*module, {{0, 0}, {2, 1}});
}

/// A moment becomes 0 where the number `%c` says so, which is known
/// before the moment is read; what is left of it goes into the parameter.
constexpr char kChosen[] = R"(
    func.func @chosen(%p: tensor<3x6xf64>, %m: tensor<3x6xf64>, %v: tensor<3x6xf64>, %c: tensor<f64>) -> (tensor<3x6xf64>, tensor<3x6xf64>, tensor<3x6xf64>) {
      %0 = nn.constant dense<0.0> : tensor<f64> -> tensor<f64>
      %1 = nn.compare gt %c, %0 : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %2 = nn.add %p, %m : (tensor<3x6xf64>, tensor<3x6xf64>) -> tensor<3x6xf64>
      %3 = nn.select %1, %0, %m : (tensor<i1>, tensor<f64>, tensor<3x6xf64>) -> tensor<3x6xf64>
      %4 = nn.exp %v : (tensor<3x6xf64>) -> tensor<3x6xf64>
      %5 = nn.select %1, %v, %4 : (tensor<i1>, tensor<3x6xf64>, tensor<3x6xf64>) -> tensor<3x6xf64>
      %6 = nn.add %2, %4 : (tensor<3x6xf64>, tensor<3x6xf64>) -> tensor<3x6xf64>
      return %6, %3, %5 : tensor<3x6xf64>, tensor<3x6xf64>, tensor<3x6xf64>
    })";

TEST(Fusion, WhatASelectionMayLeaveOutIsNotInPlace) {
  std::unique_ptr<MLIRContext> context = makeContext();
  auto module = parse(*context, kChosen);
  auto function = *module->getOps<func::FuncOp>().begin();
  EXPECT_TRUE(mayAlias(function, 0, 0));
  EXPECT_FALSE(mayAlias(function, 1, 1)); // the parameter needs it, too
  EXPECT_TRUE(mayAlias(function, 2, 2));  // both choices need it
  expectEqualInPlace(*module, {{0, 0}, {2, 2}});
}

TEST(Fusion, NumbersMayBeInPlace) {
  std::unique_ptr<MLIRContext> context = makeContext();
  auto module = parse(*context, R"(
    func.func @f(%m: tensor<f32>, %n: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
      %0 = nn.mul %m, %m : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %1 = nn.sqrt %0 : (tensor<f32>) -> tensor<f32>
      %2 = nn.exp %n : (tensor<f32>) -> tensor<f32>
      %3 = nn.add %n, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
    })");
  auto function = *module->getOps<func::FuncOp>().begin();
  EXPECT_TRUE(mayAlias(function, 0, 0));
  EXPECT_FALSE(mayAlias(function, 1, 2)); // the sum needs it, too
  expectEqualInPlace(*module, {{0, 0}});
}

TEST(Fusion, RowsAreAddedToAProduct) {
  for (auto [type, tolerance] :
       {std::pair("f64", 1e-12), {"f32", 1e-5}, {"bf16", 2e-2}}) {
    std::string text = R"(
      func.func @f(%x: tensor<5x6xT>, %y: tensor<6x4xT>, %g: tensor<9x4xT>, %i: tensor<9xi64> {test.low = 0, test.high = 5}) -> tensor<5x4xT> {
        %0 = nn.matmul %x, %y : (tensor<5x6xT>, tensor<6x4xT>) -> tensor<5x4xT>
        %1 = nn.embedding_backward %g, %i : (tensor<9x4xT>, tensor<9xi64>) -> tensor<5x4xT>
        %2 = nn.add %0, %1 : (tensor<5x4xT>, tensor<5x4xT>) -> tensor<5x4xT>
        return %2 : tensor<5x4xT>
      })";
    while (text.find('T') != std::string::npos)
      text.replace(text.find('T'), 1, type);
    Fused fused(text);
    EXPECT_EQ(fused.countKernels(), 1u);
    fused.check(tolerance);
  }
}

TEST(Fusion, RowsAreAddedInPlace) {
  std::unique_ptr<MLIRContext> context = makeContext();
  auto module = parse(*context, R"(
    func.func @f(%b: tensor<3x5x4xf32>, %s: tensor<3x2x4xf32>, %i: tensor<3x2x4xi64> {test.low = 0, test.high = 5}) -> tensor<3x5x4xf32> {
      %0 = nn.scatter_add %s, %i {dim = 1} : (tensor<3x2x4xf32>, tensor<3x2x4xi64>) -> tensor<3x5x4xf32>
      %1 = nn.add %0, %b : (tensor<3x5x4xf32>, tensor<3x5x4xf32>) -> tensor<3x5x4xf32>
      return %1 : tensor<3x5x4xf32>
    })");
  auto function = *module->getOps<func::FuncOp>().begin();
  EXPECT_TRUE(mayAlias(function, 0, 0));
  EXPECT_FALSE(mayAlias(function, 1, 0));
  KernelOptions options;
  options.useCache = false;
  LoadedKernels kernels(*module, options);
  ASSERT_EQ(kernels.getError(), "");
  std::vector<Tensor> inputs = makeInputs(function, 5);
  Tensor expected = kernels.run(function, inputs).front();
  EXPECT_LE(
      compare(expected, reference::interpret(function, {}, inputs)->front()),
      1e-6);
  std::vector<std::vector<char>> buffers;
  for (const Tensor &input : inputs)
    buffers.push_back(toBytes(input));
  std::vector<llvm::MutableArrayRef<char>> ranges(buffers.begin(),
                                                  buffers.end());
  ranges.push_back(buffers[0]);
  kernels.runOn("f", ranges, /*scalars=*/{});
  Tensor actual = fromBytes(buffers[0], inputs[0].getType());
  EXPECT_TRUE(actual.isIdenticalTo(expected));
}

TEST(Fusion, TransposeIsNotInPlace) {
  std::unique_ptr<MLIRContext> context = makeContext();
  auto module = parse(*context, R"(
    func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %0 : tensor<8x8xf32>
    })");
  EXPECT_FALSE(mayAlias(*module->getOps<func::FuncOp>().begin(), 0, 0));
}

TEST(Fusion, NoCycleThroughAProduct) {
  Fused fused(R"(
    func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %0 = nn.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %1 = nn.matmul %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %2 = nn.add %0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %3 = nn.sum %2 {dims = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
      %4 = nn.mul %2, %3 : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
      return %4 : tensor<8x8xf32>
    })");
  // The column sum is complete only behind its kernel.
  EXPECT_EQ(fused.countKernels(), 3u);
  fused.check(2e-6);
}

TEST(Fusion, WhatIsMadeAgainIsInEachKernelThatReadsIt) {
  Fused fused(R"(
    func.func @f(%a: tensor<6x8xf32>, %b: tensor<6x8xf32>, %w: tensor<8x8xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
      %x = nn.exp %a : (tensor<6x8xf32>) -> tensor<6x8xf32>
      %p = nn.matmul %x, %w : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
      %t = nn.add %x, %x {sched.again} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
      %0 = nn.mul %p, %t : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
      %q = nn.matmul %0, %w : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
      %1 = nn.sub %q, %t : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
      return %0, %1 : tensor<6x8xf32>, tensor<6x8xf32>
    })");
  EXPECT_EQ(fused.countKernels(), 3u);
  fused.check(1e-5);
}

// What reads nothing but values that are made again is no source: a product
// reads it, when the kernel of `%x` is done.
TEST(Fusion, ReadersOfWhatIsMadeAgainHaveTheirTurn) {
  Fused fused(R"(
    func.func @f(%a: tensor<6x8xf32>, %w: tensor<8x8xbf16>) -> (tensor<6x8xf32>, tensor<6x8xbf16>) {
      %x = nn.exp %a : (tensor<6x8xf32>) -> tensor<6x8xf32>
      %t = nn.add %x, %x {sched.again} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
      %0 = nn.convert %t : (tensor<6x8xf32>) -> tensor<6x8xbf16>
      %1 = nn.matmul %0, %w : (tensor<6x8xbf16>, tensor<8x8xbf16>) -> tensor<6x8xbf16>
      return %x, %1 : tensor<6x8xf32>, tensor<6x8xbf16>
    })");
  EXPECT_EQ(fused.count(FusionGroup::Kind::Library), 1u);
  fused.check(2e-2);
}

// As the statistics of a normalization do, whose kernel makes more than these.
TEST(Fusion, WhatIsOnlyReturnedDoesNotDelayItsKernel) {
  Fused fused(R"(
    func.func @f(%a: tensor<6x8xf32>, %w: tensor<8x8xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>) {
      %x = nn.exp %a : (tensor<6x8xf32>) -> tensor<6x8xf32>
      %0 = nn.matmul %x, %w : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
      %1 = nn.matmul %a, %w : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
      %2 = nn.add %x, %x : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
      return %0, %1, %2 : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>
    })");
  EXPECT_EQ(fused.countKernels(), 1u);
  EXPECT_EQ(fused.getFirstKind(), FusionGroup::Kind::Kernel);
  fused.check(1e-5);
}

// A product, a view and the terminator read what lies in memory.
TEST(Fusion, WhatOthersReadIsNotMadeAgain) {
  Fused fused(R"(
    func.func @f(%a: tensor<6x8xf32>, %w: tensor<8x8xf32>) -> (tensor<6x8xf32>, tensor<48xf32>, tensor<6x8xf32>) {
      %x = nn.exp %a : (tensor<6x8xf32>) -> tensor<6x8xf32>
      %t = nn.add %x, %x {sched.again} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
      %u = nn.neg %x {sched.again} : (tensor<6x8xf32>) -> tensor<6x8xf32>
      %v = nn.mul %x, %x {sched.again} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
      %0 = nn.matmul %t, %w : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
      %1 = nn.reshape %u : (tensor<6x8xf32>) -> tensor<48xf32>
      return %0, %1, %v : tensor<6x8xf32>, tensor<48xf32>, tensor<6x8xf32>
    })");
  EXPECT_EQ(fused.countKernels(), 1u);
  fused.check(1e-5);
}

TEST(Fusion, CrossEntropyWithMaskedMean) {
  Fused fused(R"(
    func.func @f(%x: tensor<4x6x11xf32>, %t: tensor<4x6xi64> {test.low = 0, test.high = 11}) -> (tensor<f32>, tensor<4x6x11xf32>) {
      %0 = nn.reshape %x : (tensor<4x6x11xf32>) -> tensor<24x11xf32>
      %1 = nn.log_softmax %0 {dim = 1 : i64} : (tensor<24x11xf32>) -> tensor<24x11xf32>
      %2 = nn.reshape %t : (tensor<4x6xi64>) -> tensor<24x1xi64>
      %3 = nn.gather %1, %2 {dim = 1 : i64} : (tensor<24x11xf32>, tensor<24x1xi64>) -> tensor<24x1xf32>
      %ig = nn.constant dense<3> : tensor<i64> -> tensor<i64>
      %4 = nn.compare ne %2, %ig : (tensor<24x1xi64>, tensor<i64>) -> tensor<24x1xi1>
      %z = nn.constant dense<0.0> : tensor<f32> -> tensor<f32>
      %5 = nn.select %4, %3, %z : (tensor<24x1xi1>, tensor<24x1xf32>, tensor<f32>) -> tensor<24x1xf32>
      %6 = nn.sum %5 {dims = array<i64: 0, 1>} : (tensor<24x1xf32>) -> tensor<f32>
      %7 = nn.convert %4 : (tensor<24x1xi1>) -> tensor<24x1xf32>
      %8 = nn.sum %7 {dims = array<i64: 0, 1>} : (tensor<24x1xf32>) -> tensor<f32>
      %9 = nn.div %6, %8 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %10 = nn.neg %9 : (tensor<f32>) -> tensor<f32>
      %11 = nn.iota : tensor<11xi64>
      %12 = nn.compare eq %2, %11 : (tensor<24x1xi64>, tensor<11xi64>) -> tensor<24x11xi1>
      %13 = nn.convert %12 : (tensor<24x11xi1>) -> tensor<24x11xf32>
      %14 = nn.div %13, %8 : (tensor<24x11xf32>, tensor<f32>) -> tensor<24x11xf32>
      %15 = nn.log_softmax_backward %14, %1 {dim = 1 : i64} : (tensor<24x11xf32>, tensor<24x11xf32>) -> tensor<24x11xf32>
      %16 = nn.reshape %15 : (tensor<24x11xf32>) -> tensor<4x6x11xf32>
      return %10, %16 : tensor<f32>, tensor<4x6x11xf32>
    })");
  fused.check(2e-6);
}

TEST(Fusion, RotaryEmbedding) {
  Fused fused(R"(
    func.func @f(%x: tensor<2x5x3x8xf32>) -> tensor<2x3x5x8xf32> {
      %i = nn.iota : tensor<5xi64>
      %c = nn.convert %i : (tensor<5xi64>) -> tensor<5xf32>
      %r = nn.reshape %c : (tensor<5xf32>) -> tensor<5x1xf32>
      %f = nn.iota : tensor<8xi64>
      %f2 = nn.convert %f : (tensor<8xi64>) -> tensor<8xf32>
      %a = nn.mul %r, %f2 : (tensor<5x1xf32>, tensor<8xf32>) -> tensor<5x8xf32>
      %cos = nn.cos %a : (tensor<5x8xf32>) -> tensor<5x8xf32>
      %sin = nn.sin %a : (tensor<5x8xf32>) -> tensor<5x8xf32>
      %q = nn.permute %x {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x3x8xf32>) -> tensor<2x3x5x8xf32>
      %1 = nn.slice %q {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x5x8xf32>) -> tensor<2x3x5x4xf32>
      %2 = nn.slice %q {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x5x8xf32>) -> tensor<2x3x5x4xf32>
      %3 = nn.neg %2 : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
      %4 = nn.cat %3, %1 {dim = 3 : i64} : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x8xf32>
      %5 = nn.mul %q, %cos : (tensor<2x3x5x8xf32>, tensor<5x8xf32>) -> tensor<2x3x5x8xf32>
      %6 = nn.mul %4, %sin : (tensor<2x3x5x8xf32>, tensor<5x8xf32>) -> tensor<2x3x5x8xf32>
      %7 = nn.add %5, %6 : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
      return %7 : tensor<2x3x5x8xf32>
    })");
  fused.check(2e-6);
}

TEST(Fusion, GateOfAMixtureOfExperts) {
  Fused fused(R"(
    func.func @f(%x: tensor<2x6x4xf32>) -> (tensor<2x6x4xf32>, tensor<2x6x1xi64>, tensor<2x4xf32>) {
      %0 = nn.softmax %x {dim = 2 : i64} : (tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
      %v, %i = nn.topk %0 {k = 1 : i64, dim = 2 : i64} : (tensor<2x6x4xf32>) -> (tensor<2x6x1xf32>, tensor<2x6x1xi64>)
      %e = nn.iota : tensor<4xi64>
      %1 = nn.compare eq %i, %e : (tensor<2x6x1xi64>, tensor<4xi64>) -> tensor<2x6x4xi1>
      %2 = nn.convert %1 : (tensor<2x6x4xi1>) -> tensor<2x6x4xi64>
      %3 = nn.cumsum %2 {dim = 1 : i64} : (tensor<2x6x4xi64>) -> tensor<2x6x4xi64>
      %4 = nn.mul %3, %2 : (tensor<2x6x4xi64>, tensor<2x6x4xi64>) -> tensor<2x6x4xi64>
      %cap = nn.constant dense<3> : tensor<i64> -> tensor<i64>
      %5 = nn.compare lt %4, %cap : (tensor<2x6x4xi64>, tensor<i64>) -> tensor<2x6x4xi1>
      %6 = nn.logical_and %1, %5 : (tensor<2x6x4xi1>, tensor<2x6x4xi1>) -> tensor<2x6x4xi1>
      %7 = nn.convert %6 : (tensor<2x6x4xi1>) -> tensor<2x6x4xf32>
      %8 = nn.mul %7, %v : (tensor<2x6x4xf32>, tensor<2x6x1xf32>) -> tensor<2x6x4xf32>
      %9 = nn.sum %7 {dims = array<i64: 1>} : (tensor<2x6x4xf32>) -> tensor<2x4xf32>
      %10 = nn.sum %0 {dims = array<i64: 1>} : (tensor<2x6x4xf32>) -> tensor<2x4xf32>
      %11 = nn.mul %9, %10 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      return %8, %i, %11 : tensor<2x6x4xf32>, tensor<2x6x1xi64>, tensor<2x4xf32>
    })");
  fused.check(2e-6);
}

/// In the group that makes what it reads, and in one that does not.
TEST(Fusion, WhatIsMadeAgainHereAndElsewhereIsReadThere) {
  Fused fused(R"(
    func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
      %0 = nn.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %1 = nn.add %0, %0 {sched.again} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %2 = nn.neg %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %3 = nn.matmul %2, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %4 = nn.mul %3, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      return %2, %4 : tensor<4x8xf32>, tensor<4x8xf32>
    })");
  fused.check(2e-6);
}
