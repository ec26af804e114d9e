//===- RuleTest.cpp - rules and their signatures ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Dialect/NN/NN.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
class RuleTest : public testing::Test {
protected:
  RuleTest() {
    context.allowUnregisteredDialects();
    context.loadDialect<func::FuncDialect, nn::NNDialect, SPMDDialect>();
  }

  /// An operator, of no dialect, on tensors of these shapes.
  Operation *makeOp(ArrayRef<std::vector<int64_t>> operands,
                    ArrayRef<std::vector<int64_t>> results) {
    Location loc = UnknownLoc::get(&context);
    Type f32 = Float32Type::get(&context);
    OperationState state(loc, "test.op");
    for (const auto &shape : operands)
      state.operands.push_back(
          block.addArgument(RankedTensorType::get(shape, f32), loc));
    for (const auto &shape : results)
      state.types.push_back(RankedTensorType::get(shape, f32));
    block.push_back(Operation::create(state));
    return &block.back();
  }

  std::vector<std::string> enumerate(Operation *op, StringRef text,
                                     StringRef linear, int64_t axisSize) {
    std::vector<std::string> signatures;
    for (const Signature &it : parseRule(op, text, linear).enumerate(axisSize))
      signatures.push_back(it.str());
    return signatures;
  }

  MLIRContext context;
  Block block;
};

using Texts = std::vector<std::string>;
} // namespace

TEST_F(RuleTest, MatmulHasItsFiveSignaturesAndMore) {
  Operation *op = makeOp({{2, 8, 4}, {2, 4, 6}}, {{2, 8, 6}});
  EXPECT_EQ(
      enumerate(op, "(... m k), (... k n) -> (... m n)", "0 | 1", 2),
      (Texts{"full, full -> full", "gather(0), gather(0) -> gather(0)",
             "gather(1), full -> gather(1)", "gather(2), gather(1) -> reduce",
             "full, gather(2) -> gather(2)", "reduce, full -> reduce",
             "full, reduce -> reduce"}));
}

TEST_F(RuleTest, OnlyFactorsThatDivideAreSplit) {
  Operation *op = makeOp({{8, 6}}, {{8, 6}});
  EXPECT_EQ(enumerate(op, "(a b) -> (a b)", "", 4),
            (Texts{"full -> full", "gather(0) -> gather(0)"}));
}

TEST_F(RuleTest, MarkedFactorsStayWhole) {
  Operation *op = makeOp({{8, 8}}, {{8, 8}});
  EXPECT_EQ(enumerate(op, "(a b!) -> (a b!)", "", 2),
            (Texts{"full -> full", "gather(0) -> gather(0)"}));
}

TEST_F(RuleTest, OperandsThatAreLinearTogetherPassReduceTogether) {
  Operation *op = makeOp({{3}, {3}}, {{3}});
  EXPECT_EQ(enumerate(op, "(a), (a) -> (a)", "0 1", 2),
            (Texts{"full, full -> full", "reduce, reduce -> reduce"}));
}

TEST_F(RuleTest, OnlyTheMajorFactorOfACompoundDimensionIsSplit) {
  Operation *op = makeOp({{4, 8}}, {{32}});
  EXPECT_EQ(enumerate(op, "(a b) -> ((a b))", "", 2),
            (Texts{"full -> full", "gather(0) -> gather(0)"}));
  // A major factor of size 1 does not count.
  Operation *flat = makeOp({{1, 8}}, {{8}});
  EXPECT_EQ(enumerate(flat, "(a b) -> ((a b))", "", 2),
            (Texts{"full -> full", "gather(1) -> gather(0)"}));
}

TEST_F(RuleTest, DimensionsOfSizeOneAreNeverSplit) {
  Operation *op = makeOp({{8, 1}}, {{8}});
  EXPECT_EQ(enumerate(op, "(a 1) -> (a)", "", 2),
            (Texts{"full -> full", "gather(0) -> gather(0)"}));
}

TEST_F(RuleTest, TrailingOperandsMayBeAbsent) {
  Operation *op = makeOp({{4}}, {{4}});
  EXPECT_EQ(enumerate(op, "(a), (a) -> (a), (a)", "", 2),
            (Texts{"full -> full", "gather(0) -> gather(0)"}));
}

TEST_F(RuleTest, SplittingDividesTheFactor) {
  Operation *op = makeOp({{8}}, {{8}});
  Rule rule = parseRule(op, "(a) -> (a)", "0");
  Signature gather{{AxisForm::gather(0)}, {AxisForm::gather(0)}};
  Signature reduce{{AxisForm::reduce()}, {AxisForm::reduce()}};
  EXPECT_TRUE(succeeded(rule.split(gather, 4)));
  EXPECT_EQ(rule.factors[0].size, 2);
  EXPECT_TRUE(failed(rule.split(gather, 4))) << "two elements are left";
  EXPECT_TRUE(succeeded(rule.split(reduce, 4)));
  EXPECT_TRUE(succeeded(rule.split(gather, 2)));
}

TEST_F(RuleTest, ReshapesFactorIntoCommonPieces) {
  auto module = parseSourceString<ModuleOp>(
      "func.func @f(%x: tensor<20x6xf32>) {\n"
      "  %0 = nn.reshape %x : (tensor<20x6xf32>) -> tensor<12x10xf32>\n"
      "  return }",
      &context);
  ASSERT_TRUE(module);
  module->walk([](nn::ReshapeOp op) {
    Rule rule = op.getRule();
    ASSERT_EQ(rule.factors.size(), 1u);
    EXPECT_EQ(rule.factors[0].size, 4) << "the common factor of 20 and 12";
  });
}

using RuleDeathTest = RuleTest;

TEST_F(RuleDeathTest, TextsThatDoNotFitAreFatal) {
  Operation *op = makeOp({{8, 4}}, {{8}});
  EXPECT_DEATH(parseRule(op, "(a) -> (a)", ""),
               "does not fit a tensor of rank 2");
  EXPECT_DEATH(parseRule(op, "(a a) -> (a)", ""),
               "factor a does not fit a dimension of size 4");
  EXPECT_DEATH(parseRule(op, " -> (a)", ""),
               "the operator has more operands or results");
  EXPECT_DEATH(parseRule(op, "a b -> (a)", ""), "expected '\\('");
  EXPECT_DEATH(parseRule(op, "(a b) -> (a)", "0 one"),
               "expected a number, not one");
}
