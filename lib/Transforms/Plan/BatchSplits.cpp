//===- BatchSplits.cpp - splits of the batch ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchSplits.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Where the batch is
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// What a split meets
//===----------------------------------------------------------------------===//

BatchSplits::BatchSplits(const StepGraph &graph, const OperatorGroups &groups)
    : graph(graph), groups(groups), marks(graph, groups.isSource) {}

bool BatchSplits::isSummed(unsigned index) const {
  const OpNode &op = graph.ops[index];
  for (unsigned factor = 0; factor < op.rule.factors.size(); ++factor)
    if (marks.factors[index] >> factor & 1 && op.rule.canSplit(factor, 1) &&
        op.rule.getSplitSignature(factor).results[0].isReduce())
      return true;
  return false;
}

/// Whether members of `joined` take `value` in `form`, and each other what
/// follows. `known` has what was found.
bool BatchSplits::takes(unsigned value, AxisForm form, ArrayRef<int> joined,
                        Known &known) const {
  auto isReduce = [](AxisForm form) { return form.isReduce(); };
  auto takesUse = [&](Use use) {
    if (use.op == graph.ops.size() ||
        !llvm::is_contained(joined, groups.groupOf[use.op]))
      return true;
    const OpNode &op = graph.ops[use.op];
    return llvm::any_of(op.rule.enumerate(1), [&](const Signature &signature) {
      return signature.operands[use.operand] == form &&
             llvm::count_if(signature.operands, isReduce) == form.isReduce() &&
             llvm::all_of_zip(op.results, signature.results,
                              [&](unsigned next, AxisForm made) {
                                return takes(next, made, joined, known);
                              });
    });
  };
  auto [it, isNew] = known.try_emplace({value, form.getCode()});
  if (!isNew)
    return it->second;
  bool isTaken = llvm::all_of(graph.values[value].uses, takesUse);
  return known[{value, form.getCode()}] = isTaken;
}

bool BatchSplits::isLost(unsigned index, ArrayRef<int> joined) const {
  const OpNode &op = graph.ops[index];
  Known known;
  for (unsigned factor = 0; factor < op.rule.factors.size(); ++factor) {
    if (!op.rule.canSplit(factor, 1))
      continue;
    Signature signature = op.rule.getSplitSignature(factor);
    auto isOfExperts = [&](unsigned value, AxisForm form) {
      int argument = graph.values[value].viewOf;
      return argument >= 0 && form.isGather() &&
             graph.arguments[argument].role == Role::Parameter &&
             graph.arguments[argument].type.getRank() >= 3;
    };
    bool matters = marks.factors[index] >> factor & 1;
    for (auto [value, form] : llvm::zip(op.operands, signature.operands))
      matters |= isOfExperts(value, form);
    if (!matters)
      continue;
    for (auto [value, form] : llvm::zip(op.results, signature.results))
      if (!takes(value, form, joined, known))
        return true;
  }
  return false;
}
