//===- gemm.cpp - products by cuBLASLt ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What cuBLASLt does not do (product.h) is done by a plain kernel: if only what
// is behind or beside a product, by kernels of its own behind the library's
// product.
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "cuda/driver/work.h"
#include "cuda/kernels/words.h"
#include "cuda/libraries/algorithms.h"

namespace tandem::rt::cuda {

namespace {
using Made = Expected<std::unique_ptr<Work>>;

class LtWork final : public Work {
public:
  LtWork(const WorkContext &context, std::unique_ptr<Product> product)
      : gpu(context.gpu), product(std::move(product)),
        workspace(context.workspace),
        addresses(this->product->addressesIn(context.memory)) {}

  /// False if the library has no algorithm for it.
  Expected<bool> prepare(const Algorithms &algorithms) {
    auto found = algorithms.find(*product, product->alignmentsOf(addresses));
    if (!found.ok() || !*found)
      return found.ok() ? Expected<bool>(false) : found.status();
    algorithm = **found;
    workspace.need(algorithm.workspaceBytes);
    return true;
  }
  Status enqueue(CUstream stream, int64_t iteration) override {
    const Addresses &at = addresses;
    return product->enqueue({at.a.at(iteration), at.b.at(iteration),
                             at.c.at(iteration), at.bias.at(iteration),
                             at.preActivation.at(iteration)},
                            algorithm, workspace.address(), stream);
  }

private:
  std::shared_ptr<Gpu> gpu; ///< Outlives the product.
  std::unique_ptr<Product> product;
  Workspace &workspace;
  Addresses addresses;
  Algorithm algorithm;
};

std::string suffixOf(const Gemm &op) {
  return std::string(elementName(op.inputType)) + "_" +
         std::string(elementName(op.outputType));
}

/// Kernels of one product, and where its buffers are.
class PlainGemm {
public:
  PlainGemm(const WorkContext &context, const Gemm &op, int64_t count)
      : context(context), op(op), count(count) {}

  Made multiply() const;
  Made applyBehind() const;
  /// Sums of rows of an operand.
  Made addBeside(const BufferRef &sums, const BufferRef &operand, int64_t rows,
                 int64_t rowStride, int64_t stride) const;

private:
  int64_t address(const std::optional<BufferRef> &ref,
                  int64_t iteration) const {
    return ref ? int64_t(context.memory.address(*ref).at(iteration)) : 0;
  }
  static void append(Words &words, std::initializer_list<const Shape *> lists) {
    for (const Shape *list : lists)
      words.insert(words.end(), list->begin(), list->end());
  }

  const WorkContext &context;
  const Gemm &op;
  int64_t count;
};

Made PlainGemm::multiply() const {
  ++context.plain.products;
  int64_t batches = numElements(op.batch);
  auto words = [&](int64_t iteration) {
    Words made = {int64_t(op.batch.size()), batches,      op.m, op.n, op.k,
                  wordOf(op.alpha),         op.accumulate};
    for (const BufferRef *ref : {&op.a, &op.b, &op.c})
      made.push_back(address(*ref, iteration));
    append(made, {&op.batch, &op.stridesA, &op.stridesB, &op.stridesC});
    return made;
  };
  return makePlainWork(context.gpu, "tandem_gemm_" + suffixOf(op),
                       batches * op.m * op.n, count, words);
}

static_assert(int(PostOp::GeluErf) == behind::GeluErf &&
              int(PostOp::GeluTanh) == behind::GeluTanh &&
              int(PostOp::Relu) == behind::Relu &&
              int(PostOp::GeluTanhGradient) == behind::GeluTanhGradient);

Made PlainGemm::applyBehind() const {
  int64_t batches = numElements(op.batch);
  auto words = [&](int64_t iteration) {
    Words made = {int64_t(op.batch.size()),
                  batches,
                  op.m,
                  op.n,
                  int64_t(op.postOp),
                  address(op.c, iteration),
                  address(op.bias, iteration),
                  address(op.preActivation, iteration)};
    append(made, {&op.batch, &op.stridesC});
    return made;
  };
  return makePlainWork(
      context.gpu, "tandem_behind_" + std::string(elementName(op.outputType)),
      batches * op.m * op.n, count, words);
}

Made PlainGemm::addBeside(const BufferRef &sums, const BufferRef &operand,
                          int64_t rows, int64_t rowStride,
                          int64_t stride) const {
  auto words = [&](int64_t iteration) {
    return Words{rows,      op.k,   address(operand, iteration),
                 rowStride, stride, address(sums, iteration)};
  };
  return makePlainWork(context.gpu, "tandem_beside_" + suffixOf(op), rows,
                       count, words);
}

/// Null if the library does not take it.
Made makeLtGemm(const WorkContext &context, const Gemm &op) {
  Expected<std::unique_ptr<Product>> product =
      Product::describe(*context.gpu, op);
  if (!product.ok() || !*product)
    return product.ok() ? Made(nullptr) : product.status();
  auto work = std::make_unique<LtWork>(context, std::move(*product));
  Expected<bool> isTaken = work->prepare(context.algorithms);
  if (!isTaken.ok())
    return isTaken.status();
  return *isTaken ? std::unique_ptr<Work>(std::move(work)) : nullptr;
}

/// The product alone, and then what is behind and beside it.
Made makeApart(const WorkContext &context, const Gemm &op, int64_t count) {
  Gemm alone = op;
  alone.postOp = PostOp::None;
  alone.bias = alone.preActivation = alone.sumsA = alone.sumsB = std::nullopt;
  PlainGemm plain(context, op, count);
  std::vector<std::unique_ptr<Work>> works;
  Status status;
  auto add = [&](Made made) {
    if (!made.ok())
      status = made.status();
    else
      works.push_back(std::move(*made));
  };
  add(makeGemm(context, alone, count));
  if (status.ok() && (op.bias || op.postOp != PostOp::None))
    add(plain.applyBehind());
  if (status.ok() && op.sumsA)
    add(plain.addBeside(*op.sumsA, op.a, op.m, op.stridesA[0], op.stridesA[1]));
  if (status.ok() && op.sumsB)
    add(plain.addBeside(*op.sumsB, op.b, op.n, op.stridesB[1], op.stridesB[0]));
  if (!status.ok())
    return status;
  context.plain.functions += int64_t(works.size()) - 1;
  return makeSequence(std::move(works));
}
} // namespace

Made makeGemm(const WorkContext &context, const Gemm &op, int64_t count) {
  Made work = makeLtGemm(context, op);
  if (!work.ok() || *work)
    return work;
  bool isAlone =
      !op.bias && op.postOp == PostOp::None && !op.sumsA && !op.sumsB;
  return isAlone ? PlainGemm(context, op, count).multiply()
                 : makeApart(context, op, count);
}

} // namespace tandem::rt::cuda
