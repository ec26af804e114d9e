//===- gemm.cpp - products by cuBLASLt ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt's matrices lie by columns: a product of rows is one of transposed
// matrices, cᵀ = bᵀ aᵀ. What strides cannot say that way, and a bias or a
// function behind a product, is done by a plain kernel.
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "cuda/kernels/words.h"
#include "cuda/work.h"

namespace tandem::rt::cuda {

namespace {
/// A matrix of cuBLASLt, by columns.
struct Matrix {
  bool isTransposed = false;
  uint64_t rows = 0, columns = 0; ///< As they lie.
  int64_t leading = 0;
};

/// The matrix with `rows` by these strides; nothing if neither is 1. One row or
/// column may have any stride.
std::optional<Matrix> matrixOf(int64_t rows, int64_t columns, int64_t rowStride,
                               int64_t columnStride) {
  auto fits = [](int64_t size, int64_t inner, int64_t others, int64_t outer) {
    return (inner == 1 || size == 1) && (outer >= size || others == 1);
  };
  auto leading = [](int64_t size, int64_t others, int64_t outer) {
    return others == 1 ? std::max(size, outer) : outer;
  };
  if (fits(rows, rowStride, columns, columnStride))
    return Matrix{false, uint64_t(rows), uint64_t(columns),
                  leading(rows, columns, columnStride)};
  if (fits(columns, columnStride, rows, rowStride))
    return Matrix{true, uint64_t(columns), uint64_t(rows),
                  leading(columns, rows, rowStride)};
  return std::nullopt;
}

int dataType(ElementType type) {
  return type == ElementType::F64    ? kReal64
         : type == ElementType::BF16 ? kRealBf16
                                     : kReal32;
}

/// A product with its descriptions, for one batch dimension, repeated at the
/// offsets of the others.
class LtWork final : public Work {
public:
  LtWork(const WorkContext &context, const Gemm &op, const CublasLt &library)
      : gpu(context.gpu), lt(library), op(op), a(context.memory.address(op.a)),
        b(context.memory.address(op.b)), c(context.memory.address(op.c)) {}
  ~LtWork() override;

  Status prepare(const Matrix &ofA, const Matrix &ofB, const Matrix &ofC);
  Status enqueue(CUstream stream, int64_t iteration) override;

private:
  static Status check(CublasStatus status, const char *what) {
    if (status == kCublasSuccess)
      return Status::success();
    return errorOf("cuBLASLt cannot ", what, ": status ", status);
  }
  Status makeLayout(MatrixLayout &layout, ElementType type,
                    const Matrix &matrix, const Shape &strides);
  void listOffsets();

