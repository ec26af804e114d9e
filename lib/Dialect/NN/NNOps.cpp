//===- NNOps.cpp - verifiers of the nn operators --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "tandem/Dialect/NN/Scalar.h"

using namespace mlir;
using namespace tandem::nn;

#define GET_OP_CLASSES
#include "tandem/Dialect/NN/NNOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static Type getElementType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

static std::string toString(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "[";
  llvm::interleaveComma(shape, os);
  os << "]";
  return text;
}

static LogicalResult expectShape(Operation *op, StringRef what, Value value,
                                 ArrayRef<int64_t> expected) {
  if (getShape(value) == expected)
    return success();
  return op->emitOpError(what) << " has shape " << toString(getShape(value))
                               << ", expected " << toString(expected);
}

static LogicalResult expectType(Operation *op, StringRef what, Value value,
                                Type expected) {
  if (getElementType(value) == expected)
    return success();
  return op->emitOpError(what) << " has element type " << getElementType(value)
                               << ", expected " << expected;
}

static LogicalResult expectFloat(Operation *op, Value value) {
  if (isFloat(getElementType(value)))
    return success();
  return op->emitOpError("has operands of element type ")
         << getElementType(value) << ", expected a floating-point type";
}

static LogicalResult expectLike(Operation *op, StringRef what, Value value,
                                Type type, ArrayRef<int64_t> shape) {
  return success(succeeded(expectShape(op, what, value, shape)) &&
                 succeeded(expectType(op, what, value, type)));
}

static LogicalResult expectDim(Operation *op, int64_t dim, Value value) {
  int64_t rank = getShape(value).size();
  if (dim >= 0 && dim < rank)
    return success();
  return op->emitOpError("dimension ")
         << dim << " does not exist in a tensor of rank " << rank;
}

static LogicalResult expectDims(Operation *op, ArrayRef<int64_t> dims,
                                Value value) {
  for (auto [index, dim] : llvm::enumerate(dims)) {
    if (failed(expectDim(op, dim, value)))
      return failure();
    if (index > 0 && dims[index - 1] >= dim)
      return op->emitOpError("dims ")
             << toString(dims) << " are not in ascending order";
  }
  return success();
}

static SmallVector<int64_t> dropDims(ArrayRef<int64_t> shape,
                                     ArrayRef<int64_t> dims, bool keep) {
  SmallVector<int64_t> result;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
      result.push_back(size);
    else if (keep)
      result.push_back(1);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

static LogicalResult verifyElementTypes(Operation *op) {
  if (isa<ConvertOp>(op))
    return success();
  if (isa<PhiloxOp>(op))
    return expectType(op, "result", op->getResult(0),
                      IntegerType::get(op->getContext(), 64));
  Type i1 = IntegerType::get(op->getContext(), 1);
  auto operands = op->getOperands();
  if (isa<SelectOp>(op)) {
    if (failed(expectType(op, "condition", operands[0], i1)))
      return failure();
    operands = operands.drop_front();
  }
  Type expected = getElementType(operands.front());
  for (Value operand : operands)
    if (failed(expectType(op, "operand", operand, expected)))
      return failure();
  return expectType(op, "result", op->getResult(0),
                    isa<CompareOp>(op) ? i1 : expected);
}

LogicalResult tandem::nn::detail::verifyBroadcasting(Operation *op) {
  if (failed(verifyElementTypes(op)))
    return failure();
  if (auto scalar = dyn_cast<ScalarOpInterface>(op)) {
    Type element = getElementType(op->getOperands().back());
    if (!scalar.isDefinedFor(element))
      return op->emitOpError("is not defined for element type ") << element;
  }
  ArrayRef<int64_t> result = getShape(op->getResult(0));
  for (Value operand : op->getOperands()) {
    ArrayRef<int64_t> shape = getShape(operand);
    bool fits = shape.size() <= result.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) {
      int64_t size = shape[shape.size() - 1 - i];
      fits = size == 1 || size == result[result.size() - 1 - i];
    }
    if (!fits)
      return op->emitOpError("operand of shape ")
             << toString(shape) << " does not broadcast to "
             << toString(result);
  }
  return success();
}

LogicalResult ExpandOp::verify() {
  if (failed(
          expectType(*this, "result", getResult(), getElementType(getInput()))))
    return failure();
  return tandem::nn::detail::verifyBroadcasting(*this);
}

//===----------------------------------------------------------------------===//
// Reductions and operators along dimensions
//===----------------------------------------------------------------------===//

