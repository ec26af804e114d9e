//===- Convolution.h - shape of a convolution -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With stride s, dilation d and padding p of each spatial dimension, the sum
// over n, g, i, o, y and k of
//
//   input(n, g i, s y + d k - p) weight(g o, i, k) output(n, g o, y)
//
// is linear in each of the three tensors. `nn.conv` is its derivative by the
// output, `nn.conv_input_grad` by the input, `nn.conv_weight_grad` by the
// weight.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_CONVOLUTION_H
#define TANDEM_DIALECT_NN_CONVOLUTION_H

#include "mlir/IR/Operation.h"

namespace tandem::nn {

/// The tensors of a convolution or of one of its gradients, by what they are,
/// and how windows move.
struct Convolution {
  /// `op` is one of the three.
  explicit Convolution(mlir::Operation *op);

  mlir::Value input, weight, output;
  /// One each per spatial dimension.
  llvm::ArrayRef<int64_t> stride, padding, dilation;
};

/// The shapes of input, weight and output, whose agreement the verifier checks.
struct ConvolutionShapes {
  llvm::ArrayRef<int64_t> input, weight, output;

  size_t getNumSpatialDims() const { return input.size() - 2; }
  int64_t getGroups() const { return input[1] / weight[1]; }
  /// Of one group.
  int64_t getChannelsIn() const { return weight[1]; }
  int64_t getChannelsOut() const { return weight[0] / getGroups(); }
};

ConvolutionShapes getShapes(const Convolution &convolution);

/// How far windows read behind the end of the input; negative where they do not
/// reach it.
int64_t getEndPadding(const Convolution &convolution, size_t spatialDim);

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_CONVOLUTION_H
