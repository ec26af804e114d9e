//===- Rules.cpp - builders of rules that depend on types -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/Rules.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/StringExtras.h"
#include <numeric>

using namespace mlir;
using namespace tandem::spmd;

namespace tandem::nn {

static ArrayRef<int64_t> getShape(Type type) {
  return cast<RankedTensorType>(type).getShape();
}

/// One factor per dimension of `shape`; those in `whole` may not be split.
static Rule::Dims addFactors(Rule &rule, ArrayRef<int64_t> shape,
                             ArrayRef<int64_t> whole = {}) {
  Rule::Dims dims;
  for (auto [dim, size] : llvm::enumerate(shape))
    dims.push_back({rule.addFactor(
        size, !llvm::is_contained(whole, static_cast<int64_t>(dim)))});
  return dims;
}

/// `dims` (of a tensor of shape `from`) as seen by a tensor of shape `shape`
/// that is broadcast to it.
static Rule::Dims broadcastFrom(const Rule::Dims &dims, ArrayRef<int64_t> from,
                                ArrayRef<int64_t> shape) {
  Rule::Dims result;
  size_t missing = from.size() - shape.size();
  for (auto [dim, size] : llvm::enumerate(shape))
    result.push_back(size == from[missing + dim] ? dims[missing + dim]
                                                 : Rule::Dim());
  return result;
}

Rule buildElementwiseRule(Operation *op, StringRef linear) {
  Rule rule;
  ArrayRef<int64_t> shape = getShape(op->getResult(0).getType());
  rule.results.push_back(addFactors(rule, shape));
  for (Type type : op->getOperandTypes())
    rule.operands.push_back(
        broadcastFrom(rule.results[0], shape, getShape(type)));
  spmd::addLinear(op, rule, linear);
  return rule;
}

static Type getElementType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// Whether terms that are converted add up to their converted sum. Truth values
/// have no sum, and what is cut off each term adds up. Nor are terms rounded: a
/// plan would sum in the shorter type where that is cheaper.
static bool keepsSums(Type from, Type to) {
  if (from.isInteger(1) || to.isInteger(1))
    return false;
  if (isa<FloatType>(from) && isa<FloatType>(to))
    return from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth();
  return isa<IntegerType>(from) || isa<FloatType>(to);
}

Rule buildConvertRule(Operation *op, StringRef linear) {
  bool isLinear = !cast<ConvertOp>(op).getSumsFirst() &&
                  keepsSums(getElementType(op->getOperand(0)),
                            getElementType(op->getResult(0)));
  return buildElementwiseRule(op, isLinear ? linear : "");
}

Rule buildDivRule(Operation *op, StringRef linear) {
  bool isExact = isa<FloatType>(getElementType(op->getResult(0)));
  return buildElementwiseRule(op, isExact ? linear : "");
}

/// A reduction of operand 0 over `reduced`.
static Rule buildReduction(Operation *op, ArrayRef<int64_t> reduced,
                           bool keepdim, bool splittable, StringRef linear) {
  Rule rule;
  Rule::Dims dims = addFactors(rule, getShape(op->getOperand(0).getType()),
                               splittable ? ArrayRef<int64_t>() : reduced);
  Rule::Dims kept;
  for (auto [dim, factors] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(reduced, static_cast<int64_t>(dim)))
      kept.push_back(factors);
    else if (keepdim)
      kept.emplace_back();
  }
  rule.operands.push_back(dims);
  rule.results.push_back(kept);
  spmd::addLinear(op, rule, linear);
  return rule;
}

static ArrayRef<int64_t> getDims(Operation *op) {
  return cast<DenseI64ArrayAttr>(op->getAttr("dims")).asArrayRef();
}

static int64_t getDim(Operation *op) {
  return cast<IntegerAttr>(op->getAttr("dim")).getInt();
}

static bool getKeepdim(Operation *op) {
  auto attr = op->getAttrOfType<BoolAttr>("keepdim");
  return attr && attr.getValue();
}

Rule buildSumRule(Operation *op, StringRef linear) {
  return buildReduction(op, getDims(op), getKeepdim(op), true, linear);
}

Rule buildWholeReductionRule(Operation *op, StringRef linear) {
  return buildReduction(op, getDims(op), getKeepdim(op), false, linear);
}

Rule buildArgmaxRule(Operation *op, StringRef linear) {
  int64_t dim = getDim(op);
  return buildReduction(op, dim, getKeepdim(op), false, linear);
}

