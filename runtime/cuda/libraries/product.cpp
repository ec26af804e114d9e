//===- product.cpp - descriptor of a product for cuBLASLt -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/libraries/product.h"
#include "core/text.h"

#include <algorithm>

namespace tandem::rt::cuda {

namespace {
/// Bytes that an algorithm may ask for beside the operands; NVIDIA's advice.
constexpr size_t kMostWorkspace = size_t(32) << 20;
/// What cuMemAlloc gives, and the library asks for at most.
constexpr uint32_t kMostAlignment = 256;
/// What divides rows of a pre-activation.
constexpr int64_t kAuxMultiple = 8;

/// The same product with its output transposed, for one that lies by columns.
Gemm transposed(Gemm op) {
  auto swapped = [&](Shape strides) {
    std::swap(strides.end()[-1], strides.end()[-2]);
    return strides;
  };
  std::swap(op.m, op.n);
  std::swap(op.a, op.b);
  std::swap(op.stridesA, op.stridesB);
  std::swap(op.sumsA, op.sumsB);
  op.stridesA = swapped(op.stridesA);
  op.stridesB = swapped(op.stridesB);
  op.stridesC = swapped(op.stridesC);
  return op;
}

/// What cuBLASLt calls what comes behind a product, or is kept beside it;
/// nothing if it has none. Its a is b, as all are transposed. Of float64 it is
/// asked for none: its GELU has an error of 2e-10 there (CUDA 13.0, H100).
std::optional<uint32_t> epilogueOf(const Gemm &op) {
  uint32_t bias = op.bias ? kEpilogueBias : 0;
  if (op.inputType == ElementType::F64 &&
      (bias || op.postOp != PostOp::None || op.sumsA || op.sumsB))
    return std::nullopt;
  bool isNarrow = op.preActivation && op.n % kAuxMultiple != 0;
  bool isBesideMore =
      bias || op.postOp != PostOp::None || (op.sumsA && op.sumsB);
  if (isNarrow || ((op.sumsA || op.sumsB) && isBesideMore))
    return std::nullopt;
  if (op.sumsA || op.sumsB)
    return op.sumsA ? kEpilogueSumsB : kEpilogueSumsA;
  switch (op.postOp) {
  case PostOp::None:
    return bias ? bias : kEpilogueNone;
  case PostOp::Relu:
    return bias | kEpilogueRelu;
  case PostOp::GeluTanh:
    return bias | (op.preActivation ? kEpilogueGeluAux : kEpilogueGelu);
  case PostOp::GeluTanhGradient:
    return bias ? std::nullopt : std::optional(kEpilogueGeluGradient);
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

int computeType(const Gemm &op) {
  if (op.inputType == ElementType::F64)
    return kCompute64;
  bool isNarrowed = op.inputType == ElementType::F32 && allowsTf32();
  return isNarrowed ? kComputeTf32 : kCompute32;
}
} // namespace

/// A matrix of cuBLASLt, by columns.
struct Product::Matrix {
  bool isTransposed = false;
  uint64_t rows = 0, columns = 0; ///< As they lie.
  int64_t leading = 0;
};

/// The matrix whose columns are the rows by these strides, behind those of
/// `dims` dimensions of a batch; nothing if neither is 1. One row or column may
/// have any stride.
std::optional<Product::Matrix> Product::matrixOf(int64_t rows, int64_t columns,
                                                 const Shape &strides,
                                                 size_t dims) {
  int64_t down = strides[dims], along = strides[dims + 1];
  auto fits = [](int64_t size, int64_t inner, int64_t others, int64_t outer) {
    return (inner == 1 || size == 1) && (outer >= size || others == 1);
  };
  auto leading = [](int64_t size, int64_t others, int64_t outer) {
    return others == 1 ? std::max(size, outer) : outer;
  };
  if (fits(columns, along, rows, down))
    return Matrix{false, uint64_t(columns), uint64_t(rows),
                  leading(columns, rows, down)};
  if (fits(rows, down, columns, along))
    return Matrix{true, uint64_t(rows), uint64_t(columns),
                  leading(rows, columns, along)};
  return std::nullopt;
}

Status Product::check(CublasStatus status, const char *what) {
  if (status == kCublasSuccess)
    return Status::success();
  return errorOf("cuBLASLt cannot ", what, ": status ", status);
}

//===----------------------------------------------------------------------===//
// Describing
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Product>> Product::describe(Gpu &gpu,
                                                     const Gemm &gemm) {
  size_t dims = gemm.batch.size();
  auto a = matrixOf(gemm.m, gemm.k, gemm.stridesA, dims);
  auto b = matrixOf(gemm.k, gemm.n, gemm.stridesB, dims);
  auto c = matrixOf(gemm.m, gemm.n, gemm.stridesC, dims);
  if (c && c->isTransposed && !gemm.bias && !gemm.preActivation)
    return describe(gpu, transposed(gemm));
  std::optional<uint32_t> epilogue = epilogueOf(gemm);
  constexpr int64_t kMostCalls = 1024, kMostOfBatch = int64_t(1) << 30;
  int64_t calls = dims ? numElements(gemm.batch) / gemm.batch.back() : 1;
  if (!a || !b || !c || c->isTransposed || !epilogue || calls > kMostCalls ||
      (dims && gemm.batch.back() > kMostOfBatch))
    return std::unique_ptr<Product>();
  Expected<const CublasLt *> library = gpu.getCublasLt();
  if (!library.ok())
    return library.status();
  std::unique_ptr<Product> product(new Product(gpu, gemm, **library));
  if (Status status = product->prepare(*a, *b, *c, *epilogue); !status.ok())
    return status;
  return product;
}

Status Product::prepare(const Matrix &ofA, const Matrix &ofB, const Matrix &ofC,
                        uint32_t epilogue) {
  Status status = makeDesc(ofA, ofB, epilogue);
  if (status.ok())
    status = makeLayout(layoutA, op.inputType, ofB, op.stridesB);
  if (status.ok())
    status = makeLayout(layoutB, op.inputType, ofA, op.stridesA);
  if (status.ok())
    status = makeLayout(layoutC, op.outputType, ofC, op.stridesC);
  listCalls();
  return status;
}

Product::~Product() {
  for (MatrixLayout layout : {layoutA, layoutB, layoutC})
    if (layout)
      lt.layoutDestroy(layout);
  if (desc)
    lt.matmulDescDestroy(desc);
}

/// The library's a is b, as all are transposed.
Status Product::makeDesc(const Matrix &ofA, const Matrix &ofB,
                         uint32_t epilogue) {
  bool isWide = op.inputType == ElementType::F64;
  Status status = check(
      lt.matmulDescCreate(&desc, computeType(op), isWide ? kReal64 : kReal32),
      "describe a product");
  auto set = [&](int attribute, auto value, const char *what) {
    if (status.ok())
      status =
          check(lt.matmulDescSet(desc, attribute, &value, sizeof value), what);
  };
  if (ofB.isTransposed)
    set(kTransposeA, kTransposed, "transpose a matrix");
  if (ofA.isTransposed)
    set(kTransposeB, kTransposed, "transpose a matrix");
  if (epilogue != kEpilogueNone)
    set(kEpilogue, epilogue, "say what comes behind a product");
  if (op.preActivation)
    set(kAuxLeading, op.n, "describe a pre-activation");
  return status;
}

/// Read by the library when it is called; while it chooses it wants to know how
/// they are aligned.
Status Product::setPointers(CUdeviceptr bias, CUdeviceptr preActivation) {
  Status status = Status::success();
  auto set = [&](bool isUsed, int attribute, CUdeviceptr pointer) {
    if (isUsed && status.ok())
      status =
          check(lt.matmulDescSet(desc, attribute, &pointer, sizeof pointer),
                "say what is beside a product");
  };
  set(op.bias || op.sumsA || op.sumsB, kBiasPointer, bias);
  set(bool(op.preActivation), kAuxPointer, preActivation);
  return status;
}

Status Product::makeLayout(MatrixLayout &layout, ElementType type,
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

void Product::listCalls() {
  calls = {{}};
  auto in = uint64_t(elementBytes(op.inputType));
  auto out = uint64_t(elementBytes(op.outputType));
  for (size_t dim = 0; dim + 1 < op.batch.size(); ++dim) {
    std::vector<Operands> next;
    for (const Operands &base : calls)
      for (uint64_t i = 0; i < uint64_t(op.batch[dim]); ++i)
        next.push_back({.a = base.a + i * uint64_t(op.stridesA[dim]) * in,
                        .b = base.b + i * uint64_t(op.stridesB[dim]) * in,
                        .c = base.c + i * uint64_t(op.stridesC[dim]) * out});
    calls = std::move(next);
  }
}

Addresses Product::addressesIn(const RankMemory &memory) const {
  auto addressOf = [&](const std::optional<BufferRef> &ref) {
    return ref ? memory.address(*ref) : Address();
  };
  return {memory.address(op.a), memory.address(op.b), memory.address(op.c),
          addressOf(op.bias    ? op.bias
                    : op.sumsA ? op.sumsA
                               : op.sumsB),
          addressOf(op.preActivation)};
}

Alignments Product::alignmentsOf(const Addresses &at) const {
  auto of = [&](Address Addresses::*which, CUdeviceptr Operands::*ofCall) {
    const Address &address = at.*which;
    uint64_t bits = kMostAlignment | address.base | uint64_t(address.step);
    for (const Operands &call : calls)
      bits |= call.*ofCall;
    return uint32_t(bits & -bits);
  };
  return {of(&Addresses::a, &Operands::a), of(&Addresses::b, &Operands::b),
          of(&Addresses::c, &Operands::c),
          of(&Addresses::bias, &Operands::bias),
          of(&Addresses::preActivation, &Operands::preActivation)};
}

OfBuffers<int64_t> Product::spans() const {
  size_t dims = op.batch.size();
  auto span = [&](ElementType type, const Shape &strides, int64_t rows,
                  int64_t columns) {
    int64_t last = (rows - 1) * strides[dims] +
                   (columns - 1) * strides[dims + 1] +
                   (dims ? (op.batch.back() - 1) * strides[dims - 1] : 0);
    return (last + 1) * elementBytes(type);
  };
  int64_t width = elementBytes(op.outputType);
  return {span(op.inputType, op.stridesA, op.m, op.k),
          span(op.inputType, op.stridesB, op.k, op.n),
          span(op.outputType, op.stridesC, op.m, op.n),
          std::max(op.m, op.n) * width,
          op.preActivation ? op.m * op.n * width : 0};
}

//===----------------------------------------------------------------------===//
// Algorithms
//===----------------------------------------------------------------------===//

std::string Product::keyOf(const Alignments &alignments) const {
  std::array<int, 3> version = {};
  for (int part : {kMajorVersion, kMinorVersion, kPatchLevel})
    lt.getProperty(part, &version[size_t(part)]);
  std::string key =
      concat(elementName(op.inputType), " ", elementName(op.outputType), " ",
             op.m, " ", op.n, " ", op.k, " ");
  for (const Shape *list :
       {&op.batch, &op.stridesA, &op.stridesB, &op.stridesC})
    key += shapeText(*list) + " ";
  return key +
         concat(op.accumulate ? "accumulate " : "", op.bias ? "bias " : "",
                op.preActivation ? "pre-activation " : "",
                op.sumsA ? "sums of a " : "", op.sumsB ? "sums of b " : "",
                "behind ", int(op.postOp), ", compute ", computeType(op),
                ", aligned ", alignments.a, " ", alignments.b, " ",
                alignments.c, " ", alignments.bias, " ",
                alignments.preActivation, ", cuBLASLt ", version[0], ".",
                version[1], ".", version[2], ", ", gpu.getName());
}

Expected<std::vector<Algorithm>> Product::list(const Alignments &alignments,
                                               int most) {
  MatmulPreference preference = nullptr;
  Status status = setPointers(alignments.bias, alignments.preActivation);
  if (status.ok())
    status = check(lt.preferenceCreate(&preference), "state a preference");
  auto set = [&](int attribute, auto value) {
    if (status.ok())
      status =
          check(lt.preferenceSet(preference, attribute, &value, sizeof value),
                "state a preference");
  };
  set(kMaxWorkspace, kMostWorkspace);
  // The library's a is b.
  set(kLeastAlignmentA, alignments.b);
  set(kLeastAlignmentB, alignments.a);
  set(kLeastAlignmentC, alignments.c);
  set(kLeastAlignmentD, alignments.c);
  std::vector<MatmulHeuristic> found(size_t(most), MatmulHeuristic{});
  int count = 0;
  CublasStatus result = kCublasSuccess;
  if (status.ok())
    result =
        lt.getHeuristic(gpu.getCublasHandle(), desc, layoutA, layoutB, layoutC,
                        layoutC, preference, most, found.data(), &count);
  if (preference)
    lt.preferenceDestroy(preference);
  if (status.ok() && result != kCublasNotSupported)
    status = check(result, "choose an algorithm");
  if (!status.ok())
    return status;
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < count; ++i)
    if (found[size_t(i)].state == kCublasSuccess)
      algorithms.push_back(
          {found[size_t(i)].algorithm, found[size_t(i)].workspaceBytes});
  return algorithms;
}

std::optional<Algorithm> Product::check(const MatmulAlgorithm &code,
                                        const Alignments &alignments) {
  MatmulHeuristic found = {};
  if (!setPointers(alignments.bias, alignments.preActivation).ok())
    return std::nullopt;
  CublasStatus result =
      lt.algorithmCheck(gpu.getCublasHandle(), desc, layoutA, layoutB, layoutC,
                        layoutC, &code, &found);
  if (result != kCublasSuccess || found.state != kCublasSuccess ||
      found.workspaceBytes > kMostWorkspace)
    return std::nullopt;
  return Algorithm{code, found.workspaceBytes};
}

Status Product::enqueueOne(const Operands &at, const Algorithm &algorithm,
                           CUdeviceptr workspace, CUstream stream) {
  double alpha64 = op.alpha, beta64 = op.accumulate;
  float alpha32 = float(op.alpha), beta32 = op.accumulate;
  bool isWide = op.inputType == ElementType::F64;
  const void *alpha = isWide ? static_cast<void *>(&alpha64) : &alpha32;
  const void *beta = isWide ? static_cast<void *>(&beta64) : &beta32;
  auto pointer = [](CUdeviceptr address) {
    return reinterpret_cast<void *>(address);
  };
  if (Status status = setPointers(at.bias, at.preActivation); !status.ok())
    return status;
  return check(lt.matmul(gpu.getCublasHandle(), desc, alpha, pointer(at.b),
                         layoutA, pointer(at.a), layoutB, beta, pointer(at.c),
                         layoutC, pointer(at.c), layoutC, &algorithm.code,
                         pointer(workspace), algorithm.workspaceBytes, stream),
               "multiply");
}

Status Product::enqueue(const Operands &at, const Algorithm &algorithm,
                        CUdeviceptr workspace, CUstream stream) {
  for (const Operands &call : calls) {
    Operands own{at.a + call.a, at.b + call.b, at.c + call.c, at.bias,
                 at.preActivation};
    if (Status status = enqueueOne(own, algorithm, workspace, stream);
        !status.ok())
      return status;
  }
  return Status::success();
}

} // namespace tandem::rt::cuda
