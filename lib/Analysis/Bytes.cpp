//===- Bytes.cpp - how large tensors are, how much operators do -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem;

int64_t tandem::getElementBytes(Type elementType) {
  return std::max<int64_t>(1, elementType.getIntOrFloatBitWidth() / 8);
}

int64_t tandem::getBytes(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * getElementBytes(tensor.getElementType());
}

static double countElements(Type type) {
  return cast<RankedTensorType>(type).getNumElements();
}

/// Operations per element of operators that do more than one; rough counts of
/// what their usual implementation does.
static double getFlopsPerElement(Operation *op) {
  if (isa<nn::PhiloxOp>(op))
    return 20; // ten rounds of two multiplications per four lanes
  if (isa<nn::GeluOp, nn::GeluBackwardOp, nn::ExpOp, nn::ErfOp, nn::ErfcOp,
          nn::TanhOp, nn::SigmoidOp, nn::SiluOp, nn::SiluBackwardOp, nn::LogOp,
          nn::PowOp>(op))
    return 10;
  if (isa<nn::SoftmaxOp, nn::LogSoftmaxOp, nn::LayerNormOp,
          nn::LayerNormBackwardOp>(op))
    return 8;
  if (isa<nn::SoftmaxBackwardOp, nn::LogSoftmaxBackwardOp>(op))
    return 4;
  return 1;
}

double tandem::getFlops(Operation *op) {
  if (isa<nn::ConstantOp, nn::IotaOp, nn::ReshapeOp, nn::PermuteOp,
          nn::ExpandOp, nn::SliceOp, nn::PadOp, nn::CatOp, nn::EmbeddingOp,
          nn::GatherOp, nn::ConvertOp>(op))
    return 0;
  if (op->getNumResults() == 0 || op->getNumOperands() == 0)
    return 0;
  double elements = countElements(op->getResult(0).getType());
  if (auto matmul = dyn_cast<nn::MatmulOp>(op))
    return 2 * elements * matmul.getLhs().getType().getShape().back();
  for (Type type : op->getOperandTypes())
    elements = std::max(elements, countElements(type));
  return getFlopsPerElement(op) * elements;
}

double tandem::getTraffic(Operation *op) {
  double bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += getBytes(type);
  for (Type type : op->getResultTypes())
    bytes += getBytes(type);
  return bytes;
}
