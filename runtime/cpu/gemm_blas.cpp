//===- gemm_blas.cpp - float64 matrix products by CBLAS -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/strided_copy.h"
#include "core/text.h"
#include "cpu/blas_threads.h"
#include "cpu/task.h"
#include "tandem_rt/program_builder.h"

#include <cblas.h>
#include <cmath>
#include <limits>

namespace tandem::rt::cpu {

namespace {
/// A matrix as BLAS takes it: rows or columns are contiguous.
struct Operand {
  CBLAS_TRANSPOSE transpose;
  blasint leading;
};

/// Strides that BLAS can take; nothing for others.
std::optional<Operand> operandOf(int64_t rows, int64_t columns,
                                 int64_t rowStride, int64_t columnStride) {
  int64_t leading;
  CBLAS_TRANSPOSE transpose;
  if (columns == 1 || columnStride == 1) {
    transpose = CblasNoTrans;
    leading = rows == 1 ? columns : rowStride;
    if (columns == 1 && rowStride < 1)
      return std::nullopt;
    if (leading < columns)
      return std::nullopt;
  } else if (rows == 1 || rowStride == 1) {
    transpose = CblasTrans;
    leading = columns == 1 ? rows : columnStride;
    if (leading < rows)
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (leading > std::numeric_limits<blasint>::max())
    return std::nullopt;
  return Operand{transpose, blasint(std::max<int64_t>(leading, 1))};
}

double activate(PostOp op, double x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  switch (op) {
  case PostOp::None:
    return x;
  case PostOp::GeluErf:
    return 0.5 * x * (1 + std::erf(x * kSqrtHalf));
  case PostOp::GeluTanh:
    return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
  case PostOp::Relu:
    return x > 0 ? x : 0;
  case PostOp::GeluTanhGradient:
    break; // refused by makeGemm
  }
  return x;
}

/// One dgemm per point of the batch. An operand that BLAS cannot take is packed
/// first.
class BlasGemm final : public Task {
public:
  BlasGemm(const TaskContext &context, const Gemm &gemm)
      : gemm(gemm), threads(context.threads),
        placeA(context.memory.address(gemm.a)),
        placeB(context.memory.address(gemm.b)),
        placeC(context.memory.address(gemm.c)),
        placeBias(gemm.bias ? context.memory.address(*gemm.bias) : Address()),
        operandA(last(gemm.stridesA, gemm.m, gemm.k)),
        operandB(last(gemm.stridesB, gemm.k, gemm.n)),
        operandC(last(gemm.stridesC, gemm.m, gemm.n)) {
    if (!operandA)
      packedA.resize(size_t(gemm.m * gemm.k));
    if (!operandB)
      packedB.resize(size_t(gemm.k * gemm.n));
    if (!directC())
      packedC.resize(size_t(gemm.m * gemm.n));
  }

  Status run(int64_t iteration) override {
    BlasThreads hold(threads);
    a = pointer(placeA, iteration), b = pointer(placeB, iteration);
    c = pointer(placeC, iteration), bias = pointer(placeBias, iteration);
    Shape point(gemm.batch.size(), 0);
    for (int64_t i = 0, count = numElements(gemm.batch); i < count; ++i) {
      runOne(offset(gemm.stridesA, point), offset(gemm.stridesB, point),
             offset(gemm.stridesC, point));
      for (size_t dim = point.size(); dim-- > 0;) {
        if (++point[dim] < gemm.batch[dim])
          break;
        point[dim] = 0;
      }
    }
    return Status::success();
  }

private:
  static double *pointer(const Address &place, int64_t iteration) {
    return reinterpret_cast<double *>(place.at(iteration));
  }
  static std::optional<Operand> last(const Shape &strides, int64_t rows,
                                     int64_t columns) {
    size_t n = strides.size();
    return operandOf(rows, columns, strides[n - 2], strides[n - 1]);
  }
  bool directC() const {
    return operandC && operandC->transpose == CblasNoTrans;
  }
  static int64_t offset(const Shape &strides, const Shape &point) {
    int64_t sum = 0;
    for (size_t dim = 0; dim < point.size(); ++dim)
      sum += strides[dim] * point[dim];
    return sum;
  }
  static Shape inner(const Shape &strides) {
    return {strides[strides.size() - 2], strides[strides.size() - 1]};
  }
  /// The operand itself, or its packed copy.
  static const double *pack(const double *source, const Shape &strides,
                            int64_t rows, int64_t columns,
                            std::optional<Operand> &operand,
                            std::vector<double> &packed) {
    if (packed.empty())
      return source;
    copyStrided({rows, columns}, sizeof(double), source, inner(strides),
                packed.data(), {columns, 1});
    operand = Operand{CblasNoTrans, blasint(columns)};
    return packed.data();
  }

  void runOne(int64_t atA, int64_t atB, int64_t atC);
  void finish(double *out, int64_t leading);

  const Gemm &gemm;
  const int threads;
  const Address placeA, placeB, placeC, placeBias;
  double *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr;
  std::optional<Operand> operandA, operandB, operandC;
  std::vector<double> packedA, packedB, packedC;
};

void BlasGemm::runOne(int64_t atA, int64_t atB, int64_t atC) {
  const double *left =
      pack(a + atA, gemm.stridesA, gemm.m, gemm.k, operandA, packedA);
  const double *right =
      pack(b + atB, gemm.stridesB, gemm.k, gemm.n, operandB, packedB);
  bool direct = packedC.empty();
  double *out = direct ? c + atC : packedC.data();
  int64_t leading = direct ? operandC->leading : gemm.n;
  Shape strides = inner(gemm.stridesC), packed = {gemm.n, 1};
  if (!direct && gemm.accumulate)
    copyStrided({gemm.m, gemm.n}, sizeof(double), c + atC, strides, out,
                packed);
  cblas_dgemm(CblasRowMajor, operandA->transpose, operandB->transpose,
              blasint(gemm.m), blasint(gemm.n), blasint(gemm.k), gemm.alpha,
              left, operandA->leading, right, operandB->leading,
              gemm.accumulate ? 1.0 : 0.0, out, blasint(leading));
  finish(out, leading);
  if (!direct)
    copyStrided({gemm.m, gemm.n}, sizeof(double), out, packed, c + atC,
                strides);
}

void BlasGemm::finish(double *out, int64_t leading) {
  if (!bias && gemm.postOp == PostOp::None)
    return;
  for (int64_t row = 0; row < gemm.m; ++row)
    for (int64_t column = 0; column < gemm.n; ++column) {
      double &x = out[row * leading + column];
      x = activate(gemm.postOp, x + (bias ? bias[column] : 0));
    }
}
} // namespace

Expected<std::unique_ptr<Task>> makeBlasGemm(const TaskContext &context,
                                             const Gemm &gemm) {
  constexpr int64_t kMaxExtent = std::numeric_limits<blasint>::max();
  if (gemm.m > kMaxExtent || gemm.n > kMaxExtent || gemm.k > kMaxExtent)
    return errorOf("gemm has m ", gemm.m, ", n ", gemm.n, ", k ", gemm.k,
                   ", expected at most ", kMaxExtent);
  return std::unique_ptr<Task>(std::make_unique<BlasGemm>(context, gemm));
}

} // namespace tandem::rt::cpu
