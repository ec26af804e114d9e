//===- BatchMarks.cpp - what comes from the batch -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupSignatures.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

/// The first factor of a dimension that is larger than one: the one that a
/// split of the dimension splits.
static std::optional<unsigned> getFirstFactor(const Rule &rule,
                                              const Rule::Dim &dim) {
  for (unsigned factor : dim)
    if (rule.factors[factor].size > 1)
      return factor;
  return std::nullopt;
}

static uint64_t getFactors(const Rule &rule, const Rule::Dims &dims,
                           uint64_t marked) {
  uint64_t factors = 0;
  for (auto [index, dim] : llvm::enumerate(dims))
    if (auto factor = getFirstFactor(rule, dim); factor && marked >> index & 1)
      factors |= uint64_t(1) << *factor;
  return factors;
}

static uint64_t getDims(const Rule &rule, const Rule::Dims &dims,
                        uint64_t marked) {
  uint64_t result = 0;
  for (auto [index, dim] : llvm::enumerate(dims))
    if (auto factor = getFirstFactor(rule, dim);
        factor && marked >> *factor & 1)
      result |= uint64_t(1) << index;
  return result;
}

/// Not through sources: one count may be that of rows and of positions.
BatchMarks::BatchMarks(const StepGraph &graph,
                       const std::vector<bool> &isSource)
    : factors(graph.ops.size()), dims(graph.values.size()) {
  for (auto [index, argument] : llvm::enumerate(graph.arguments))
    if (argument.role == Role::Input && argument.batchDim >= 0)
      dims[index] = uint64_t(1) << argument.batchDim;
  auto visit = [&](unsigned index) {
    const OpNode &op = graph.ops[index];
    for (auto [i, value] : llvm::enumerate(op.operands))
      factors[index] |= getFactors(op.rule, op.rule.operands[i], dims[value]);
    for (auto [i, value] : llvm::enumerate(op.results))
      factors[index] |= getFactors(op.rule, op.rule.results[i], dims[value]);
    for (auto [i, value] : llvm::enumerate(op.operands))
      if (graph.values[value].producer >= 0 && !isSource[value])
        dims[value] |= getDims(op.rule, op.rule.operands[i], factors[index]);
    for (auto [i, value] : llvm::enumerate(op.results))
      if (!isSource[value])
        dims[value] |= getDims(op.rule, op.rule.results[i], factors[index]);
  };
  // Onwards, back to what meets the batch later (random masks), and onwards
  // from there.
  for (unsigned index = 0; index < graph.ops.size(); ++index)
    visit(index);
  for (unsigned index = graph.ops.size(); index-- > 0;)
    visit(index);
  for (unsigned index = 0; index < graph.ops.size(); ++index)
    visit(index);
}
