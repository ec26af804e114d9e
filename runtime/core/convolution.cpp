//===- convolution.cpp - shape of a convolution ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/convolution.h"
#include "core/text.h"
#include "core/verify.h"

namespace tandem::rt {

int64_t endPadding(const Convolution &op, size_t dim) {
  return op.stride[dim] * (op.output().extents[2 + dim] - 1) +
         op.dilation[dim] * (op.weight().extents[2 + dim] - 1) + 1 -
         op.input().extents[2 + dim] - op.padding[dim];
}

namespace {
/// Positions of windows are products of two numbers below it, in 64 bits.
constexpr int64_t kMaxPosition = int64_t(1) << 30;

/// Checks one thing after the other, up to the first that is wrong.
class Verifier {
public:
  explicit Verifier(const Convolution &op) : op(op) {}
  Status verify();

private:
  void types();
  void ranks();
  void channels();
  void windows();
  template <typename... Parts> void fail(const Parts &...parts) {
    if (status.ok())
      status = errorOf("convolution ", parts...);
  }

  const Convolution &op;
  Status status;
};

constexpr const char *kNames[] = {"input", "weight", "output"};

void Verifier::types() {
  const ElementType t = op.type;
  if (t != ElementType::F64 && t != ElementType::F32 && t != ElementType::BF16)
    fail("of ", elementName(t), ", expected f64, f32 or bf16");
  bool isWider = op.kind == ConvolutionKind::WeightGradient &&
                 t == ElementType::BF16 && op.madeType == ElementType::F32;
  if (op.madeType != t && !isWider)
    fail("of ", elementName(t), " makes ", elementName(op.madeType),
         ", expected the same, or f32 for the gradient of a weight of bf16");
}

void Verifier::ranks() {
  size_t rank = op.input().extents.size();
  if (rank < 3 || rank > 5)
    return fail("has an input of ", rank, " dimensions, expected 3 to 5");
  for (size_t i = 0; i < 3; ++i) {
    const ConvolutionTensor &it = op.tensors[i];
    if (it.extents.size() != rank || it.strides.size() != rank)
      fail("operand ", kNames[i], " has ", it.extents.size(), " extents and ",
           it.strides.size(), " strides, expected ", rank);
    for (int64_t extent : it.extents)
      if (extent < 1 || extent > kMaxPosition)
        fail("operand ", kNames[i], " has extents ", shapeText(it.extents),
             ", expected 1 to 2^30");
  }
  for (const Shape *numbers : {&op.stride, &op.padding, &op.dilation})
    if (numbers->size() != rank - 2)
      fail("has windows of ", numbers->size(), " dimensions, expected ",
           rank - 2);
}

void Verifier::channels() {
  const Shape &in = op.input().extents, &out = op.output().extents,
              &weight = op.weight().extents;
  int64_t groups = op.groups();
  if (in[0] != out[0] || out[1] != weight[0] || groups < 1 ||
      in[1] != groups * weight[1] || weight[0] % groups)
    fail("has input ", shapeText(in), ", weight ", shapeText(weight),
         " and output ", shapeText(out),
         ", expected [n, g i, ...], [g o, i, ...] and [n, g o, ...]");
}

/// Every window lies in the input and its padding; the last one reads to less
/// than a stride before its end.
void Verifier::windows() {
  for (size_t dim = 0; dim < op.stride.size(); ++dim) {
    int64_t stride = op.stride[dim], padding = op.padding[dim],
            dilation = op.dilation[dim];
    if (stride < 1 || stride > kMaxPosition || dilation < 1 ||
        dilation > kMaxPosition || padding < 0 || padding > kMaxPosition)
      return fail("has stride ", stride, ", padding ", padding,
                  " and dilation ", dilation, ", expected 1, 0 and 1 to 2^30");
    if (int64_t end = endPadding(op, dim); end <= -stride)
      return fail("does not read the last ", -end,
                  " elements of spatial dimension ", dim,
                  ", expected fewer than its stride ", stride);
  }
}

Status Verifier::verify() {
  types();
  ranks();
  if (status.ok())
    channels();
  if (status.ok())
    windows();
  for (size_t number = 0; status.ok() && number < 3; ++number)
    status = verifyStrided(concat("convolution operand ", kNames[number]),
                           stridedOf(op, number), op.roles()[2] == number);
  return status;
}
} // namespace

Status verifyConvolution(const Convolution &convolution) {
  return Verifier(convolution).verify();
}

} // namespace tandem::rt