/// All tensors have the rank of operand 0; `whole` may differ in size.
static Rule buildWhole(Operation *op, ArrayRef<int64_t> whole,
                       StringRef linear) {
  Rule rule;
  Rule::Dims dims =
      addFactors(rule, getShape(op->getOperand(0).getType()), whole);
  rule.operands.assign(op->getNumOperands(), dims);
  for (int64_t dim : whole)
    dims[dim] = {rule.addFactor(getShape(op->getResult(0).getType())[dim],
                                /*splittable=*/false)};
  rule.results.assign(op->getNumResults(), dims);
  spmd::addLinear(op, rule, linear);
  return rule;
}

Rule buildAlongDimRule(Operation *op, StringRef linear) {
  int64_t dim = getDim(op);
  return buildWhole(op, dim, linear);
}

Rule buildPadRule(Operation *op, StringRef linear) {
  auto get = [&](StringRef name) {
    auto value = op->getAttrOfType<IntegerAttr>(name);
    return value ? value.getInt() : 1;
  };
  int64_t dim = getDim(op), step = get("step");
  if (get("low") + get("high") != step - 1)
    return buildAlongDimRule(op, linear);
  // Every element becomes a block of `step` elements.
  Rule rule;
  Rule::Dims dims = addFactors(rule, getShape(op->getOperand(0).getType()));
  rule.operands.push_back(dims);
  dims[dim].push_back(rule.addFactor(step));
  rule.results.push_back(dims);
  spmd::addLinear(op, rule, linear);
  return rule;
}

Rule buildFlipRule(Operation *op, StringRef linear) {
  return buildWhole(op, getDims(op), linear);
}

/// As `buildWhole`, linear in all operands together.
static Rule buildLinear(Operation *op, ArrayRef<int64_t> whole) {
  Rule rule = buildWhole(op, whole, "");
  auto &group = rule.linear.emplace_back();
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    group.push_back(i);
  return rule;
}

Rule buildCatRule(Operation *op, StringRef) {
  int64_t dim = getDim(op);
  return buildLinear(op, dim);
}

Rule buildEitherRule(Operation *op, StringRef) { return buildLinear(op, {}); }

Rule buildLayerNormRule(Operation *op, StringRef linear) {
  ArrayRef<int64_t> shape = getShape(op->getOperand(0).getType());
  int64_t rank = shape.size();
  int64_t outer =
      rank - cast<IntegerAttr>(op->getAttr("normalized_rank")).getInt();
  auto whole = llvm::to_vector(llvm::seq<int64_t>(outer, rank));
  Rule rule;
  Rule::Dims dims = addFactors(rule, shape, whole);
  Rule::Dims affine(dims.begin() + outer, dims.end());
  Rule::Dims statistic = dims;
  for (int64_t dim : whole)
    statistic[dim].clear();
  auto dimsOf = [&](Type type) {
    if (static_cast<int64_t>(getShape(type).size()) < rank)
      return affine;
    return getShape(type) == shape ? dims : statistic;
  };
  bool backward = isa<LayerNormBackwardOp>(op);
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes()))
    rule.operands.push_back(
        backward && (index == 2 || index == 3) ? statistic : dimsOf(type));
  for (auto [index, type] : llvm::enumerate(op->getResultTypes()))
    rule.results.push_back(!backward && index > 0 ? statistic : dimsOf(type));
  // With all dimensions normalised, weight and input have the same rank; their
  // factors are the same then.
  spmd::addLinear(op, rule, linear);
  return rule;
}

Rule buildConstantRule(Operation *op, StringRef linear) {
  Rule rule;
  ArrayRef<int64_t> shape = getShape(op->getResult(0).getType());
  bool splat = cast<ElementsAttr>(op->getAttr("value")).isSplat();
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  rule.results.push_back(addFactors(
      rule, shape, splat ? ArrayRef<int64_t>() : ArrayRef<int64_t>(all)));
  return rule;
}

/// Appends to `from` and `to` the factors of one group of dimensions with equal
/// products, e.g. (6, 4) -> (3, 8): the common pieces where the boundaries
/// agree; what follows the last such piece has no factor and stays whole.
static void factorGroup(Rule &rule, ArrayRef<int64_t> from,
                        ArrayRef<int64_t> to, Rule::Dims &fromDims,
                        Rule::Dims &toDims) {
  fromDims.resize(fromDims.size() + from.size());
  toDims.resize(toDims.size() + to.size());
  Rule::Dim *fromDim = fromDims.end() - from.size();
  Rule::Dim *toDim = toDims.end() - to.size();
  int64_t fromLeft = from.front(), toLeft = to.front();
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    // Only major factors can be split, so pieces are cut from the major end.
    // Where something is left of both, no boundary agrees any more: what is
    // left has no common factor.
    int64_t piece = std::gcd(fromLeft, toLeft);
    if (piece == 1)
      return;
    unsigned factor = rule.addFactor(piece);
    fromDim[i].push_back(factor);
    toDim[j].push_back(factor);
    fromLeft /= piece;
    toLeft /= piece;
    if (fromLeft == 1 && ++i < from.size())
      fromLeft = from[i];
    if (toLeft == 1 && ++j < to.size())
      toLeft = to[j];
  }
}

