//===- Cases.h - operators to try in every combination of forms *- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A case is an operator as text, in which {a}, {b} and {c} stand for sizes that
// are chosen at random, and where the values of its operands lie. Sizes and
// values avoid coincidences: an operator on zeros or ones would allow more
// forms than its rule, which knows no values.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_REFERENCE_CASES_H
#define TANDEM_TEST_UNIT_REFERENCE_CASES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Reference/Tensor.h"
#include <random>

namespace tandem::reference::test {

/// Where the elements of an operand lie: [low, high], of either sign if
/// `signs`.
struct Range {
  double low = 0.5, high = 2;
  bool signs = true;
  double zeros = 0; // the part of them that is zero (of truth values: false)
};

/// Integers that are indices of a dimension of size `n`.
inline Range indicesOf(int n) { return {0, n - 1.0, false}; }
/// Positive numbers, for roots, logarithms and divisors.
inline constexpr Range kPositive = {0.5, 2, false};
/// Large enough that rounding to integers loses no operand.
inline constexpr Range kWide = {1, 9, true};
/// Mostly zero, so that what is seldom is not always there.
inline constexpr Range kSparse = {0.5, 2, true, 0.9};
inline constexpr Range kHalf = {0.5, 2, true, 0.5};

struct Case {
  std::string text;
  std::vector<Range> ranges = {}; // one per operand; missing ones are Range()
  bool areEqual = false;          // operands hold the values of operand 0
  /// Name of the operator: `nn.add`.
  std::string getName() const;
};

/// Those of attention (AttentionCases.cpp), which `getCases` has.
std::vector<Case> makeAttentionCases();
/// At least one case per operator of nn.
const std::vector<Case> &getCases();

using Generator = std::mt19937_64;

/// A module with one function, whose body is the operator of a case with random
/// sizes.
class Instance {
public:
  Instance(mlir::MLIRContext &context, const Case &source,
           Generator &generator);

  mlir::Operation *getOp() const { return op; }
  bool areEqual() const { return source.areEqual; }
  /// Random values for the operands.
  std::vector<Tensor> makeOperands(Generator &generator) const;
  /// Random values in the range of operand `index`, of any shape.
  Tensor makeValue(unsigned index, mlir::RankedTensorType type,
                   Generator &generator) const;

private:
  const Case &source;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Operation *op = nullptr;
};

} // namespace tandem::reference::test

#endif // TANDEM_TEST_UNIT_REFERENCE_CASES_H
