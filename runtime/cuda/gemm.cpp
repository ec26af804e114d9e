//===- gemm.cpp - products by cuBLASLt ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt's matrices lie by columns: a product of rows is one of transposed
// matrices, cᵀ = bᵀ aᵀ. A bias and functions are its epilogues. What strides
// cannot say that way, and the GELU by erf, which it does not have, is done by
// a plain kernel.
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

/// The same product with its output transposed, for one that lies by columns.
Gemm transposed(Gemm op) {
  auto swapped = [&](Shape strides) {
    std::swap(strides.end()[-1], strides.end()[-2]);
    return strides;
  };
  std::swap(op.m, op.n);
  std::swap(op.a, op.b);
  std::swap(op.stridesA, op.stridesB);
  op.stridesA = swapped(op.stridesA);
  op.stridesB = swapped(op.stridesB);
  op.stridesC = swapped(op.stridesC);
  return op;
}

/// What cuBLASLt calls what comes behind a product; nothing if it has none.
std::optional<uint32_t> epilogueOf(const Gemm &op) {
  uint32_t bias = op.bias ? kEpilogueBias : 0;
  switch (op.postOp) {
  case PostOp::None:
    return bias ? bias : kEpilogueNone;
  case PostOp::Relu:
    return bias | kEpilogueRelu;
  case PostOp::GeluTanh:
    return bias | kEpilogueGelu;
  case PostOp::GeluErf:
    return std::nullopt;
  }
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
  LtWork(const WorkContext &context, Gemm product, const CublasLt &library)
      : gpu(context.gpu), lt(library), op(std::move(product)),
        a(context.memory.address(op.a)), b(context.memory.address(op.b)),
        c(context.memory.address(op.c)) {
    if (op.bias)
      bias = context.memory.address(*op.bias);
  }
  ~LtWork() override;

  /// False if the library has no algorithm for it.
  Expected<bool> prepare(const Matrix &ofA, const Matrix &ofB,
                         const Matrix &ofC, uint32_t epilogue);
  Status enqueue(CUstream stream, int64_t iteration) override;

private:
  static Status check(CublasStatus status, const char *what) {
    if (status == kCublasSuccess)
      return Status::success();
    return errorOf("cuBLASLt cannot ", what, ": status ", status);
  }
  Status describe(const Matrix &ofA, const Matrix &ofB, uint32_t epilogue);
  Expected<bool> chooseAlgorithm();
  Status setBias(int64_t iteration);
  Status makeLayout(MatrixLayout &layout, ElementType type,
                    const Matrix &matrix, const Shape &strides);
  void listOffsets();

  std::shared_ptr<Gpu> gpu;
  const CublasLt &lt;
  Gemm op;
  Address a, b, c, bias;
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

Status LtWork::describe(const Matrix &ofA, const Matrix &ofB,
                        uint32_t epilogue) {
  bool isWide = op.inputType == ElementType::F64;
  int scale = isWide ? kReal64 : kReal32;
  bool isNarrowed = op.inputType == ElementType::F32 && allowsTf32();
  int compute = isWide ? kCompute64 : isNarrowed ? kComputeTf32 : kCompute32;
  Status status =
      check(lt.matmulDescCreate(&desc, compute, scale), "describe a product");
  auto set = [&](int attribute, auto value, const char *what) {
    if (status.ok())
      status =
          check(lt.matmulDescSet(desc, attribute, &value, sizeof value), what);
  };
  // The library's a is b, as all are transposed.
  if (ofB.isTransposed)
    set(kTransposeA, kTransposed, "transpose a matrix");
  if (ofA.isTransposed)
    set(kTransposeB, kTransposed, "transpose a matrix");
  if (epilogue != kEpilogueNone)
    set(kEpilogue, epilogue, "say what comes behind a product");
  return status.ok() ? setBias(0) : status;
}

/// Read by the library when it is called.
Status LtWork::setBias(int64_t iteration) {
  if (!op.bias)
    return Status::success();
  uint64_t address = bias.at(iteration);
  return check(lt.matmulDescSet(desc, kBiasPointer, &address, sizeof address),
               "add a bias");
}

Expected<bool> LtWork::chooseAlgorithm() {
  MatmulPreference preference = nullptr;
  Status status = check(lt.preferenceCreate(&preference), "state a preference");
  if (!status.ok())
    return status;
  size_t most = size_t(32) << 20;
  MatmulHeuristic found = {};
  int count = 0;
  status =
      check(lt.preferenceSet(preference, kMaxWorkspace, &most, sizeof most),
            "state a preference");
  CublasStatus result = kCublasSuccess;
  if (status.ok())
    result = lt.getHeuristic(gpu->getCublasHandle(), desc, layoutA, layoutB,
                             layoutC, layoutC, preference, 1, &found, &count);
  lt.preferenceDestroy(preference);
  if (result == kCublasNotSupported)
    return false;
  if (status.ok())
    status = check(result, "choose an algorithm");
  if (!status.ok())
    return status;
  algorithm = found.algorithm;
  workspaceBytes = found.workspaceBytes;
  return count > 0;
}

Expected<bool> LtWork::prepare(const Matrix &ofA, const Matrix &ofB,
                               const Matrix &ofC, uint32_t epilogue) {
  Status status = describe(ofA, ofB, epilogue);
  if (status.ok())
    status = makeLayout(layoutA, op.inputType, ofB, op.stridesB);
  if (status.ok())
    status = makeLayout(layoutB, op.inputType, ofA, op.stridesA);
  if (status.ok())
    status = makeLayout(layoutC, op.outputType, ofC, op.stridesC);
  if (!status.ok())
    return status;
  Expected<bool> isThere = chooseAlgorithm();
  if (!isThere.ok() || !*isThere)
    return isThere;
  listOffsets();
  if (workspaceBytes == 0)
    return true;
  Expected<Memory> memory = Memory::allocate(gpu, int64_t(workspaceBytes));
  if (!memory.ok())
    return memory.status();
  workspace = std::move(*memory);
  return true;
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
  if (Status status = setBias(iteration); !status.ok())
    return status;
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
  return makePlainWork(context.gpu, "tandem_gemm_" + suffixOf(op),
                       batches * op.m * op.n, count, words);
}
} // namespace

