//===- convolution.h - shape of a convolution -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_CONVOLUTION_H
#define TANDEM_RT_CORE_CONVOLUTION_H

#include "core/strided.h"
#include "tandem_rt/program.h"

namespace tandem::rt {

/// How far windows read behind the end of spatial dimension `dim` of the input;
/// negative where they do not reach it.
int64_t endPadding(const Convolution &convolution, size_t dim);

/// Tensor `number` of a convolution.
inline Strided stridedOf(const Convolution &convolution, size_t number) {
  const auto &[buffer, extents, strides] = convolution.tensors[number];
  return {buffer.bytes, convolution.typeOf(number), extents, strides};
}

/// Types, extents, windows, strides and bytes agree; not where the buffers lie.
Status verifyConvolution(const Convolution &convolution);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_CONVOLUTION_H
