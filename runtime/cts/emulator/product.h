//===- product.h - a product of the emulated cuBLASLt -----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_EMULATOR_PRODUCT_H
#define TANDEM_RT_CTS_EMULATOR_PRODUCT_H

#include "emulator.h"

namespace tandem::rt::cuda {
struct cublasLtContext {};
struct cublasLtMatmulDescOpaque {
  int compute = 0, scale = 0;
  bool transposes[2] = {};
  uint32_t epilogue = kEpilogueNone;
  CUdeviceptr bias = 0, aux = 0; ///< The bias, or its gradient.
  int64_t auxLeading = 0;

  bool has(uint32_t part) const { return (epilogue & part) == part; }
  bool hasAux() const {
    return has(kEpilogueGeluAux) || has(kEpilogueGeluGradient);
  }
};
struct cublasLtMatrixLayoutOpaque {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0, offset = 0;
  int32_t batch = 1;
};
struct cublasLtMatmulPreferenceOpaque {
  uint64_t workspaceBytes = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

namespace emulated {
using Layout = cublasLtMatrixLayoutOpaque;

/// D = epilogue(alpha op(A) op(B) + beta D), in plain loops.
struct Product {
  cublasLtMatmulDescOpaque desc;
  Layout a, b, d;
  double alpha, beta;
  CUdeviceptr addressA, addressB, addressD, workspace;
  uint64_t algorithm;

  CUresult run() const;
  CUresult keepSums(const std::vector<double> &rows, size_t k) const;
  double multiply(const double *x, const double *y, size_t k) const;
};

/// What an algorithm needs beside the operands.
size_t workspaceOf(uint64_t algorithm, const Layout &d);

constexpr uint64_t kAlignment = 128; ///< Of kAlignedOnly.

/// An element of an array on the host.
double loadAt(const char *data, int type, int64_t index);
} // namespace emulated
} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CTS_EMULATOR_PRODUCT_H
