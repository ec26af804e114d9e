//===- Attention.cpp - scaled dot product attention -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

AttentionOthers tandem::nn::splitAttentionOthers(ValueRange others,
                                                 bool isMasked, bool hasBand,
                                                 bool hasDropout) {
  AttentionOthers split;
  auto take = [&](Value &value) {
    if (split.count < others.size())
      value = others[split.count];
    ++split.count;
  };
  if (isMasked)
    take(split.mask);
  if (hasBand)
    take(split.positions);
  if (hasDropout)
    for (Value *value : {&split.rows, &split.seed, &split.step})
      take(*value);
  return split;
}

namespace {
/// The sizes of what `nn.attention` describes, whatever the shapes are of what
/// follows from them.
struct Sizes {
  Sizes(Value query, Value key, Value value)
      : q(getShape(query)), k(getShape(key)), v(getShape(value)) {}
  static ArrayRef<int64_t> getShape(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }

  ArrayRef<int64_t> q, k, v;
  SmallVector<int64_t, 4> getRows() const { return {q[0], q[1], q[2]}; }
  SmallVector<int64_t, 4> getScores() const { return {q[0], q[1], q[2], k[2]}; }
  SmallVector<int64_t, 4> getOutput() const { return {q[0], q[1], q[2], v[3]}; }
};
} // namespace

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

static InFlightDiagnostic &operator<<(InFlightDiagnostic &diagnostic,
                                      ArrayRef<int64_t> shape) {
  diagnostic << "[";
  llvm::interleaveComma(shape, diagnostic);
  return diagnostic << "]";
}

static LogicalResult expect(Operation *op, StringRef what, Value value,
                            Type element, ArrayRef<int64_t> shape) {
  if (Sizes::getShape(value) != shape) {
    auto error = op->emitOpError(what);
    return error << " has shape " << Sizes::getShape(value) << ", expected "
                 << shape;
  }
  if (getElement(value) == element)
    return success();
  return op->emitOpError(what) << " has element type " << getElement(value)
                               << ", expected " << element;
}

static bool agree(const Sizes &s) {
  bool isRanked = s.q.size() == 4 && s.k.size() == 4 && s.v.size() == 4;
  return isRanked && s.k[0] == s.q[0] && s.k[1] > 0 && s.q[1] % s.k[1] == 0 &&
         s.k[3] == s.q[3] && s.k.drop_back() == s.v.drop_back();
}

template <typename OpT> static LogicalResult verifyShapes(OpT op) {
  Sizes sizes(op.getQuery(), op.getKey(), op.getValue());
  if (!agree(sizes)) {
    auto error = op.emitOpError("has query ");
    return error << sizes.q << ", key " << sizes.k << " and value " << sizes.v
                 << ", expected [b, h g, m, d], [b, h, n, d] and [b, h, n, e]";
  }
  Type type = getElement(op.getQuery());
  if (!isa<FloatType>(type))
    return op.emitOpError("query has element type ")
           << type << ", expected a floating-point type";
  return success(succeeded(expect(op, "key", op.getKey(), type, sizes.k)) &&
                 succeeded(expect(op, "value", op.getValue(), type, sizes.v)));
}

static LogicalResult verifyMask(Operation *op, Value mask, Type type,
                                ArrayRef<int64_t> scores) {
  ArrayRef<int64_t> shape = Sizes::getShape(mask);
  bool fits = shape.size() == scores.size() &&
              llvm::all_of_zip(shape, scores, [](int64_t size, int64_t whole) {
                return size == 1 || size == whole;
              });
  if (!fits) {
    auto error = op->emitOpError("mask has shape ");
    return error << shape << ", expected one that broadcasts to " << scores;
  }
  if (getElement(mask).isInteger(1) || getElement(mask) == type)
    return success();
  return op->emitOpError("mask has element type ")
         << getElement(mask) << ", expected i1 or " << type;
}

