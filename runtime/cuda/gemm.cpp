//===- gemm.cpp - products by cuBLASLt ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What cuBLASLt does not do (product.h) is done by a plain kernel.
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "cuda/algorithms.h"
#include "cuda/kernels/words.h"
#include "cuda/work.h"

namespace tandem::rt::cuda {

namespace {
class LtWork final : public Work {
public:
  LtWork(const WorkContext &context, std::unique_ptr<Product> product)
      : gpu(context.gpu), product(std::move(product)),
        workspace(context.workspace) {
    const Gemm &op = this->product->getOp();
    auto address = [&](const BufferRef &ref) {
      return context.memory.address(ref);
    };
    a = address(op.a), b = address(op.b), c = address(op.c);
    if (op.bias)
      bias = address(*op.bias);
  }

  /// False if the library has no algorithm for it.
  Expected<bool> prepare(const Algorithms &algorithms) {
    auto found = algorithms.find(*product, product->alignmentsOf(a, b, c));
    if (!found.ok() || !*found)
      return found.ok() ? Expected<bool>(false) : found.status();
    algorithm = **found;
    workspace.need(algorithm.workspaceBytes);
    return true;
  }
  Status enqueue(CUstream stream, int64_t iteration) override {
    Operands at{a.at(iteration), b.at(iteration), c.at(iteration),
                bias.at(iteration)};
    return product->enqueue(at, algorithm, workspace.address(), stream);
  }

private:
  std::shared_ptr<Gpu> gpu; ///< Outlives the product.
  std::unique_ptr<Product> product;
  Workspace &workspace;
  Address a, b, c, bias;
  Algorithm algorithm;
};

std::string suffixOf(const Gemm &op) {
  return std::string(elementName(op.inputType)) + "_" +
         std::string(elementName(op.outputType));
}

Expected<std::unique_ptr<Work>> makePlainGemm(const WorkContext &context,
                                              const Gemm &op, int64_t count) {
  ++context.plain.products;
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
  using Made = std::unique_ptr<Work>;
  Expected<std::unique_ptr<Product>> product =
      Product::describe(*context.gpu, op);
  if (!product.ok() || !*product)
    return product.ok() ? Expected<Made>(Made()) : product.status();
  auto work = std::make_unique<LtWork>(context, std::move(*product));
  Expected<bool> isTaken = work->prepare(context.algorithms);
  if (!isTaken.ok())
    return isTaken.status();
  return *isTaken ? Made(std::move(work)) : Made();
}

Expected<std::unique_ptr<Work>> makeGemm(const WorkContext &context,
                                         const Gemm &op, int64_t count) {
  Expected<std::unique_ptr<Work>> work = makeLtGemm(context, op);
  if (!work.ok() || *work)
    return work;
  return makePlainGemm(context, op, count);
}

} // namespace tandem::rt::cuda
