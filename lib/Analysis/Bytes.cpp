//===- Bytes.cpp - bytes of tensors, FLOPs of operators -------------------===//
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

double tandem::getFlops(Operation *op) {
  if (auto library = dyn_cast<nn::LibraryOpInterface>(op))
    return library.getFlops();
  auto work = dyn_cast<nn::WorkOpInterface>(op);
  if (!work || op->getNumResults() == 0 || op->getNumOperands() == 0)
    return 0;
  double elements = countElements(op->getResult(0).getType());
  for (Type type : op->getOperandTypes())
    elements = std::max(elements, countElements(type));
  return work.getFlopsPerElement() * elements;
}

double tandem::getTraffic(Operation *op) {
  double bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += getBytes(type);
  for (Type type : op->getResultTypes())
    bytes += getBytes(type);
  return bytes;
}
