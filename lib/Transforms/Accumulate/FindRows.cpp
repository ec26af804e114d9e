//===- FindRows.cpp - batch rows among dimensions -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindRows.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;
using spmd::Rule;

static ArrayRef<int64_t> getShape(Value value) {
  return getTensorType(value).getShape();
}

ArrayRef<RowDim> RowFinder::getRows(Value value) const {
  auto it = found.find(value);
  return it == found.end() ? ArrayRef<RowDim>() : ArrayRef<RowDim>(it->second);
}

const RowLayout *RowFinder::getLayout(Value value, int64_t dim) const {
  for (const RowDim &rows : getRows(value))
    if (rows.dim == dim)
      return &rows.layout;
  return nullptr;
}

/// Whether `factor` alone makes the dimensions that have it, on all operands
/// and results, and positions along it do not matter.
static bool isAlone(Operation *op, const Rule &rule, unsigned factor) {
  if (!rule.factors[factor].splittable)
    return false;
  // The dimension that indices number.
  bool isIndexed = false;
  auto isEither = [&](const Rule::Dim &dim) {
    auto isSmall = [&](unsigned f) {
      return f == factor || rule.factors[f].size == 1;
    };
    return !llvm::is_contained(dim, factor) || llvm::all_of(dim, isSmall);
  };
  if (isa<EmbeddingOp>(op))
    isIndexed = llvm::is_contained(rule.operands[0][0], factor);
  if (isa<EmbeddingBackwardOp>(op))
    isIndexed = llvm::is_contained(rule.results[0][0], factor);
  auto areEither = [&](const Rule::Dims &dims) {
    return llvm::all_of(dims, isEither);
  };
  return !isIndexed && llvm::all_of(rule.operands, areEither) &&
         llvm::all_of(rule.results, areEither);
}

/// How the dimensions of `factor` have rows: not in order rather than in order,
/// as the others follow.
std::optional<RowLayout> RowFinder::getLayout(Operation *op, const Rule &rule,
                                              unsigned factor) const {
  std::optional<RowLayout> result;
  auto look = [&](ValueRange values, ArrayRef<Rule::Dims> all) {
    for (auto [value, dims] : llvm::zip(values, all))
      for (auto [dim, factors] : llvm::enumerate(dims)) {
        const RowLayout *own = llvm::is_contained(factors, factor)
                                   ? getLayout(value, dim)
                                   : nullptr;
        if (own && (!result || (result->isSorted() && !own->isSorted())))
          result = *own;
      }
  };
  look(op->getOperands(), rule.operands);
  look(op->getResults(), rule.results);
  return result;
}

FactorRows RowFinder::getLayouts(Operation *op, const Rule &rule) const {
  FactorRows layouts(rule.factors.size());
  for (unsigned factor = 0; factor < layouts.size(); ++factor)
    if (rule.factors[factor].size > 1 && isAlone(op, rule, factor))
      layouts[factor] = getLayout(op, rule, factor);
  return layouts;
}

RowDims tandem::getRowDims(const Rule::Dims &dims,
                           ArrayRef<std::optional<RowLayout>> layouts) {
  RowDims result;
  for (auto [dim, factors] : llvm::enumerate(dims))
    for (unsigned factor : factors)
      if (layouts[factor])
        result.push_back({int64_t(dim), *layouts[factor]});
  return result;
}

const Rule *RowFinder::getRule(Operation *op) {
  auto interface = dyn_cast<spmd::SignatureOpInterface>(op);
  if (!interface || op->getNumOperands() == 0)
    return nullptr;
  auto [it, isNew] = rules.try_emplace(op);
  if (isNew)
    it->second = interface.getRule();
  return &it->second;
}

void RowFinder::note(Value value, const RowDim &rows) {
  if (!getLayout(value, rows.dim) &&
      getShape(value)[rows.dim] == rows.layout.rows * rows.layout.getItems())
    found[value].push_back(rows);
}

RowLayout RowFinder::getPiece(Value input, int64_t dim, int64_t count) const {
  const RowLayout *own = getLayout(input, dim);
  if (own && own->rows == count)
    return *own;
  return RowLayout(count, {getShape(input)[dim] / count, 1});
}

std::optional<RowLayout> RowFinder::joinLayouts(CatOp op) const {
  int64_t dim = op.getDim(), count = 0;
  for (Value input : op.getInputs())
    if (const RowLayout *layout = getLayout(input, dim); layout && !count)
      count = layout->rows;
  auto isDivided = [&](Value input) {
    return getShape(input)[dim] > 0 && getShape(input)[dim] % count == 0;
  };
  if (count == 0 || !llvm::all_of(op.getInputs(), isDivided))
    return std::nullopt;
  RowLayout layout(count);
  layout.sections.clear();
  for (Value input : op.getInputs())
    layout.append(getPiece(input, dim, count));
  return layout;
}

void RowFinder::followReshape(ReshapeOp op) {
  auto pass = [&](Value from, Value to) {
    RowDims known(getRows(from));
    for (const RowDim &rows : known)
      if (auto mapped = mapThroughReshape(getShape(from), getShape(to), rows))
        note(to, *mapped);
  };
  pass(op.getInput(), op);
  pass(op, op.getInput());
}

/// Along the dimension of a concatenation or a slice.
void RowFinder::followPiece(Operation *op) {
  if (auto cat = dyn_cast<CatOp>(op)) {
    if (auto layout = joinLayouts(cat))
      note(cat, {int64_t(cat.getDim()), *layout});
    return;
  }
  auto slice = dyn_cast<SliceOp>(op);
  const RowLayout *whole =
      slice ? getLayout(slice.getInput(), slice.getDim()) : nullptr;
  int64_t first = 0;
  auto left = whole ? whole->slice(slice.getStart(), slice.getStop(),
                                   slice.getStep(), first)
                    : std::nullopt;
  if (left)
    note(slice, {int64_t(slice.getDim()), *left});
}

void RowFinder::follow(Operation *op) {
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return followReshape(reshape);
  followPiece(op);
  const Rule *rule = getRule(op);
  if (!rule)
    return;
  FactorRows layouts = getLayouts(op, *rule);
  auto spread = [&](ValueRange values, ArrayRef<Rule::Dims> all) {
    for (auto [value, dims] : llvm::zip(values, all))
      for (const RowDim &rows : getRowDims(dims, layouts))
        note(value, rows);
  };
  spread(op->getOperands(), rule->operands);
  spread(op->getResults(), rule->results);
}

void RowFinder::run(func::FuncOp step) {
  Block &block = step.getBody().front();
  for (BlockArgument argument : step.getArguments())
    if (auto dim = getBatchDim(step.getArgAttrDict(argument.getArgNumber())))
      note(argument, {*dim, RowLayout(getShape(argument)[*dim])});
  for (Operation &op : block)
    follow(&op);
  for (Operation &op : llvm::reverse(block))
    follow(&op);
  for (Operation &op : block)
    follow(&op);
}

void RowFinder::set(Value value, RowDims rows) {
  if (rows.empty())
    found.erase(value);
  else
    found[value] = std::move(rows);
}

void RowFinder::forget(Operation *op) {
  for (Value result : op->getResults())
    found.erase(result);
  rules.erase(op);
}
