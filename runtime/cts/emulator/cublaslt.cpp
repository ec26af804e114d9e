//===- cublaslt.cpp - cuBLASLt of the emulated GPU ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of matrices by columns (product.h), by several algorithms
// (EmulatedAlgorithm). What cuBLASLt refuses is refused.
//
//===----------------------------------------------------------------------===//

#include "product.h"

#include <algorithm>
#include <cstring>

using namespace tandem::rt::cuda;
namespace emulated = tandem::rt::cuda::emulated;
using emulated::Layout;

namespace {
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

/// Those that the runtime asks for. Of an auxiliary matrix cublasLt.h wants a
/// leading dimension that 8 divides; and of pointers that they are set, as
/// heuristics look at their alignment.
bool isEpilogueKnown(const cublasLtMatmulDescOpaque &desc, const Layout &d) {
  constexpr uint32_t kKnown[] = {
      kEpilogueNone,         kEpilogueRelu,
      kEpilogueBias,         kEpilogueRelu | kEpilogueBias,
      kEpilogueGelu,         kEpilogueGelu | kEpilogueBias,
      kEpilogueGeluAux,      kEpilogueGeluAux | kEpilogueBias,
      kEpilogueGeluGradient, kEpilogueSumsA,
      kEpilogueSumsB};
  constexpr int64_t kMultiple = 8;
  constexpr CUdeviceptr kAuxAlignment = 16;
  bool isOfBias = desc.has(kEpilogueBias) || desc.has(kEpilogueSumsA) ||
                  desc.has(kEpilogueSumsB);
  bool isAuxRight = desc.aux && desc.aux % kAuxAlignment == 0 &&
                    desc.auxLeading % kMultiple == 0 &&
                    desc.auxLeading >= int64_t(d.rows) && d.batch == 1;
  bool isSummed = desc.has(kEpilogueSumsA) || desc.has(kEpilogueSumsB);
  return std::ranges::find(kKnown, desc.epilogue) != std::end(kKnown) &&
         (!isOfBias || desc.bias) && (!desc.hasAux() || isAuxRight) &&
         (!isSummed || d.batch == 1);
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
  return areTypesKnown(desc, a, b, d) && isEpilogueKnown(desc, d)
             ? kCublasSuccess
             : kCublasNotSupported;
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
  for (auto [wide, field] : {std::pair<int, void *>(kBiasPointer, &desc->bias),
                             {kAuxPointer, &desc->aux},
                             {kAuxLeading, &desc->auxLeading}})
    if (attribute == wide && bytes == sizeof(int64_t)) {
      std::memcpy(field, value, bytes);
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
  bool isAligned =
      std::ranges::all_of(preference->alignments, [](uint32_t each) {
        return each >= emulated::kAlignment;
      });
  isAligned &= desc->aux % emulated::kAlignment == 0;
  for (uint64_t id = emulated::kPlainSum; id <= emulated::kLast; ++id) {
    size_t bytes = emulated::workspaceOf(id, *d);
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
  *result = {*algorithm, emulated::workspaceOf(id, *d), kCublasSuccess, 1, {}};
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
      workspaceBytes < emulated::workspaceOf(id, *layoutD))
    return kCublasInvalidValue;
  if (id == emulated::kFailed || id == emulated::kRefusing)
    return kCublasNotSupported;
  auto scalar = [&](const void *value) {
    return emulated::loadAt(static_cast<const char *>(value), desc->scale, 0);
  };
  emulated::Product product{*desc,
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
