//===- Evaluators.h - one evaluator per nn operator -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Internal to lib/Reference. `run(op, call)` fills `call.results`, which hold
// zeros of the right shapes and element types when it is called. An operator
// without an overload does not compile (`Operators.cpp`).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_REFERENCE_EVALUATORS_H
#define TANDEM_LIB_REFERENCE_EVALUATORS_H

#include "tandem/Dialect/NN/Host.h"
#include "tandem/Reference/Operators.h"

namespace tandem::reference {

struct Call {
  llvm::ArrayRef<TensorRef> values;
  llvm::ArrayRef<Part> operandParts, resultParts;
  std::vector<Tensor> results;

  const Tensor &operand(unsigned i) const { return *values[i]; }
  Tensor &result(unsigned i = 0) { return results[i]; }
};

using mlir::LogicalResult;

/// Elementwise operators (Elementwise.cpp), all through one entry.
LogicalResult runElementwise(mlir::Operation *op, Call &call);

// Reductions.cpp
LogicalResult run(nn::SumOp op, Call &call);
LogicalResult run(nn::MaxOp op, Call &call);
LogicalResult run(nn::MinOp op, Call &call);
LogicalResult run(nn::ProdOp op, Call &call);
LogicalResult run(nn::ArgmaxOp op, Call &call);
LogicalResult run(nn::SoftmaxOp op, Call &call);
LogicalResult run(nn::LogSoftmaxOp op, Call &call);
LogicalResult run(nn::SoftmaxBackwardOp op, Call &call);
LogicalResult run(nn::LogSoftmaxBackwardOp op, Call &call);
LogicalResult run(nn::CumsumOp op, Call &call);
LogicalResult run(nn::TopkOp op, Call &call);
LogicalResult run(nn::LayerNormOp op, Call &call);
LogicalResult run(nn::LayerNormBackwardOp op, Call &call);

// Shapes.cpp
LogicalResult run(nn::ConstantOp op, Call &call);
LogicalResult run(nn::IotaOp op, Call &call);
LogicalResult run(nn::EitherOp op, Call &call);
LogicalResult run(nn::ToHostOp op, Call &call);
LogicalResult run(nn::FromHostOp op, Call &call);
LogicalResult run(nn::ReshapeOp op, Call &call);
LogicalResult run(nn::PermuteOp op, Call &call);
LogicalResult run(nn::ExpandOp op, Call &call);
LogicalResult run(nn::SliceOp op, Call &call);
LogicalResult run(nn::PadOp op, Call &call);
LogicalResult run(nn::CatOp op, Call &call);
LogicalResult run(nn::FlipOp op, Call &call);
LogicalResult run(nn::RollOp op, Call &call);

// Products.cpp
LogicalResult run(nn::MatmulOp op, Call &call);
LogicalResult run(nn::EmbeddingOp op, Call &call);
LogicalResult run(nn::EmbeddingBackwardOp op, Call &call);
LogicalResult run(nn::GatherOp op, Call &call);
LogicalResult run(nn::ScatterAddOp op, Call &call);

// Attention.cpp
LogicalResult run(nn::AttentionOp op, Call &call);
LogicalResult run(nn::AttentionBackwardOp op, Call &call);

// Pooling.cpp
LogicalResult run(nn::MaxPoolOp op, Call &call);

// Convolution.cpp
LogicalResult run(nn::ConvOp op, Call &call);
LogicalResult run(nn::ConvInputGradOp op, Call &call);
LogicalResult run(nn::ConvWeightGradOp op, Call &call);

/// Philox4x32-10 (Salmon et al., SC 2011), the lane `index` mod 4.
int64_t applyPhilox(uint64_t index, uint64_t seed, uint64_t step,
                    uint64_t ordinal);

/// For every element of a tensor of shape `to`, the linear index of the element
/// of a tensor of shape `from` that is broadcast to it.
std::vector<int64_t> mapBroadcast(llvm::ArrayRef<int64_t> from,
                                  llvm::ArrayRef<int64_t> to);

} // namespace tandem::reference

#endif // TANDEM_LIB_REFERENCE_EVALUATORS_H
