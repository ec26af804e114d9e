//===- DescentTest.cpp - signatures by coordinate descent -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Descent.h"
#include "ProblemBuilder.h"
#include "gtest/gtest.h"

using namespace tandem::cost;
using namespace tandem::cost::test;
using tandem::search::Descent;

namespace {
enum Op { Input, Weight, Product, Gradient, Update, Output };

/// A product with a weight, its gradient and update, on one axis of two.
struct Layer : ProblemBuilder {
  Layer() {
    addAxis("data", 2, perByte(1));
    addParts();
  }
  void addParts() {
    unsigned x = addTensor("x", {64, 32}), w = addTensor("w", {32, 32}),
             y = addTensor("y", {64, 32}), g = addTensor("g", {32, 32}),
             n = addTensor("n", {32, 32});
    addInput(x, {signature(">f"), signature(">0")});
    addResident(w, {signature(">f"), signature(">0")});
    addCompute(Pass::Forward, {x, w}, {y},
               {signature("f,f>f"), signature("0,f>0"), signature("f,1>1")});
    addCompute(Pass::Backward, {x, y}, {g},
               {signature("f,f>f"), signature("0,0>r")});
    addCompute(Pass::Update, {w, g}, {n},
               {signature("f,f>f"), signature("0,0>0")});
    addOutput(Pass::Update, n, {signature("f>"), signature("0>")});
  }
  /// The signature of each operator, the input being split, the weight stored
  /// in form `stored`.
  std::vector<unsigned> decide(unsigned stored) {
    Descent descent(problem);
    auto take = [&](unsigned op, unsigned index) {
      const Signature &taken = problem.getSignatures(op)[index];
      descent.keep(op, [&](const Signature &other) { return other == taken; });
    };
    take(Input, 1);
    take(Weight, stored);
    take(Output, stored);
    descent.keep(Product, [](const Signature &signature) {
      return signature.operands[1] == layout("f");
    });
    descent.decide({0, /*isBatchAxis=*/true});
    return descent.getPlan().signatures;
  }
};
} // namespace

TEST(Descent, SumsGradientsOfABatchThatIsSplit) {
  EXPECT_EQ(Layer().decide(0), (std::vector<unsigned>{1, 0, 1, 1, 0, 0}));
}

TEST(Descent, UpdatesTheShardsOfAWeight) {
  EXPECT_EQ(Layer().decide(1), (std::vector<unsigned>{1, 1, 1, 1, 1, 1}));
}

TEST(Descent, LeavesAllSignaturesWhereNoneIsAllowed) {
  Layer layer;
  Descent descent(layer.problem);
  descent.keep(Product, [](const Signature &) { return false; });
  descent.keep(Product, [](const Signature &signature) {
    return signature.operands[1] == layout("1");
  });
  EXPECT_EQ(descent.getPlan().signatures[Product], 2u);
}