template <typename OpT> static LogicalResult verifyOthers(OpT op) {
  Sizes sizes(op.getQuery(), op.getKey(), op.getValue());
  AttentionOthers others = op.getOtherOperands();
  if (op.getOthers().size() != others.count)
    return op.emitOpError("has ")
           << op.getOthers().size() << " operands behind its own, expected "
           << others.count << " as its attributes say";
  Type i64 = IntegerType::get(op.getContext(), 64);
  if (others.mask &&
      failed(verifyMask(op, others.mask, getElement(op.getQuery()),
                        sizes.getScores())))
    return failure();
  if (others.positions &&
      failed(expect(op, "positions", others.positions, i64, sizes.q[2])))
    return failure();
  if (!others.rows)
    return success();
  return success(
      succeeded(expect(op, "rows", others.rows, i64, sizes.getRows())) &&
      succeeded(expect(op, "seed", others.seed, i64, {})) &&
      succeeded(expect(op, "step", others.step, i64, {})));
}

template <typename OpT> static LogicalResult verifyAttributes(OpT op) {
  double dropout = op.getDropout().convertToDouble();
  if (!(dropout >= 0 && dropout < 1))
    return op.emitOpError("drops with probability ")
           << dropout << ", expected 0 or more and less than 1";
  for (std::optional<int64_t> end : {op.getBefore(), op.getAfter()})
    if (end && *end < 0)
      return op.emitOpError("sees ")
             << *end << " keys to a side, expected none or more";
  return success();
}

/// What holds for forward and backward, and of the results of the forward.
template <typename OpT>
static LogicalResult verifyAttention(OpT op, Value output, Value logsumexp) {
  if (failed(verifyShapes(op)) || failed(verifyAttributes(op)) ||
      failed(verifyOthers(op)))
    return failure();
  Sizes sizes(op.getQuery(), op.getKey(), op.getValue());
  Type type = getElement(op.getQuery());
  Type wide = type.isF64() ? type : Float32Type::get(op.getContext());
  return success(
      succeeded(expect(op, "output", output, type, sizes.getOutput())) &&
      succeeded(expect(op, "logsumexp", logsumexp, wide, sizes.getRows())));
}

LogicalResult AttentionOp::verify() {
  return verifyAttention(*this, getResult(), getLogsumexp());
}

LogicalResult AttentionBackwardOp::verify() {
  if (failed(verifyAttention(*this, getOutput(), getLogsumexp())))
    return failure();
  auto like = [&](StringRef what, Value value, Value expected) {
    return succeeded(expect(*this, what, value, getElement(expected),
                            Sizes::getShape(expected)));
  };
  return success(like("gradient", getGrad(), getOutput()) &&
                 like("gradient of the query", getQueryGrad(), getQuery()) &&
                 like("gradient of the key", getKeyGrad(), getKey()) &&
                 like("gradient of the value", getValueGrad(), getValue()));
}

//===----------------------------------------------------------------------===//
// What a library does
//===----------------------------------------------------------------------===//

double tandem::nn::countAttentionPairs(int64_t queries, int64_t keys,
                                       std::optional<int64_t> before,
                                       std::optional<int64_t> after) {
  if (keys == 0)
    return 0;
  // Of queries at all positions of keys: those at a distance t are keys - t.
  auto countSide = [&](std::optional<int64_t> end) {
    double most = std::min(end.value_or(keys - 1), keys - 1);
    return most * keys - most * (most + 1) / 2;
  };
  double pairs = keys + countSide(before) + countSide(after);
  return pairs / keys * queries;
}

template <typename OpT> static SmallVector<int64_t> getSizes(OpT op) {
  Sizes sizes(op.getQuery(), op.getKey(), op.getValue());
  return {sizes.q[0], sizes.q[1], sizes.q[2], sizes.k[2], sizes.q[3]};
}

/// Of products of which `overKeys` have d and `overValues` have e as the size
/// that is no number of positions.
template <typename OpT>
static double countFlops(OpT op, int64_t overKeys, int64_t overValues) {
  Sizes sizes(op.getQuery(), op.getKey(), op.getValue());
  double pairs = countAttentionPairs(sizes.q[2], sizes.k[2], op.getBefore(),
                                     op.getAfter());
  return 2 * pairs * sizes.q[0] * sizes.q[1] *
         (overKeys * sizes.q[3] + overValues * sizes.v[3]);
}

