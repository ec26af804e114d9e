//===- tensor.h - tensors at the edge of the runtime ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_TENSOR_H
#define TANDEM_RT_TENSOR_H

#include "tandem_rt/program.h"

namespace tandem::rt {

/// A whole tensor in memory of the caller: contiguous, row-major.
struct TensorView {
  ElementType type = ElementType::F32;
  Shape shape;
  const void *data = nullptr;
};

struct MutableTensorView {
  ElementType type = ElementType::F32;
  Shape shape;
  void *data = nullptr;
};

/// A whole tensor in memory of the GPU that this process has, contiguous, with
/// one of the caller's streams: numbers that are a CUdeviceptr and a CUstream.
struct DeviceTensor {
  ElementType type = ElementType::F32;
  Shape shape;
  uint64_t address = 0;
  uint64_t stream = 0;
};

/// A whole tensor that owns its elements.
struct Tensor {
  ElementType type = ElementType::F32;
  Shape shape;
  Bytes data;

  Tensor() = default;
  Tensor(ElementType type, Shape shape);
  TensorView view() const { return {type, shape, data.data()}; }
  MutableTensorView mutableView() { return {type, shape, data.data()}; }
};

/// "f32[4, 8]".
std::string typeName(ElementType type, const Shape &shape);

} // namespace tandem::rt

#endif // TANDEM_RT_TENSOR_H