template <typename OpTy> static LogicalResult verifyReduction(OpTy op) {
  if (failed(expectDims(op, op.getDims(), op.getInput())) ||
      failed(expectType(op, "result", op.getResult(),
                        getElementType(op.getInput()))))
    return failure();
  return expectShape(
      op, "result", op.getResult(),
      dropDims(getShape(op.getInput()), op.getDims(), op.getKeepdim()));
}

LogicalResult SumOp::verify() { return verifyReduction(*this); }
LogicalResult MaxOp::verify() { return verifyReduction(*this); }
LogicalResult MinOp::verify() { return verifyReduction(*this); }
LogicalResult ProdOp::verify() { return verifyReduction(*this); }

LogicalResult ArgmaxOp::verify() {
  int64_t dim = getDim();
  if (failed(expectDim(*this, dim, getInput())) ||
      failed(expectType(*this, "result", getResult(),
                        IntegerType::get(getContext(), 64))))
    return failure();
  return expectShape(*this, "result", getResult(),
                     dropDims(getShape(getInput()), dim, getKeepdim()));
}

/// All operands and results have the shape and element type of operand 0.
static LogicalResult verifySame(Operation *op) {
  Value first = op->getOperand(0);
  auto check = [&](StringRef what, Value value) {
    return expectLike(op, what, value, getElementType(first), getShape(first));
  };
  for (Value operand : op->getOperands())
    if (failed(check("operand", operand)))
      return failure();
  for (Value result : op->getResults())
    if (failed(check("result", result)))
      return failure();
  return success();
}

template <typename OpTy> static LogicalResult verifyAlongDim(OpTy op) {
  if (failed(expectDim(op, op.getDim(), op->getOperand(0))))
    return failure();
  return verifySame(op);
}

template <typename OpTy> static LogicalResult verifyFloats(OpTy op) {
  if (failed(expectFloat(op, op->getOperand(0))))
    return failure();
  return verifyAlongDim(op);
}

LogicalResult SoftmaxOp::verify() { return verifyFloats(*this); }
LogicalResult LogSoftmaxOp::verify() { return verifyFloats(*this); }
LogicalResult SoftmaxBackwardOp::verify() { return verifyFloats(*this); }
LogicalResult LogSoftmaxBackwardOp::verify() { return verifyFloats(*this); }
LogicalResult CumsumOp::verify() { return verifyAlongDim(*this); }

LogicalResult FlipOp::verify() {
  if (failed(expectDims(*this, getDims(), getInput())))
    return failure();
  return verifySame(*this);
}

LogicalResult RollOp::verify() {
  if (failed(expectDims(*this, getDims(), getInput())))
    return failure();
  if (getShifts().size() != getDims().size())
    return emitOpError("has ") << getShifts().size() << " shifts for "
                               << getDims().size() << " dimensions";
  for (auto [dim, shift] : llvm::zip(getDims(), getShifts()))
    if (int64_t size = getShape(getInput())[dim]; shift < 0 || shift >= size)
      return emitOpError("shifts dimension ")
             << dim << " by " << shift << ", expected a number in [0, " << size
             << ")";
  return verifySame(*this);
}

LogicalResult TopkOp::verify() {
  int64_t dim = getDim();
  if (failed(expectDim(*this, dim, getInput())))
    return failure();
  SmallVector<int64_t> shape(getShape(getInput()));
  if (static_cast<int64_t>(getK()) < 1 ||
      static_cast<int64_t>(getK()) > shape[dim])
    return emitOpError("k is ") << getK() << ", but dimension " << dim
                                << " has " << shape[dim] << " elements";
  shape[dim] = getK();
  return success(succeeded(expectLike(*this, "values", getValues(),
                                      getElementType(getInput()), shape)) &&
                 succeeded(expectShape(*this, "indices", getIndices(), shape)));
}

/// Shapes of the normalised dimensions, and of the statistics.
static LogicalResult getNormalized(Operation *op, Value input,
                                   int64_t normalizedRank,
                                   SmallVector<int64_t> &affine,
                                   SmallVector<int64_t> &statistic) {
  ArrayRef<int64_t> shape = getShape(input);
  if (normalizedRank < 1 || normalizedRank > static_cast<int64_t>(shape.size()))
    return op->emitOpError("normalized_rank is ")
           << normalizedRank << ", but the input has rank " << shape.size();
  affine.assign(shape.end() - normalizedRank, shape.end());
  statistic.assign(shape.begin(), shape.end());
  std::fill(statistic.end() - normalizedRank, statistic.end(), 1);
  return success();
}

