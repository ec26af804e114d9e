//===- Convolution.cpp - convolution and its gradients --------------------===//
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
// Shapes
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

template <typename OpT> static void readWindows(OpT op, Convolution &into) {
  into.stride = op.getStride();
  into.padding = op.getPadding();
  into.dilation = op.getDilation();
}

Convolution::Convolution(Operation *op) {
  Value first = op->getOperand(0), second = op->getOperand(1);
  Value result = op->getResult(0);
  if (auto forward = dyn_cast<ConvOp>(op)) {
    input = first, weight = second, output = result;
    readWindows(forward, *this);
  } else if (auto inputGrad = dyn_cast<ConvInputGradOp>(op)) {
    output = first, weight = second, input = result;
    readWindows(inputGrad, *this);
  } else {
    input = first, output = second, weight = result;
    readWindows(cast<ConvWeightGradOp>(op), *this);
  }
}

ConvolutionShapes tandem::nn::getShapes(const Convolution &convolution) {
  return {getShape(convolution.input), getShape(convolution.weight),
          getShape(convolution.output)};
}

/// Elements of the input from the first to the last that a window reads.
static int64_t getWindow(const Convolution &convolution, size_t dim) {
  int64_t kernel = getShape(convolution.weight)[2 + dim];
  return convolution.dilation[dim] * (kernel - 1) + 1;
}

