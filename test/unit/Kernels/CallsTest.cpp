//===- CallsTest.cpp - kernels that call kernels --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "KernelRunner.h"
#include "tandem/Reference/Interpreter.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace tandem;
using namespace tandem::test;

namespace {
class Calls : public testing::Test {
protected:
  void load(const std::string &text, KernelOptions options = {}) {
    module = parse(*context, text);
    ASSERT_TRUE(module);
    options.useCache = false;
    kernels = std::make_unique<LoadedKernels>(*module, options);
    ASSERT_EQ(kernels->getError(), "");
  }
  func::FuncOp find(StringRef name) {
    return module->lookupSymbol<func::FuncOp>(name);
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<LoadedKernels> kernels;
};
} // namespace

/// A kernel that has parts, and one that has none.
static constexpr char kCalled[] = R"(
  func.func @neg(%x: tensor<600x5xf32>) -> tensor<600x5xf32> {
    %0 = nn.neg %x : (tensor<600x5xf32>) -> tensor<600x5xf32>
    return %0 : tensor<600x5xf32>
  }
  func.func @sums(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
    %0 = nn.cumsum %x {dim = 0 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %1 = nn.sub %x, %y : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    return %0, %1 : tensor<4x3xf32>, tensor<4x3xf32>
  })";

TEST_F(Calls, HaveTheirBuffers) {
  ASSERT_NO_FATAL_FAILURE(load(std::string(kCalled) + R"(
    func.func @both(%a: tensor<600x5xf32>, %x: tensor<4x3xf32>, %y: tensor<4x3xf32>, %b: tensor<600x5xf32>) -> (tensor<600x5xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<600x5xf32>) {
      %0 = call @neg(%a) : (tensor<600x5xf32>) -> tensor<600x5xf32>
      %1:2 = call @sums(%x, %y) : (tensor<4x3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
      %2 = call @neg(%b) : (tensor<600x5xf32>) -> tensor<600x5xf32>
      return %0, %1#0, %1#1, %2 : tensor<600x5xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<600x5xf32>
    })"));
  // On a GPU a kernel has the code of those that it calls.
  EXPECT_EQ(kernels->getCompiled().numCompiled,
            EmulatedKernels::areWanted() ? 1u : 3u);
  std::vector<Tensor> inputs = makeInputs(find("both"), 3);
  std::vector<Tensor> results = kernels->run(find("both"), inputs);
  auto expect = [&](StringRef callee, size_t first, size_t count,
                    size_t result) {
    std::vector<Tensor> expected = *reference::interpret(
        find(callee), {}, ArrayRef(inputs).slice(first, count));
    for (const Tensor &each : expected)
      EXPECT_LE(compare(results[result++], each), 1e-6) << callee.str();
  };
  expect("neg", 0, 1, 0);
  expect("sums", 1, 2, 1);
  expect("neg", 3, 1, 3);
}

/// On a GPU what blocks leave for a second launch lies in a scratch.
TEST_F(Calls, HaveTheirScratch) {
  ASSERT_NO_FATAL_FAILURE(load(R"(
    func.func @columns(%x: tensor<600x40xf32>) -> tensor<40xf32> {
      %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<600x40xf32>) -> tensor<40xf32>
      return %0 : tensor<40xf32>
    }
    func.func @both(%a: tensor<600x40xf32>, %b: tensor<600x40xf32>) -> (tensor<40xf32>, tensor<40xf32>) {
      %0 = call @columns(%a) : (tensor<600x40xf32>) -> tensor<40xf32>
      %1 = call @columns(%b) : (tensor<600x40xf32>) -> tensor<40xf32>
      return %0, %1 : tensor<40xf32>, tensor<40xf32>
    })"));
  std::vector<Tensor> inputs = makeInputs(find("both"), 3);
  std::vector<Tensor> results = kernels->run(find("both"), inputs);
  for (size_t call = 0; call < 2; ++call) {
    std::vector<Tensor> expected = *reference::interpret(
        find("columns"), {}, ArrayRef(inputs).slice(call, 1));
    EXPECT_LE(compare(results[call], expected.front()), 1e-5) << call;
  }
}

/// Also on a GPU, where who calls has the code.
TEST_F(Calls, LeaveTheirCodeToKernelsThatAreLaunched) {
  KernelOptions options;
  options.launched.insert("neg");
  ASSERT_NO_FATAL_FAILURE(load(std::string(kCalled) + R"(
    func.func @twice(%a: tensor<600x5xf32>, %b: tensor<600x5xf32>) -> (tensor<600x5xf32>, tensor<600x5xf32>) {
      %0 = call @neg(%a) : (tensor<600x5xf32>) -> tensor<600x5xf32>
      %1 = call @neg(%b) : (tensor<600x5xf32>) -> tensor<600x5xf32>
      return %0, %1 : tensor<600x5xf32>, tensor<600x5xf32>
    })",
                               options));
  for (StringRef name : {"neg", "twice"}) {
    auto function = find(name);
    std::vector<Tensor> inputs = makeInputs(function, 3);
    for (const Tensor &result : kernels->run(function, inputs)) {
      Tensor expected =
          reference::interpret(find("neg"), {}, ArrayRef(inputs).take_front(1))
              ->front();
      EXPECT_LE(compare(result, expected), 1e-6) << name.str();
      inputs.erase(inputs.begin());
    }
  }
}

static void expectRefusedCalls(StringRef body, StringRef error) {
  std::unique_ptr<MLIRContext> context = makeContext();
  auto module =
      parse(*context,
            std::string(kCalled) +
                "func.func @k(%a: tensor<600x5xf32>) -> tensor<600x5xf32> {" +
                body.str() + "}" + R"(
    func.func @below(%a: tensor<600x5xf32>) -> tensor<600x5xf32> {
      return %a : tensor<600x5xf32>
    })");
  ASSERT_TRUE(module);
  KernelOptions options;
  options.useCache = false;
  std::string text;
  ScopedDiagnosticHandler handler(
      context.get(), [&](Diagnostic &diagnostic) { text = diagnostic.str(); });
  EXPECT_TRUE(failed(compileKernels(*module, options)));
  EXPECT_EQ(text, error);
}

TEST_F(Calls, AreOfKernelsAbove) {
  constexpr char kType[] = ": (tensor<600x5xf32>) -> tensor<600x5xf32>\n";
  constexpr char kReturn[] = "return %0 : tensor<600x5xf32>";
  auto write = [&](StringRef first, StringRef second = "") {
    std::string text = ("%0 = " + first + kType).str();
    if (!second.empty())
      text += ("%1 = " + second + kType).str();
    return text + kReturn;
  };
  expectRefusedCalls(write("call @below(%a)"),
                     "calls @below, expected a kernel above that takes no "
                     "coordinate and draws nothing");
  expectRefusedCalls(write("call @neg(%a)", "nn.exp %a"),
                     "operator 'nn.exp' in a kernel of calls, expected calls "
                     "alone");
  expectRefusedCalls(write("call @neg(%a)", "call @neg(%0)"),
                     "in a kernel of calls, expected arguments of the kernel "
                     "as operands, and results to be returned in order");
}