static LogicalResult verifyTypes(Operation *op, Type element) {
  if (element.isF64() || element.isF32() || element.isBF16())
    return success();
  return op->emitError("attention of ")
         << element << ", expected f64, f32 or bf16";
}

SmallVector<int64_t> AttentionOp::getLoopSizes() { return getSizes(*this); }
SmallVector<int64_t> AttentionBackwardOp::getLoopSizes() {
  return getSizes(*this);
}

/// Scores and their product with the values.
double AttentionOp::getFlops() { return countFlops(*this, 1, 1); }
/// Scores again, and a product for each side of both products.
double AttentionBackwardOp::getFlops() { return countFlops(*this, 3, 2); }

/// Keys are summed over, but not term by term.
std::optional<int64_t> AttentionOp::getSummedDim(unsigned) {
  return std::nullopt;
}
std::optional<int64_t> AttentionBackwardOp::getSummedDim(unsigned) {
  return std::nullopt;
}

bool AttentionOp::readsByStrides(unsigned number) { return number < 3; }
bool AttentionBackwardOp::readsByStrides(unsigned number) { return number < 5; }

LogicalResult AttentionOp::verifyLibraryTypes() {
  return verifyTypes(*this, getElement(getQuery()));
}
LogicalResult AttentionBackwardOp::verifyLibraryTypes() {
  return verifyTypes(*this, getElement(getQuery()));
}

//===----------------------------------------------------------------------===//
// The rule
//===----------------------------------------------------------------------===//

using spmd::Rule;

namespace {
/// The factors of attention, and of which the tensors are made.
struct Factors {
  Factors(Rule &rule, const Sizes &s)
      : b(rule.addFactor(s.q[0])), h(rule.addFactor(s.k[1])),
        g(rule.addFactor(s.q[1] / s.k[1])), m(rule.addFactor(s.q[2])),
        n(rule.addFactor(s.k[2], /*splittable=*/false)),
        d(rule.addFactor(s.q[3], /*splittable=*/false)),
        e(rule.addFactor(s.v[3], /*splittable=*/false)) {}

  unsigned b, h, g, m, n, d, e;
  Rule::Dims getQuery() const { return {{b}, {h, g}, {m}, {d}}; }
  Rule::Dims getKey() const { return {{b}, {h}, {n}, {d}}; }
  Rule::Dims getValue() const { return {{b}, {h}, {n}, {e}}; }
  Rule::Dims getOutput() const { return {{b}, {h, g}, {m}, {e}}; }
  Rule::Dims getRows() const { return {{b}, {h, g}, {m}}; }

  Rule::Dims getMask(Value mask) const {
    Rule::Dims dims = {{b}, {h, g}, {m}, {n}};
    for (auto [dim, size] : llvm::zip_equal(dims, Sizes::getShape(mask)))
      if (size == 1)
        dim.clear();
    return dims;
  }
  void addOthers(Rule &rule, const AttentionOthers &others) const {
    if (others.mask)
      rule.operands.push_back(getMask(others.mask));
    if (others.positions)
      rule.operands.push_back({{m}});
    if (others.rows)
      rule.operands.append({getRows(), {}, {}});
  }
};
} // namespace

Rule tandem::nn::buildAttentionRule(Operation *op, StringRef linear) {
  Rule rule;
  if (auto forward = dyn_cast<AttentionOp>(op)) {
    Factors f(rule,
              Sizes(forward.getQuery(), forward.getKey(), forward.getValue()));
    rule.operands = {f.getQuery(), f.getKey(), f.getValue()};
    f.addOthers(rule, forward.getOtherOperands());
    rule.results = {f.getOutput(), f.getRows()};
  } else {
    auto backward = cast<AttentionBackwardOp>(op);
    Factors f(rule, Sizes(backward.getQuery(), backward.getKey(),
                          backward.getValue()));
    rule.operands = {f.getOutput(), f.getQuery(),  f.getKey(),
                     f.getValue(),  f.getOutput(), f.getRows()};
    f.addOthers(rule, backward.getOtherOperands());
    rule.results = {f.getQuery(), f.getKey(), f.getValue()};
  }
  spmd::addLinear(op, rule, linear);
  return rule;
}