int64_t tandem::nn::getEndPadding(const Convolution &convolution, size_t dim) {
  int64_t last = getShape(convolution.output)[2 + dim] - 1;
  return convolution.stride[dim] * last + getWindow(convolution, dim) -
         getShape(convolution.input)[2 + dim] - convolution.padding[dim];
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

static bool agree(const ConvolutionShapes &s) {
  size_t rank = s.input.size();
  if (rank < 3 || rank > 5 || s.weight.size() != rank ||
      s.output.size() != rank || s.output[0] != s.input[0] || s.weight[1] < 1 ||
      s.input[1] % s.weight[1] != 0)
    return false;
  int64_t groups = s.getGroups();
  return groups > 0 && s.weight[0] % groups == 0 && s.output[1] == s.weight[0];
}

/// All of one type, or the gradient of the weight in a wider one.
static LogicalResult verifyElements(Operation *op, const Convolution &c) {
  Type type = getElement(op->getOperand(0)),
       made = getElement(op->getResult(0));
  bool isWider = isa<ConvWeightGradOp>(op) && type.isBF16() && made.isF32();
  if (isa<FloatType>(type) && getElement(op->getOperand(1)) == type &&
      (made == type || isWider))
    return success();
  return op->emitOpError("has element types ")
         << getElement(c.input) << ", " << getElement(c.weight) << " and "
         << getElement(c.output)
         << ", expected one floating-point type, or f32 for the gradient of a "
            "weight of bf16";
}

static LogicalResult verifyShapes(Operation *op, const Convolution &c) {
  ConvolutionShapes shapes = getShapes(c);
  if (!agree(shapes)) {
    auto error = op->emitOpError("has input ");
    return error << shapes.input << ", weight " << shapes.weight
                 << " and output " << shapes.output
                 << ", expected [n, g i, x...], [g o, i, k...] and [n, g o, "
                    "y...] with 1 to 3 spatial dimensions";
  }
  return verifyElements(op, c);
}

static LogicalResult verifyWindow(Operation *op, const Convolution &c,
                                  size_t dim) {
  if (c.stride[dim] < 1 || c.dilation[dim] < 1 || c.padding[dim] < 0)
    return op->emitOpError("has stride ")
           << c.stride[dim] << ", dilation " << c.dilation[dim]
           << " and padding " << c.padding[dim]
           << ", expected at least 1, 1 and 0";
  int64_t end = getEndPadding(c, dim);
  if (end > -c.stride[dim])
    return success();
  return op->emitOpError("does not read the last ")
         << -end << " elements of spatial dimension " << dim
         << ", expected fewer than its stride " << c.stride[dim];
}

static LogicalResult verifyConvolution(Operation *op) {
  Convolution convolution(op);
  if (failed(verifyShapes(op, convolution)))
    return failure();
  size_t dims = getShapes(convolution).getNumSpatialDims();
  for (ArrayRef<int64_t> values :
       {convolution.stride, convolution.padding, convolution.dilation})
    if (values.size() != dims)
      return op->emitOpError("has ")
             << convolution.stride.size() << " strides, "
             << convolution.padding.size() << " paddings and "
             << convolution.dilation.size() << " dilations, expected " << dims
             << " each";
  for (size_t dim = 0; dim < dims; ++dim)
    if (failed(verifyWindow(op, convolution, dim)))
      return failure();
  return success();
}

LogicalResult ConvOp::verify() { return verifyConvolution(*this); }
LogicalResult ConvInputGradOp::verify() { return verifyConvolution(*this); }
LogicalResult ConvWeightGradOp::verify() { return verifyConvolution(*this); }

//===----------------------------------------------------------------------===//
// What a library does
//===----------------------------------------------------------------------===//

/// Batch, groups, channels out and in, positions of the output, of the kernel.
static SmallVector<int64_t> getSizes(Operation *op) {
  Convolution convolution(op);
  ConvolutionShapes shapes = getShapes(convolution);
  SmallVector<int64_t> sizes = {shapes.input[0], shapes.weight[0],
                                shapes.getChannelsIn()};
  llvm::append_range(sizes, shapes.output.drop_front(2));
  llvm::append_range(sizes, shapes.weight.drop_front(2));
  return sizes;
}

static LogicalResult verifyTypes(Operation *op) {
  Type element = getElement(op->getOperand(0));
  if (element.isF64() || element.isF32() || element.isBF16())
    return success();
  return op->emitError("convolution of ")
         << element << ", expected f64, f32 or bf16";
}

SmallVector<int64_t> ConvOp::getLoopSizes() { return getSizes(*this); }
SmallVector<int64_t> ConvInputGradOp::getLoopSizes() { return getSizes(*this); }
SmallVector<int64_t> ConvWeightGradOp::getLoopSizes() {
  return getSizes(*this);
}

/// Channels, unless each group has its own.
static bool hasOneGroup(Operation *op) {
  return getShapes(Convolution(op)).getGroups() == 1;
}

std::optional<int64_t> ConvOp::getSummedDim(unsigned) {
  return hasOneGroup(*this) ? std::optional<int64_t>(1) : std::nullopt;
}
std::optional<int64_t> ConvInputGradOp::getSummedDim(unsigned number) {
  return hasOneGroup(*this) ? std::optional<int64_t>(1 - number) : std::nullopt;
}
std::optional<int64_t> ConvWeightGradOp::getSummedDim(unsigned) { return 0; }

bool ConvWeightGradOp::canWiden() { return true; }

bool ConvOp::readsByStrides(unsigned) { return true; }
bool ConvInputGradOp::readsByStrides(unsigned) { return true; }
bool ConvWeightGradOp::readsByStrides(unsigned) { return true; }

LogicalResult ConvOp::verifyLibraryTypes() { return verifyTypes(*this); }
LogicalResult ConvInputGradOp::verifyLibraryTypes() {
  return verifyTypes(*this);
}
LogicalResult ConvWeightGradOp::verifyLibraryTypes() {
  return verifyTypes(*this);
}

//===----------------------------------------------------------------------===//
// The rule
//===----------------------------------------------------------------------===//

using spmd::Rule;

namespace {
/// What the three tensors are made of.
struct Factors {
  Factors(Rule &rule, const Convolution &convolution);
  void addSpatialDim(Rule &rule, const Convolution &convolution, size_t dim);

  Rule::Dims input, weight, output;
};
} // namespace

Factors::Factors(Rule &rule, const Convolution &convolution) {
  ConvolutionShapes shapes = getShapes(convolution);
  unsigned n = rule.addFactor(shapes.input[0]);
  unsigned g = rule.addFactor(shapes.getGroups());
  unsigned i = rule.addFactor(shapes.getChannelsIn());
  unsigned o = rule.addFactor(shapes.getChannelsOut());
  input = {{n}, {g, i}};
  weight = {{g, o}, {i}};
  output = {{n}, {g, o}};
  for (size_t dim = 0; dim < shapes.getNumSpatialDims(); ++dim)
    addSpatialDim(rule, convolution, dim);
}

/// Where windows lie side by side, and the input is as long as all of them
/// (patches, kernels of one position), a part of it is that of its windows.
void Factors::addSpatialDim(Rule &rule, const Convolution &convolution,
                            size_t dim) {
  ConvolutionShapes shapes = getShapes(convolution);
  int64_t x = shapes.input[2 + dim], y = shapes.output[2 + dim];
  int64_t stride = convolution.stride[dim];
  weight.push_back({rule.addFactor(shapes.weight[2 + dim], false)});
  if (convolution.padding[dim] == 0 && x == y * stride &&
      getWindow(convolution, dim) <= stride) {
    unsigned window = rule.addFactor(y);
    input.push_back({window, rule.addFactor(stride, false)});
    output.push_back({window});
    return;
  }
  input.push_back({rule.addWholeFactor(x, kHalo)});
  output.push_back({rule.addWholeFactor(y, kHalo)});
}

Rule tandem::nn::buildConvolutionRule(Operation *op, StringRef linear) {
  Rule rule;
  Convolution convolution(op);
  Factors factors(rule, convolution);
  if (isa<ConvOp>(op)) {
    rule.operands = {factors.input, factors.weight};
    rule.results = {factors.output};
  } else if (isa<ConvInputGradOp>(op)) {
    rule.operands = {factors.output, factors.weight};
    rule.results = {factors.input};
  } else {
    rule.operands = {factors.input, factors.output};
    rule.results = {factors.weight};
  }
  spmd::addLinear(op, rule, linear);
  return rule;
}