Rule buildReshapeRule(Operation *op, StringRef linear) {
  ArrayRef<int64_t> from = getShape(op->getOperand(0).getType());
  ArrayRef<int64_t> to = getShape(op->getResult(0).getType());
  Rule rule;
  Rule::Dims &fromDims = rule.operands.emplace_back();
  Rule::Dims &toDims = rule.results.emplace_back();
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    if (i < from.size() && from[i] == 1) {
      fromDims.emplace_back();
      ++i;
      continue;
    }
    if (j < to.size() && to[j] == 1) {
      toDims.emplace_back();
      ++j;
      continue;
    }
    if (i == from.size() || j == to.size())
      break; // only with a dimension of size 0
    size_t iEnd = i + 1, jEnd = j + 1;
    int64_t left = from[i], right = to[j];
    while (left != right) {
      if (left < right && iEnd < from.size())
        left *= from[iEnd++];
      else if (jEnd < to.size())
        right *= to[jEnd++];
      else
        break;
    }
    factorGroup(rule, from.slice(i, iEnd - i), to.slice(j, jEnd - j), fromDims,
                toDims);
    i = iEnd;
    j = jEnd;
  }
  fromDims.resize(from.size());
  toDims.resize(to.size());
  spmd::addLinear(op, rule, linear);
  return rule;
}

Rule buildPermuteRule(Operation *op, StringRef linear) {
  Rule rule;
  Rule::Dims dims = addFactors(rule, getShape(op->getOperand(0).getType()));
  Rule::Dims permuted;
  for (int64_t dim :
       cast<DenseI64ArrayAttr>(op->getAttr("permutation")).asArrayRef())
    permuted.push_back(dims[dim]);
  rule.operands.push_back(std::move(dims));
  rule.results.push_back(std::move(permuted));
  spmd::addLinear(op, rule, linear);
  return rule;
}

/// `first` followed by `rest` without its first `skip` dimensions.
static Rule::Dims join(Rule::Dims first, const Rule::Dims &rest,
                       unsigned skip) {
  first.append(rest.begin() + skip, rest.end());
  return first;
}

Rule buildEmbeddingRule(Operation *op, StringRef linear) {
  Rule rule;
  Rule::Dims weight = addFactors(rule, getShape(op->getOperand(0).getType()));
  Rule::Dims indices = addFactors(rule, getShape(op->getOperand(1).getType()));
  rule.results.push_back(join(indices, weight, 1));
  rule.operands = {weight, indices};
  spmd::addLinear(op, rule, linear);
  return rule;
}

Rule buildEmbeddingBackwardRule(Operation *op, StringRef linear) {
  Rule rule;
  Rule::Dims weight = addFactors(rule, getShape(op->getResult(0).getType()));
  Rule::Dims indices = addFactors(rule, getShape(op->getOperand(1).getType()));
  rule.operands = {join(indices, weight, 1), indices};
  rule.results.push_back(weight);
  spmd::addLinear(op, rule, linear);
  return rule;
}

Rule buildGatherRule(Operation *op, StringRef linear) {
  int64_t dim = getDim(op);
  Rule rule;
  Rule::Dims index = addFactors(rule, getShape(op->getOperand(1).getType()));
  Rule::Dims input = index;
  input[dim] = {rule.addFactor(getShape(op->getOperand(0).getType())[dim],
                               /*splittable=*/false)};
  rule.operands = {input, index};
  rule.results.push_back(index);
  spmd::addLinear(op, rule, linear);
  return rule;
}

Rule buildScatterAddRule(Operation *op, StringRef linear) {
  int64_t dim = getDim(op);
  Rule rule;
  Rule::Dims src = addFactors(rule, getShape(op->getOperand(0).getType()));
  Rule::Dims result = src;
  result[dim] = {rule.addFactor(getShape(op->getResult(0).getType())[dim],
                                /*splittable=*/false)};
  rule.operands = {src, src};
  rule.results.push_back(result);
  spmd::addLinear(op, rule, linear);
  return rule;
}

} // namespace tandem::nn