  std::shared_ptr<Gpu> gpu;
  const CublasLt &lt;
  const Gemm &op;
  Address a, b, c;
  MatmulDesc desc = nullptr;
  MatrixLayout layoutA = nullptr, layoutB = nullptr, layoutC = nullptr;
  MatmulAlgorithm algorithm = {};
  Memory workspace;
  size_t workspaceBytes = 0;
  struct Offsets {
    int64_t a, b, c; ///< Bytes.
  };
  std::vector<Offsets> offsets;
};

LtWork::~LtWork() {
  for (MatrixLayout layout : {layoutA, layoutB, layoutC})
    if (layout)
      lt.layoutDestroy(layout);
  if (desc)
    lt.matmulDescDestroy(desc);
}

/// The last dimension of the batch is the library's.
Status LtWork::makeLayout(MatrixLayout &layout, ElementType type,
                          const Matrix &matrix, const Shape &strides) {
  Status status = check(lt.layoutCreate(&layout, dataType(type), matrix.rows,
                                        matrix.columns, matrix.leading),
                        "describe a matrix");
  if (!status.ok() || op.batch.empty())
    return status;
  int32_t count = int32_t(op.batch.back());
  int64_t offset = strides[op.batch.size() - 1];
  status = check(lt.layoutSet(layout, kBatchCount, &count, sizeof count),
                 "describe a batch");
  return status.ok()
             ? check(lt.layoutSet(layout, kBatchOffset, &offset, sizeof offset),
                     "describe a batch")
             : status;
}

void LtWork::listOffsets() {
  offsets = {{0, 0, 0}};
  int64_t in = elementBytes(op.inputType), out = elementBytes(op.outputType);
  for (size_t dim = 0; dim + 1 < op.batch.size(); ++dim) {
    std::vector<Offsets> next;
    for (const Offsets &base : offsets)
      for (int64_t i = 0; i < op.batch[dim]; ++i)
        next.push_back({base.a + i * op.stridesA[dim] * in,
                        base.b + i * op.stridesB[dim] * in,
                        base.c + i * op.stridesC[dim] * out});
    offsets = std::move(next);
  }
}

Status LtWork::prepare(const Matrix &ofA, const Matrix &ofB,
                       const Matrix &ofC) {
  bool isWide = op.inputType == ElementType::F64;
  int scale = isWide ? kReal64 : kReal32;
  Status status =
      check(lt.matmulDescCreate(&desc, isWide ? kCompute64 : kCompute32, scale),
            "describe a product");
  auto transpose = [&](int attribute, bool isTransposed) {
    if (isTransposed && status.ok())
      status = check(
          lt.matmulDescSet(desc, attribute, &kTransposed, sizeof kTransposed),
          "transpose a matrix");
  };
  // The library's a is b, as all are transposed.
  transpose(kTransposeA, ofB.isTransposed);
  transpose(kTransposeB, ofA.isTransposed);
  if (status.ok())
    status = makeLayout(layoutA, op.inputType, ofB, op.stridesB);
  if (status.ok())
    status = makeLayout(layoutB, op.inputType, ofA, op.stridesA);
  if (status.ok())
    status = makeLayout(layoutC, op.outputType, ofC, op.stridesC);
  if (!status.ok())
    return status;
  MatmulPreference preference = nullptr;
  status = check(lt.preferenceCreate(&preference), "state a preference");
  if (!status.ok())
    return status;
  size_t most = size_t(32) << 20;
  MatmulHeuristic found = {};
  int count = 0;
  status =
      check(lt.preferenceSet(preference, kMaxWorkspace, &most, sizeof most),
            "state a preference");
  if (status.ok())
    status =
        check(lt.getHeuristic(gpu->getCublasHandle(), desc, layoutA, layoutB,
                              layoutC, layoutC, preference, 1, &found, &count),
              "choose an algorithm");
  lt.preferenceDestroy(preference);
  if (status.ok() && count == 0)
    return errorOf("cuBLASLt has no algorithm for a product of ", op.m, " by ",
                   op.k, " by ", op.n);
  if (!status.ok())
    return status;
  algorithm = found.algorithm;
  workspaceBytes = found.workspaceBytes;
  listOffsets();
  if (workspaceBytes == 0)
    return status;
  Expected<Memory> memory = Memory::allocate(gpu, int64_t(workspaceBytes));
  if (memory.ok())
    workspace = std::move(*memory);
  return memory.status();
}

Status LtWork::enqueue(CUstream stream, int64_t iteration) {
  double alpha64 = op.alpha, beta64 = op.accumulate;
  float alpha32 = float(op.alpha), beta32 = op.accumulate;
  bool isWide = op.inputType == ElementType::F64;
  const void *alpha = isWide ? static_cast<void *>(&alpha64) : &alpha32;
  const void *beta = isWide ? static_cast<void *>(&beta64) : &beta32;
  auto pointer = [&](const Address &base, int64_t offset) {
    return reinterpret_cast<void *>(base.at(iteration) + uint64_t(offset));
  };
  for (const Offsets &at : offsets) {
    void *result = pointer(c, at.c);
    if (Status status = check(
            lt.matmul(gpu->getCublasHandle(), desc, alpha, pointer(b, at.b),
                      layoutA, pointer(a, at.a), layoutB, beta, result, layoutC,
                      result, layoutC, &algorithm,
                      reinterpret_cast<void *>(workspace.address()),
                      workspaceBytes, stream),
            "multiply");
        !status.ok())
      return status;
  }
  return Status::success();
}

std::string suffixOf(const Gemm &op) {
  return std::string(elementName(op.inputType)) + "_" +
         std::string(elementName(op.outputType));
}

Expected<std::unique_ptr<Work>> makePlainGemm(const WorkContext &context,
                                              const Gemm &op, int64_t count) {
  ++context.numPlainProducts;
  int64_t batches = numElements(op.batch);
  auto words = [&](int64_t iteration) {
    auto address = [&](const BufferRef &ref) {
      return int64_t(context.memory.address(ref).at(iteration));
    };
    Words made = {int64_t(op.batch.size()),
                  batches,
                  op.m,
                  op.n,
                  op.k,
                  wordOf(op.alpha),
                  op.accumulate,
                  int64_t(op.postOp),
                  address(op.a),
                  address(op.b),
                  address(op.c),
                  op.bias ? address(*op.bias) : 0};
    for (const Shape *numbers :
         {&op.batch, &op.stridesA, &op.stridesB, &op.stridesC})
      made.insert(made.end(), numbers->begin(), numbers->end());
    return made;
  };
  return makePlainWork(context, "tandem_gemm_" + suffixOf(op),
                       batches * op.m * op.n, count, words);
}
} // namespace

Expected<std::unique_ptr<Work>> makeGemm(const WorkContext &context,
                                         const Gemm &op, int64_t count) {
  size_t dims = op.batch.size();
  // Transposed: the columns of rows.
  auto transposed = [&](int64_t rows, int64_t columns, const Shape &strides) {
    return matrixOf(columns, rows, strides[dims + 1], strides[dims]);
  };
  auto a = transposed(op.m, op.k, op.stridesA);
  auto b = transposed(op.k, op.n, op.stridesB);
  auto c = transposed(op.m, op.n, op.stridesC);
  bool isPlain = !op.bias && op.postOp == PostOp::None;
  constexpr int64_t kMaxCalls = 1024, kMaxBatch = int64_t(1) << 30;
  int64_t calls = dims ? numElements(op.batch) / op.batch.back() : 1;
  if (!a || !b || !c || c->isTransposed || !isPlain || calls > kMaxCalls ||
      (dims && op.batch.back() > kMaxBatch))
    return makePlainGemm(context, op, count);
  Expected<const CublasLt *> library = context.gpu->getCublasLt();
  if (!library.ok())
    return library.status();
  auto work = std::make_unique<LtWork>(context, op, **library);
  if (Status status = work->prepare(*a, *b, *c); !status.ok())
    return status;
  return std::unique_ptr<Work>(std::move(work));
}

} // namespace tandem::rt::cuda
