//===- Pooling.cpp - max pooling ------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

static InFlightDiagnostic &operator<<(InFlightDiagnostic &diagnostic,
                                      ArrayRef<int64_t> shape) {
  diagnostic << "[";
  llvm::interleaveComma(shape, diagnostic);
  return diagnostic << "]";
}

static LogicalResult verifyTypes(MaxPoolOp op) {
  ArrayRef<int64_t> input = getShape(op.getInput()),
                    values = getShape(op.getValues()),
                    indices = getShape(op.getIndices());
  size_t dims = op.getKernel().size();
  if (dims < 1 || dims > 3 || op.getStride().size() != dims ||
      op.getPadding().size() != dims || op.getDilation().size() != dims)
    return op.emitOpError("has ")
           << dims << " kernel sizes, " << op.getStride().size() << " strides, "
           << op.getPadding().size() << " paddings and "
           << op.getDilation().size() << " dilations, expected 1 to 3 each";
  if (input.size() < dims || values.size() != input.size() ||
      values.drop_back(dims) != input.drop_back(dims) || indices != values) {
    auto error = op.emitOpError("has input ");
    return error << input << ", values " << values << " and indices " << indices
                 << ", expected equal dimensions but for the last " << dims
                 << " of the input";
  }
  Type type = op.getInput().getType().getElementType();
  if (isa<FloatType>(type) && type == op.getValues().getType().getElementType())
    return success();
  return op.emitOpError("has element types ")
         << type << " and " << op.getValues().getType().getElementType()
         << ", expected one floating-point type";
}

/// That each window has an element.
static LogicalResult verifyWindows(MaxPoolOp op, size_t dim) {
  int64_t kernel = op.getKernel()[dim], stride = op.getStride()[dim];
  int64_t padding = op.getPadding()[dim], dilation = op.getDilation()[dim];
  if (kernel < 1 || stride < 1 || padding < 0 || dilation < 1)
    return op.emitOpError("has kernel size ")
           << kernel << ", stride " << stride << ", padding " << padding
           << " and dilation " << dilation
           << ", expected at least 1, 1, 0 and 1";
  size_t first = getShape(op.getInput()).size() - op.getKernel().size();
  int64_t size = getShape(op.getInput())[first + dim];
  for (int64_t y = 0; y < getShape(op.getValues())[first + dim]; ++y) {
    int64_t begin = stride * y - padding;
    int64_t k = llvm::divideCeil(std::max<int64_t>(-begin, 0), dilation);
    if (k >= kernel || begin + dilation * k >= size)
      return op.emitOpError("window ") << y << " of spatial dimension " << dim
                                       << " has no element of the input's "
                                       << size << ", expected one or more";
  }
  return success();
}

LogicalResult MaxPoolOp::verify() {
  if (failed(verifyTypes(*this)))
    return failure();
  for (size_t dim = 0; dim < getKernel().size(); ++dim)
    if (failed(verifyWindows(*this, dim)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// The rule
//===----------------------------------------------------------------------===//

spmd::Rule tandem::nn::buildPoolingRule(Operation *op, StringRef linear) {
  spmd::Rule rule;
  auto pool = cast<MaxPoolOp>(op);
  ArrayRef<int64_t> from = getShape(pool.getInput()),
                    to = getShape(pool.getValues());
  size_t leading = from.size() - pool.getKernel().size();
  spmd::Rule::Dims input, result;
  for (size_t dim = 0; dim < from.size(); ++dim) {
    bool isWindowed = dim >= leading;
    input.push_back({isWindowed ? rule.addWholeFactor(from[dim], kHalo)
                                : rule.addFactor(from[dim])});
    result.push_back({isWindowed ? rule.addWholeFactor(to[dim], kHalo)
                                 : input.back().front()});
  }
  rule.operands = {input};
  rule.results = {result, result};
  spmd::addLinear(op, rule, linear);
  return rule;
}