/// Statistics, weights and biases have the type of the input, or f32 if that is
/// shorter.
static LogicalResult expectStatistic(Operation *op, StringRef what, Value value,
                                     Value input, ArrayRef<int64_t> shape) {
  Type type = getElementType(input), own = getElementType(value);
  if (failed(expectFloat(op, input)))
    return failure();
  bool isWider = own.isF32() && isa<BFloat16Type, Float16Type>(type);
  if (failed(expectShape(op, what, value, shape)))
    return failure();
  return isWider ? success() : expectType(op, what, value, type);
}

LogicalResult LayerNormOp::verify() {
  SmallVector<int64_t> affine, statistic;
  if (failed(getNormalized(*this, getInput(), getNormalizedRank(), affine,
                           statistic)))
    return failure();
  if (getAffine().size() > 2)
    return emitOpError("has ")
           << getAffine().size() << " affine operands, expected at most 2";
  Type type = getElementType(getInput());
  for (Value value : getAffine())
    if (failed(expectStatistic(*this, "affine operand", value, getInput(),
                               affine)))
      return failure();
  return success(succeeded(expectLike(*this, "result", getResult(), type,
                                      getShape(getInput()))) &&
                 succeeded(expectStatistic(*this, "mean", getMean(), getInput(),
                                           statistic)) &&
                 succeeded(expectStatistic(*this, "rstd", getRstd(), getInput(),
                                           statistic)));
}

LogicalResult LayerNormBackwardOp::verify() {
  SmallVector<int64_t> affine, statistic;
  if (failed(getNormalized(*this, getInput(), getNormalizedRank(), affine,
                           statistic)) ||
      failed(expectLike(*this, "gradient", getGrad(),
                        getElementType(getInput()), getShape(getInput()))) ||
      failed(
          expectStatistic(*this, "mean", getMean(), getInput(), statistic)) ||
      failed(expectStatistic(*this, "rstd", getRstd(), getInput(), statistic)))
    return failure();
  size_t expected = getWeight().empty() ? 1 : 3;
  if (getWeight().size() > 1 || getGradients().size() != expected)
    return emitOpError("has ")
           << getWeight().size() << " weights and " << getGradients().size()
           << " results, expected 0 and 1, or 1 and 3";
  for (Value weight : getWeight())
    if (failed(expectStatistic(*this, "weight", weight, getInput(), affine)))
      return failure();
  for (auto [index, value] : llvm::enumerate(getGradients()))
    if (Value like = index == 0 ? getInput() : getWeight().front();
        failed(expectLike(*this, "result", value, getElementType(like),
                          getShape(like))))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Sources, views, pieces
//===----------------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  auto value = cast<ShapedType>(getValue().getType());
  if (!isa<DenseElementsAttr>(getValue()))
    return emitOpError("has a value that is not written out, expected "
                       "'dense<...>'");
  if (value.getShape() == type.getShape() &&
      value.getElementType() == type.getElementType())
    return success();
  return emitOpError("has the value of a ")
         << value << ", but the type " << type;
}

LogicalResult IotaOp::verify() { return success(); }

LogicalResult EitherOp::verify() {
  if (getNumOperands() < 2)
    return emitOpError("has ")
           << getNumOperands()
           << " operands, expected at least two to choose of";
  for (Value source : getSources())
    if (failed(expectLike(*this, "operand", source, getElementType(getResult()),
                          getShape(getResult()))))
      return failure();
  if (unsigned source = tandem::nn::getSource(*this);
      source >= getNumOperands())
    return emitOpError("has the '")
           << kSourceAttrName << "' " << source << ", expected one below "
           << getNumOperands();
  return success();
}

LogicalResult ReshapeOp::verify() {
  if (failed(
          expectType(*this, "result", getResult(), getElementType(getInput()))))
    return failure();
  if (getInput().getType().getNumElements() ==
      getResult().getType().getNumElements())
    return success();
  return emitOpError("gives shape ")
         << toString(getShape(getResult())) << " to "
         << toString(getShape(getInput())) << " of another size";
}

LogicalResult PermuteOp::verify() {
  ArrayRef<int64_t> from = getShape(getInput());
  if (getPermutation().size() != from.size() ||
      !isPermutationVector(getPermutation()))
    return emitOpError("permutation ")
           << toString(getPermutation()) << " is none of rank " << from.size();
  SmallVector<int64_t> shape;
  for (int64_t dim : getPermutation())
    shape.push_back(from[dim]);
  return expectLike(*this, "result", getResult(), getElementType(getInput()),
                    shape);
}

