//===- product.h - descriptor of a product for cuBLASLt ---------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt's matrices lie by columns: a product of rows is one of transposed
// matrices, cᵀ = bᵀ aᵀ. A bias and functions are its epilogues. The last
// dimension of a batch is the library's; the others are calls.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_LIBRARIES_PRODUCT_H
#define TANDEM_RT_CUDA_LIBRARIES_PRODUCT_H

#include "cuda/driver/memory.h"

namespace tandem::rt::cuda {

/// A way in which the library does a product, in its own words, and the bytes
/// that it needs beside the operands.
struct Algorithm {
  MatmulAlgorithm code = {};
  size_t workspaceBytes = 0;
};

/// What a Product has of each of its buffers, in its order: those of a matrix,
/// the bias or sums, which are one pointer of the library's, and the
/// pre-activation.
template <typename T> struct OfBuffers {
  T a = {}, b = {}, c = {}, bias = {}, preActivation = {};
};
using Operands = OfBuffers<CUdeviceptr>;
using Addresses = OfBuffers<Address>;
/// The powers of two that divide all addresses of a buffer, up to 256.
using Alignments = OfBuffers<uint32_t>;

/// A product with cuBLASLt's descriptions of it, and no addresses. The GPU
/// outlives it.
class Product {
public:
  /// Null where it is none of the library's: strides of which none is 1,
  /// batches of too many calls, and what it does not have behind a product, the
  /// GELU by erf above all.
  static Expected<std::unique_ptr<Product>> describe(Gpu &gpu,
                                                     const Gemm &gemm);
  ~Product();
  Product(const Product &) = delete;
  Product &operator=(const Product &) = delete;

  /// The same product, or where its output lies by columns that of the
  /// transposed operands: a and b have changed places.
  const Gemm &getOp() const { return op; }
  /// Of the buffers of getOp().
  Addresses addressesIn(const RankMemory &memory) const;
  /// In all iterations and calls.
  Alignments alignmentsOf(const Addresses &at) const;
  /// Bytes from the first to the last element of one call's buffers.
  OfBuffers<int64_t> spans() const;

  /// What decides how fast it is: geometry, types, alignments, the GPU and the
  /// library's version.
  std::string keyOf(const Alignments &alignments) const;
  /// At most so many algorithms, those first that the library takes for the
  /// fastest; none if it does not do the product.
  Expected<std::vector<Algorithm>> list(const Alignments &alignments, int most);
  /// Whether the library does the product so; and with which workspace.
  std::optional<Algorithm> check(const MatmulAlgorithm &code,
                                 const Alignments &alignments);
  /// All calls; an error is one of the library, before any of it has begun.
  Status enqueue(const Operands &at, const Algorithm &algorithm,
                 CUdeviceptr workspace, CUstream stream);
  /// One call.
  Status enqueueOne(const Operands &at, const Algorithm &algorithm,
                    CUdeviceptr workspace, CUstream stream);

private:
  Product(Gpu &gpu, Gemm gemm, const CublasLt &library)
      : gpu(gpu), lt(library), op(std::move(gemm)) {}
  struct Matrix;
  Status prepare(const Matrix &ofA, const Matrix &ofB, const Matrix &ofC,
                 uint32_t epilogue);
  Status makeDesc(const Matrix &ofA, const Matrix &ofB, uint32_t epilogue);
  Status setPointers(CUdeviceptr bias, CUdeviceptr preActivation);
  Status makeLayout(MatrixLayout &layout, ElementType type,
                    const Matrix &matrix, const Shape &strides);
  void listCalls();
  static std::optional<Matrix> matrixOf(int64_t rows, int64_t columns,
                                        const Shape &strides, size_t dims);
  static Status check(CublasStatus status, const char *what);

  Gpu &gpu;
  const CublasLt &lt;
  const Gemm op;
  MatmulDesc desc = nullptr;
  MatrixLayout layoutA = nullptr, layoutB = nullptr, layoutC = nullptr;
  /// Where operands of a call lie behind those of the first, in bytes.
  std::vector<Operands> calls;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_LIBRARIES_PRODUCT_H
