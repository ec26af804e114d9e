//===- product.cpp - a product of the emulated cuBLASLt -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tandem::rt::cuda::emulated {

namespace {
size_t widthOf(int type) {
  return type == kReal64 ? 8 : type == kReal32 ? 4 : 2;
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

/// The pre-activation of a gradient is what was kept.
double applyFunction(const cublasLtMatmulDescOpaque &desc, double x,
                     double preActivation) {
  if (desc.has(kEpilogueRelu))
    return std::max(x, 0.0);
  constexpr double kFactor = 0.7978845608028654, kCubic = 0.044715;
  double z = preActivation;
  double tanh = std::tanh(kFactor * (z + kCubic * z * z * z));
  if (desc.has(kEpilogueGeluGradient))
    return x * (0.5 * (1 + tanh) + 0.5 * z * (1 - tanh * tanh) * kFactor *
                                       (1 + 3 * kCubic * z * z));
  return desc.has(kEpilogueGelu) ? 0.5 * x * (1 + tanh) : x;
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
} // namespace

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

/// A product's halves apart, which it needs memory for.
size_t workspaceOf(uint64_t algorithm, const Layout &d) {
  bool isSplit = algorithm == emulated::kSplitSum;
  return isSplit ? 2 * sizeof(float) * d.rows * d.columns * size_t(d.batch) : 0;
}

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

/// Of an operand, over k.
CUresult Product::keepSums(const std::vector<double> &rows, size_t k) const {
  size_t count = rows.size() / k, bytes = count * widthOf(d.type);
  char *sums = emulated::hostOf(desc.bias, bytes);
  if (!sums)
    return emulated::fail(kIllegalAddress, "the gradient of a bias");
  emulated::touch(desc.bias, bytes, true);
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (size_t j = 0; j < k; ++j)
      sum += rows[i * k + j];
    storeAt(sums, d.type, int64_t(i), sum);
  }
  return kSuccess;
}

CUresult Product::run() const {
  auto host = [](CUdeviceptr address, const Layout &layout) {
    return emulated::hostOf(address,
                            size_t(span(layout)) * widthOf(layout.type));
  };
  const char *from = host(addressA, a), *by = host(addressB, b);
  char *to = host(addressD, d);
  bool hasBias = desc.has(kEpilogueBias);
  const char *added =
      hasBias ? emulated::hostOf(desc.bias, d.rows * widthOf(d.type)) : nullptr;
  const Layout auxLayout{d.type, d.rows, d.columns, desc.auxLeading};
  char *aux = desc.hasAux() ? host(desc.aux, auxLayout) : nullptr;
  if (!from || !by || !to || (hasBias && !added) || (desc.hasAux() && !aux))
    return emulated::fail(kIllegalAddress, "a product's matrix");
  auto touch = [](CUdeviceptr address, const Layout &layout, bool writes) {
    emulated::touch(address, size_t(span(layout)) * widthOf(layout.type),
                    writes);
  };
  touch(addressA, a, false), touch(addressB, b, false);
  touch(addressD, d, true);
  bool readsAux = desc.has(kEpilogueGeluGradient);
  if (aux)
    touch(desc.aux, auxLayout, !readsAux);
  if (size_t bytes = workspaceOf(algorithm, d)) {
    if (!emulated::hostOf(workspace, bytes))
      return emulated::fail(kIllegalAddress, "a product's workspace");
    emulated::touch(workspace, bytes, true);
  }
  for (CUdeviceptr address : {addressA, addressB, addressD, desc.aux})
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
    for (uint32_t part : {kEpilogueSumsA, kEpilogueSumsB})
      if (desc.has(part))
        if (CUresult result =
                keepSums(part == kEpilogueSumsA ? left : right, k);
            result != kSuccess)
          return result;
    for (size_t column = 0; column < n; ++column)
      for (size_t row = 0; row < m; ++row) {
        double sum = alpha * multiply(&left[row * k], &right[column * k], k);
        int64_t at =
            number * d.offset + int64_t(column) * d.leading + int64_t(row);
        if (beta != 0) // else what is there is not read
          sum += beta * loadAt(to, d.type, at);
        if (hasBias)
          sum += loadAt(added, d.type, int64_t(row));
        double before = sum;
        int64_t place = int64_t(column) * desc.auxLeading + int64_t(row);
        if (readsAux)
          before = loadAt(aux, d.type, place);
        else if (aux)
          storeAt(aux, d.type, place, sum);
        storeAt(to, d.type, at, applyFunction(desc, sum, before));
      }
  }
  return kSuccess;
}

} // namespace tandem::rt::cuda::emulated
