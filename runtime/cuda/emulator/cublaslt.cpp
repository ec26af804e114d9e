//===- cublaslt.cpp - cuBLASLt of the emulated GPU ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// D = epilogue(alpha op(A) op(B) + beta C) of matrices by columns, in plain
// loops, by several algorithms (EmulatedAlgorithm). What cuBLASLt refuses is
// refused.
//
//===----------------------------------------------------------------------===//

#include "emulator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

using namespace tandem::rt::cuda;
namespace emulated = tandem::rt::cuda::emulated;

namespace tandem::rt::cuda {
struct cublasLtContext {};
struct cublasLtMatmulDescOpaque {
  int compute = 0, scale = 0;
  bool transposes[2] = {};
  uint32_t epilogue = kEpilogueNone;
  CUdeviceptr bias = 0;
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
} // namespace tandem::rt::cuda

namespace {
using Layout = cublasLtMatrixLayoutOpaque;

size_t widthOf(int type) {
  return type == kReal64 ? 8 : type == kReal32 ? 4 : 2;
}

double loadAt(const char *data, int type, int64_t index) {
  if (type == kReal64) {
    double value;
    std::memcpy(&value, data + index * 8, 8);
    return value;
  }
  uint32_t bits = 0;
  if (type == kReal32)
    std::memcpy(&bits, data + index * 4, 4);
  else
    std::memcpy(reinterpret_cast<char *>(&bits) + 2, data + index * 2, 2);
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void storeAt(char *data, int type, int64_t index, double value) {
  if (type == kReal64) {
    std::memcpy(data + index * 8, &value, 8);
    return;
  }
  float rounded = float(value);
  uint32_t bits;
  std::memcpy(&bits, &rounded, 4);
  if (type == kReal32) {
    std::memcpy(data + index * 4, &bits, 4);
    return;
  }
  uint16_t half = rounded != rounded
                      ? uint16_t((bits >> 16) | 0x40)
                      : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  std::memcpy(data + index * 2, &half, 2);
}

/// Elements from the first to the last, which all are the device's.
int64_t span(const Layout &layout) {
  return (layout.batch - 1) * layout.offset +
         (int64_t(layout.columns) - 1) * layout.leading + int64_t(layout.rows);
}

/// The TF32 that is nearest to a factor.
double roundToTf32(double value) {
  uint32_t bits = std::bit_cast<uint32_t>(float(value));
  return std::isfinite(value)
             ? std::bit_cast<float>((bits + 0x1000) & ~uint32_t(0x1fff))
             : value;
}

double applyFunction(uint32_t epilogue, double x) {
  if (epilogue & kEpilogueRelu)
    return std::max(x, 0.0);
  if (epilogue & kEpilogueGelu)
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

struct Product {
  cublasLtMatmulDescOpaque desc;
  Layout a, b, d;
  double alpha, beta;
  CUdeviceptr addressA, addressB, addressD, workspace;
  uint64_t algorithm;

  CUresult run() const;
  double multiply(const double *x, const double *y, size_t k) const;
};

/// A product's halves apart, which it needs memory for.
size_t workspaceOf(uint64_t algorithm, const Layout &d) {
  bool isSplit = algorithm == emulated::kSplitSum;
  return isSplit ? 2 * sizeof(float) * d.rows * d.columns * size_t(d.batch) : 0;
}

constexpr uint64_t kAlignment = 128; ///< Of kAlignedOnly.

/// As an algorithm adds: one that takes halves apart rounds them.
double Product::multiply(const double *x, const double *y, size_t k) const {
  double sums[2] = {};
  bool isSplit = algorithm == emulated::kSplitSum;
  for (size_t i = 0; i < k; ++i)
    sums[isSplit && i >= k / 2] += x[i] * y[i];
  if (isSplit && desc.scale == kReal32)
    return float(float(sums[0]) + float(sums[1]));
  return sums[0] + sums[1];
}

/// A matrix of one of the batch, as rows of numbers.
std::vector<double> unpack(const char *data, const Layout &layout,
                           int64_t number, bool isTransposed, int compute) {
  std::vector<double> values(layout.rows * layout.columns);
  for (uint64_t column = 0; column < layout.columns; ++column)
    for (uint64_t row = 0; row < layout.rows; ++row)
      values[isTransposed ? column * layout.rows + row
                          : row * layout.columns + column] =
          loadAt(data, layout.type,
                 number * layout.offset + int64_t(column) * layout.leading +
                     int64_t(row));
  if (compute == kComputeTf32)
    for (double &value : values)
      value = roundToTf32(value);
  return values;
}

CUresult Product::run() const {
  auto host = [](CUdeviceptr address, const Layout &layout) {
    return emulated::hostOf(address,
                            size_t(span(layout)) * widthOf(layout.type));
  };
  const char *from = host(addressA, a), *by = host(addressB, b);
  char *to = host(addressD, d);
  bool hasBias = desc.epilogue & kEpilogueBias;
  const char *added =
      hasBias ? emulated::hostOf(desc.bias, d.rows * widthOf(d.type)) : nullptr;
  if (!from || !by || !to || (hasBias && !added))
    return emulated::fail(kIllegalAddress, "a product's matrix");
  auto touch = [](CUdeviceptr address, const Layout &layout, bool writes) {
    emulated::touch(address, size_t(span(layout)) * widthOf(layout.type),
                    writes);
  };
  touch(addressA, a, false), touch(addressB, b, false);
  touch(addressD, d, true);
  if (size_t bytes = workspaceOf(algorithm, d)) {
    if (!emulated::hostOf(workspace, bytes))
      return emulated::fail(kIllegalAddress, "a product's workspace");
    emulated::touch(workspace, bytes, true);
  }
  for (CUdeviceptr address : {addressA, addressB, addressD})
    if (algorithm == emulated::kAlignedOnly && address % kAlignment)
      return emulated::fail(kMisalignedAddress, "a product's matrix");
  if (int64_t(algorithm) !=
      emulated::setting("TANDEM_EMULATED_FASTEST", emulated::kPlainSum))
    emulated::spendHour();
  size_t m = d.rows, n = d.columns;
  size_t k = desc.transposes[0] ? a.rows : a.columns;
  for (int32_t number = 0; number < d.batch; ++number) {
    // Rows of op(A), and rows of op(B)ᵀ.
    std::vector<double> left =
        unpack(from, a, number, desc.transposes[0], desc.compute);
    std::vector<double> right =
        unpack(by, b, number, !desc.transposes[1], desc.compute);
    for (size_t column = 0; column < n; ++column)
      for (size_t row = 0; row < m; ++row) {
        double sum = alpha * multiply(&left[row * k], &right[column * k], k);
        int64_t at =
            number * d.offset + int64_t(column) * d.leading + int64_t(row);
        if (beta != 0) // else what is there is not read
          sum += beta * loadAt(to, d.type, at);
        if (hasBias)
          sum += loadAt(added, d.type, int64_t(row));
        storeAt(to, d.type, at, applyFunction(desc.epilogue, sum));
      }
  }
  return kSuccess;
}

bool areTypesKnown(const cublasLtMatmulDescOpaque &desc, const Layout &a,
                   const Layout &b, const Layout &d) {
  if (a.type != b.type)
    return false;
  if (a.type == kReal64)
    return desc.compute == kCompute64 && desc.scale == kReal64 &&
           d.type == kReal64 && desc.epilogue == kEpilogueNone;
  bool isKnown = desc.compute == kCompute32 ||
                 (desc.compute == kComputeTf32 && a.type == kReal32);
  return isKnown && desc.scale == kReal32 &&
         (a.type == kRealBf16 ? d.type == kRealBf16 || d.type == kReal32
                              : a.type == kReal32 && d.type == kReal32);
}

CublasStatus checkShapes(const cublasLtMatmulDescOpaque &desc, const Layout &a,
                         const Layout &b, const Layout &d) {
  auto rows = [](const Layout &l, bool t) { return t ? l.columns : l.rows; };
  auto columns = [](const Layout &l, bool t) { return t ? l.rows : l.columns; };
  bool *t = const_cast<bool *>(desc.transposes);
  bool fits = rows(a, t[0]) == d.rows && columns(b, t[1]) == d.columns &&
              columns(a, t[0]) == rows(b, t[1]) && a.batch == d.batch &&
              b.batch == d.batch;
  for (const Layout *layout : {&a, &b, &d})
    fits &= layout->leading >= int64_t(layout->rows);
  if (!fits)
    return kCublasInvalidValue;
  return areTypesKnown(desc, a, b, d) ? kCublasSuccess : kCublasNotSupported;
}
} // namespace

extern "C" {
#define TANDEM_DEFINE(symbol, name, parameters)                                \
  TANDEM_EXPORT CublasStatus symbol parameters;
TANDEM_CUBLASLT(TANDEM_DEFINE)

CublasStatus cublasLtCreate(CublasLtHandle *handle) {
  *handle = new cublasLtContext;
  return kCublasSuccess;
}
CublasStatus cublasLtDestroy(CublasLtHandle handle) {
  delete handle;
  return kCublasSuccess;
}
CublasStatus cublasLtMatmulDescCreate(MatmulDesc *desc, int compute,
                                      int scale) {
  *desc = new cublasLtMatmulDescOpaque{compute, scale};
  return kCublasSuccess;
}
CublasStatus cublasLtMatmulDescDestroy(MatmulDesc desc) {
  delete desc;
  return kCublasSuccess;
}
CublasStatus cublasLtMatmulDescSetAttribute(MatmulDesc desc, int attribute,
                                            const void *value, size_t bytes) {
  if (attribute == kBiasPointer && bytes == sizeof desc->bias) {
    std::memcpy(&desc->bias, value, bytes);
    return kCublasSuccess;
  }
  if (bytes != sizeof(int32_t))
    return kCublasInvalidValue;
  uint32_t number;
  std::memcpy(&number, value, sizeof number);
  if (attribute == kEpilogue)
    desc->epilogue = number;
  else if (attribute == kTransposeA || attribute == kTransposeB)
    desc->transposes[attribute == kTransposeB] = number == kTransposed;
  else
    return kCublasNotSupported;
  return kCublasSuccess;
}
CublasStatus cublasLtMatrixLayoutCreate(MatrixLayout *layout, int type,
                                        uint64_t rows, uint64_t columns,
                                        int64_t leading) {
  *layout = new Layout{type, rows, columns, leading};
  return kCublasSuccess;
}
CublasStatus cublasLtMatrixLayoutDestroy(MatrixLayout layout) {
  delete layout;
  return kCublasSuccess;
}
CublasStatus cublasLtMatrixLayoutSetAttribute(MatrixLayout layout,
                                              int attribute, const void *value,
                                              size_t bytes) {
  if (attribute == kBatchCount && bytes == sizeof layout->batch)
    std::memcpy(&layout->batch, value, bytes);
  else if (attribute == kBatchOffset && bytes == sizeof layout->offset)
    std::memcpy(&layout->offset, value, bytes);
  else
    return kCublasNotSupported;
  return kCublasSuccess;
}
CublasStatus cublasLtMatmulPreferenceCreate(MatmulPreference *preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return kCublasSuccess;
}
CublasStatus cublasLtMatmulPreferenceDestroy(MatmulPreference preference) {
  delete preference;
  return kCublasSuccess;
}
CublasStatus cublasLtMatmulPreferenceSetAttribute(MatmulPreference preference,
                                                  int attribute,
                                                  const void *value,
                                                  size_t bytes) {
  if (attribute == kMaxWorkspace && bytes == sizeof(uint64_t))
    std::memcpy(&preference->workspaceBytes, value, bytes);
  else if (attribute >= kLeastAlignmentA && attribute <= kLeastAlignmentD &&
           bytes == sizeof(uint32_t))
    std::memcpy(&preference->alignments[attribute - kLeastAlignmentA], value,
                bytes);
  else
    return kCublasNotSupported;
  return kCublasSuccess;
}
CublasStatus cublasLtGetProperty(int property, int *value) {
  *value = property == kMajorVersion ? 13 : property == kMinorVersion ? 1 : 0;
  return kCublasSuccess;
}
CublasStatus
cublasLtMatmulAlgoGetHeuristic(CublasLtHandle, MatmulDesc desc, MatrixLayout a,
                               MatrixLayout b, MatrixLayout c, MatrixLayout d,
                               MatmulPreference preference, int wanted,
                               MatmulHeuristic *results, int *found) {
  *found = 0;
  if (CublasStatus status = checkShapes(*desc, *a, *b, *d);
      status != kCublasSuccess)
    return status;
  if (wanted < 1 || c->type != d->type)
    return kCublasInvalidValue;
  bool isAligned = std::ranges::all_of(
      preference->alignments, [](uint32_t each) { return each >= kAlignment; });
  for (uint64_t id = emulated::kPlainSum; id <= emulated::kLast; ++id) {
    size_t bytes = workspaceOf(id, *d);
    if (*found == wanted || bytes > preference->workspaceBytes ||
        (id == emulated::kAlignedOnly && !isAligned))
      continue;
    bool isFailed = id == emulated::kFailed;
    results[(*found)++] = {
        {{id}}, bytes, isFailed ? kCublasNotSupported : kCublasSuccess, 1, {}};
  }
  return kCublasSuccess;
}
CublasStatus cublasLtMatmulAlgoCheck(CublasLtHandle, MatmulDesc desc,
                                     MatrixLayout a, MatrixLayout b,
                                     MatrixLayout, MatrixLayout d,
                                     const MatmulAlgorithm *algorithm,
                                     MatmulHeuristic *result) {
  if (CublasStatus status = checkShapes(*desc, *a, *b, *d);
      status != kCublasSuccess)
    return status;
  uint64_t id = algorithm->data[0];
  if (id < emulated::kPlainSum || id > emulated::kLast)
    return kCublasInvalidValue;
  *result = {*algorithm, workspaceOf(id, *d), kCublasSuccess, 1, {}};
  return id == emulated::kFailed ? kCublasNotSupported : kCublasSuccess;
}
CublasStatus cublasLtMatmul(CublasLtHandle, MatmulDesc desc, const void *alpha,
                            const void *a, MatrixLayout layoutA, const void *b,
                            MatrixLayout layoutB, const void *beta,
                            const void *c, MatrixLayout, void *d,
                            MatrixLayout layoutD,
                            const MatmulAlgorithm *algorithm, void *workspace,
                            size_t workspaceBytes, CUstream stream) {
  if (CublasStatus status = checkShapes(*desc, *layoutA, *layoutB, *layoutD);
      status != kCublasSuccess)
    return status;
  if (c != d || !algorithm)
    return kCublasNotSupported; // nobody asks for it
  uint64_t id = algorithm->data[0];
  if (id < emulated::kPlainSum || id > emulated::kLast ||
      workspaceBytes < workspaceOf(id, *layoutD))
    return kCublasInvalidValue;
  if (id == emulated::kFailed || id == emulated::kRefusing)
    return kCublasNotSupported;
  auto scalar = [&](const void *value) {
    return loadAt(static_cast<const char *>(value), desc->scale, 0);
  };
  Product product{*desc,
                  *layoutA,
                  *layoutB,
                  *layoutD,
                  scalar(alpha),
                  scalar(beta),
                  CUdeviceptr(a),
                  CUdeviceptr(b),
                  CUdeviceptr(d),
                  CUdeviceptr(workspace),
                  id};
  emulated::enqueue(stream, [product] { return product.run(); });
  return kCublasSuccess;
}
}