/// Null if the library does not take it.
static Expected<std::unique_ptr<Work>> makeLtGemm(const WorkContext &context,
                                                  const Gemm &op) {
  size_t dims = op.batch.size();
  // Transposed: the columns of rows.
  auto lying = [&](int64_t rows, int64_t columns, const Shape &strides) {
    return matrixOf(columns, rows, strides[dims + 1], strides[dims]);
  };
  auto a = lying(op.m, op.k, op.stridesA);
  auto b = lying(op.k, op.n, op.stridesB);
  auto c = lying(op.m, op.n, op.stridesC);
  if (c && c->isTransposed && !op.bias)
    return makeLtGemm(context, transposed(op));
  std::optional<uint32_t> epilogue = epilogueOf(op);
  constexpr int64_t kMaxCalls = 1024, kMaxBatch = int64_t(1) << 30;
  int64_t calls = dims ? numElements(op.batch) / op.batch.back() : 1;
  if (!a || !b || !c || c->isTransposed || !epilogue || calls > kMaxCalls ||
      (dims && op.batch.back() > kMaxBatch))
    return std::unique_ptr<Work>();
  Expected<const CublasLt *> library = context.gpu->getCublasLt();
  if (!library.ok())
    return library.status();
  auto work = std::make_unique<LtWork>(context, op, **library);
  Expected<bool> isTaken = work->prepare(*a, *b, *c, *epilogue);
  if (!isTaken.ok())
    return isTaken.status();
  return *isTaken ? std::unique_ptr<Work>(std::move(work)) : nullptr;
}

Expected<std::unique_ptr<Work>> makeGemm(const WorkContext &context,
                                         const Gemm &op, int64_t count) {
  Expected<std::unique_ptr<Work>> work = makeLtGemm(context, op);
  if (!work.ok() || *work)
    return work;
  return makePlainGemm(context, op, count);
}

} // namespace tandem::rt::cuda