LogicalResult SliceOp::verify() {
  int64_t dim = getDim(), start = getStart(), stop = getStop(),
          step = getStep();
  if (failed(expectDim(*this, dim, getInput())))
    return failure();
  SmallVector<int64_t> shape(getShape(getInput()));
  if (start < 0 || stop < start || stop > shape[dim] || step < 1)
    return emitOpError("takes [")
           << start << ", " << stop << ") by step " << step
           << " of a dimension of size " << shape[dim];
  shape[dim] = (stop - start + step - 1) / step;
  return expectLike(*this, "result", getResult(), getElementType(getInput()),
                    shape);
}

LogicalResult PadOp::verify() {
  int64_t dim = getDim(), low = getLow(), high = getHigh(), step = getStep();
  if (failed(expectDim(*this, dim, getInput())))
    return failure();
  if (low < 0 || high < 0 || step < 1)
    return emitOpError("pads by ")
           << low << " and " << high << " with step " << step;
  SmallVector<int64_t> shape(getShape(getInput()));
  shape[dim] = low + high + (shape[dim] - 1) * step + 1;
  return expectLike(*this, "result", getResult(), getElementType(getInput()),
                    shape);
}

LogicalResult CatOp::verify() {
  if (getInputs().empty())
    return emitOpError("joins nothing");
  int64_t dim = getDim();
  if (failed(expectDim(*this, dim, getInputs().front())))
    return failure();
  Type type = getElementType(getInputs().front());
  SmallVector<int64_t> shape(getShape(getInputs().front()));
  int64_t size = 0;
  for (Value input : getInputs()) {
    if (failed(expectDim(*this, dim, input)))
      return failure();
    size += getShape(input)[dim];
    SmallVector<int64_t> expected(shape);
    expected[dim] = getShape(input)[dim];
    if (failed(expectLike(*this, "operand", input, type, expected)))
      return failure();
  }
  shape[dim] = size;
  return expectLike(*this, "result", getResult(), type, shape);
}

//===----------------------------------------------------------------------===//
// Products and indexing
//===----------------------------------------------------------------------===//

LogicalResult MatmulOp::verify() {
  ArrayRef<int64_t> lhs = getShape(getLhs()), rhs = getShape(getRhs());
  if (lhs.size() < 2 || lhs.size() != rhs.size() ||
      lhs.drop_back(2) != rhs.drop_back(2) || lhs.back() != rhs[rhs.size() - 2])
    return emitOpError("cannot multiply ")
           << toString(lhs) << " by " << toString(rhs);
  Type type = getElementType(getLhs());
  if (failed(expectType(*this, "right operand", getRhs(), type)))
    return failure();
  SmallVector<int64_t> shape(lhs);
  shape.back() = rhs.back();
  bool isWider = type.isBF16() && getElementType(getResult()).isF32();
  return expectLike(*this, "result", getResult(),
                    isWider ? Float32Type::get(getContext()) : type, shape);
}

static SmallVector<int64_t> joinShapes(ArrayRef<int64_t> first,
                                       ArrayRef<int64_t> rest) {
  SmallVector<int64_t> shape(first);
  shape.append(rest.begin(), rest.end());
  return shape;
}

LogicalResult EmbeddingOp::verify() {
  ArrayRef<int64_t> weight = getShape(getWeight());
  if (weight.empty())
    return emitOpError("takes rows of a scalar");
  return expectLike(*this, "result", getResult(), getElementType(getWeight()),
                    joinShapes(getShape(getIndices()), weight.drop_front()));
}

LogicalResult EmbeddingBackwardOp::verify() {
  ArrayRef<int64_t> weight = getShape(getResult());
  if (weight.empty())
    return emitOpError("gives rows of a scalar");
  return expectLike(*this, "gradient", getGrad(), getElementType(getResult()),
                    joinShapes(getShape(getIndices()), weight.drop_front()));
}

LogicalResult GatherOp::verify() {
  int64_t dim = getDim();
  if (failed(expectDim(*this, dim, getInput())) ||
      failed(expectDim(*this, dim, getIndex())))
    return failure();
  SmallVector<int64_t> shape(getShape(getInput()));
  shape[dim] = getShape(getIndex())[dim];
  return success(succeeded(expectShape(*this, "index", getIndex(), shape)) &&
                 succeeded(expectLike(*this, "result", getResult(),
                                      getElementType(getInput()), shape)));
}

LogicalResult ScatterAddOp::verify() {
  int64_t dim = getDim();
  if (failed(expectDim(*this, dim, getSrc())) ||
      failed(expectDim(*this, dim, getResult())) ||
      failed(expectShape(*this, "index", getIndex(), getShape(getSrc()))))
    return failure();
  SmallVector<int64_t> shape(getShape(getSrc()));
  shape[dim] = getShape(getResult())[dim];
  return expectLike(*this, "result", getResult(), getElementType(getSrc()),
                    shape);
}
