//===- Pieces.cpp - pieces of values, made from pieces --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pieces.h"
#include <numeric>

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

static int64_t getProduct(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

std::optional<Range> tandem::mapThroughReshape(ArrayRef<int64_t> from,
                                               ArrayRef<int64_t> to,
                                               Range range) {
  int64_t before = getProduct(from.take_front(range.dim)), product = 1;
  for (auto [dim, size] : llvm::enumerate(to)) {
    if (product > before)
      return std::nullopt;
    if (product < before || size == 1) {
      product *= size;
      continue;
    }
    int64_t own = from[range.dim], d = dim;
    if (size > own)
      return size % own ? std::nullopt
                        : std::optional<Range>({d, range.begin * (size / own),
                                                range.end * (size / own)});
    int64_t inner = own / size;
    if (own % size || range.begin % inner || range.end % inner)
      return std::nullopt;
    return Range{d, range.begin / inner, range.end / inner};
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Which dimensions are computed slice by slice
//===----------------------------------------------------------------------===//

/// Factors of size 1 split nothing.
static spmd::Rule::Dim getLarge(const spmd::Rule &rule,
                                const spmd::Rule::Dim &factors) {
  spmd::Rule::Dim large;
  for (unsigned factor : factors)
    if (rule.factors[factor].size != 1)
      large.push_back(factor);
  return large;
}

/// Whether each dimension is made of all of `factors` or has none of them: the
/// groups of a convolution's weight are in those of its input, too.
static bool areTogether(const spmd::Rule &rule, const spmd::Rule::Dims &dims,
                        const spmd::Rule::Dim &factors) {
  return llvm::all_of(dims, [&](const spmd::Rule::Dim &dim) {
    return getLarge(rule, dim) == factors ||
           llvm::none_of(dim, [&](unsigned factor) {
             return llvm::is_contained(factors, factor);
           });
  });
}

std::optional<int64_t> tandem::getParallelDim(Operation *op, unsigned number,
                                              int64_t dim) {
  auto rules = dyn_cast<spmd::SignatureOpInterface>(op);
  if (!rules || op->getNumResults() != 1)
    return std::nullopt;
  spmd::Rule rule = rules.getRule();
  spmd::Rule::Dim factors = getLarge(rule, rule.operands[number][dim]);
  auto isSplittable = [&](unsigned f) { return rule.factors[f].splittable; };
  auto isTogether = [&](const spmd::Rule::Dims &dims) {
    return areTogether(rule, dims, factors);
  };
  const spmd::Rule::Dims &result = rule.results[0];
  if (factors.empty() || !llvm::all_of(factors, isSplittable) ||
      !llvm::all_of(rule.operands, isTogether) || !isTogether(result))
    return std::nullopt;
  const auto *found = llvm::find_if(result, [&](const spmd::Rule::Dim &dim) {
    return getLarge(rule, dim) == factors;
  });
  if (found == result.end())
    return std::nullopt;
  return found - result.begin();
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

static RankedTensorType getPieceType(Value value, Range range) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[range.dim] = range.end - range.begin;
  return RankedTensorType::get(shape, type.getElementType());
}

void Pieces::give(Value whole, Range range, Value part) {
  made[{whole, range.dim, range.begin, range.end}] = part;
}

Value Pieces::get(Value value, Range range, Operation *user) {
  if (range.begin == 0 && range.end == getShape(value)[range.dim])
    return value;
  Key key{value, range.dim, range.begin, range.end};
  if (auto it = made.find(key); it != made.end())
    return it->second;
  Value piece = make(value, range, user);
  if (!piece)
    piece = slice(value, range, user);
  return made[key] = piece;
}

/// Null where only a slice gives it.
Value Pieces::make(Value value, Range range, Operation *) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumResults() != 1)
    return {};
  if (auto cat = dyn_cast<CatOp>(op); cat && range.dim == int64_t(cat.getDim()))
    return makeCat(cat, range);
  if (auto pad = dyn_cast<PadOp>(op); pad && range.dim == int64_t(pad.getDim()))
    return makePad(pad, range);
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return makeReshape(reshape, range);
  if (auto inner = dyn_cast<SliceOp>(op);
      inner && range.dim == int64_t(inner.getDim()) && inner.getStep() == 1) {
    int64_t start = inner.getStart();
    return get(inner.getInput(),
               {range.dim, range.begin + start, range.end + start}, op);
  }
  return makeParallel(op, range);
}

/// A slice behind the value, where all that may ask for it again can use it.
Value Pieces::slice(Value value, Range range, Operation *user) {
  OpBuilder builder(user);
  Operation *op = value.getDefiningOp();
  if (op)
    builder.setInsertionPointAfter(op);
  else
    builder.setInsertionPointToStart(value.getParentBlock());
  auto piece = SliceOp::create(builder, (op ? op : user)->getLoc(),
                               getPieceType(value, range), value, range.dim,
                               range.begin, range.end, /*step=*/1);
  inheritPass(piece, op ? op : user);
  return piece;
}

Value Pieces::makeCat(CatOp op, Range range) {
  SmallVector<Value> pieces;
  int64_t begin = 0;
  for (Value input : op.getInputs()) {
    int64_t end = begin + getShape(input)[range.dim];
    int64_t from = std::max(begin, range.begin), to = std::min(end, range.end);
    if (from < to)
      pieces.push_back(get(input, {range.dim, from - begin, to - begin}, op));
    begin = end;
  }
  if (pieces.size() == 1)
    return pieces.front();
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  auto joined = CatOp::create(builder, op.getLoc(), getPieceType(op, range),
                              pieces, range.dim);
  inheritPass(joined, op);
  return joined;
}

/// Zeros, or a piece of what is padded; null where it is some of both.
Value Pieces::makePad(PadOp op, Range range) {
  int64_t low = op.getLow(), size = getShape(op.getInput())[range.dim];
  if (op.getStep() != 1)
    return {};
  if (range.begin >= low && range.end <= low + size)
    return get(op.getInput(), {range.dim, range.begin - low, range.end - low},
               op);
  if (range.end > low && range.begin < low + size)
    return {};
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  RankedTensorType type = getPieceType(op, range);
  auto zeros = cast<ElementsAttr>(builder.getZeroAttr(type));
  auto piece = ConstantOp::create(builder, op.getLoc(), type, zeros);
  inheritPass(piece, op);
  return piece;
}

Value Pieces::makeReshape(ReshapeOp op, Range range) {
  auto source = mapThroughReshape(getShape(op), getShape(op.getInput()), range);
  if (!source)
    return {};
  Value input = get(op.getInput(), *source, op);
  IRRewriter rewriter(op->getContext());
  rewriter.setInsertionPointAfter(op);
  return createReshape(rewriter, op, input, getPieceType(op, range).getShape());
}

Value Pieces::makeParallel(Operation *op, Range range) {
  SmallVector<Value> operands(op->getOperands());
  bool isMade = false;
  for (OpOperand &operand : op->getOpOperands()) {
    int64_t rank = getShape(operand.get()).size();
    for (int64_t dim = 0; dim < rank; ++dim)
      if (getParallelDim(op, operand.getOperandNumber(), dim) == range.dim) {
        operands[operand.getOperandNumber()] =
            get(operand.get(), {dim, range.begin, range.end}, op);
        isMade = true;
      }
  }
  if (!isMade)
    return {};
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  OperationState state(op->getLoc(), op->getName().getStringRef(), operands,
                       {getPieceType(op->getResult(0), range)}, op->getAttrs());
  return builder.create(state)->getResult(0);
}
