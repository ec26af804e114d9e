//===- SelectProducts.cpp - products read and write by strides ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Contraction.h"
#include "Steps.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_SELECTPRODUCTS
#include "tandem/Conversion/Lower/Passes.h.inc"

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Where the sums over leading dimensions of a product go, if nobody sees the
/// product itself: strides of the summed dimensions are zero.
static std::optional<StridedView> getSummedDestination(nn::MatmulOp matmul) {
  if (!matmul.getResult().hasOneUse())
    return std::nullopt;
  auto sum = dyn_cast<nn::SumOp>(*matmul.getResult().user_begin());
  if (!sum)
    return std::nullopt;
  StridedView last = getDestination(sum.getResult());
  Sizes strides;
  unsigned next = 0;
  for (int64_t dim = 0, e = getShape(matmul.getResult()).size(); dim < e;
       ++dim) {
    bool summed = llvm::is_contained(sum.getDims(), dim);
    strides.push_back(summed ? 0 : last.strides[next]);
    next += !summed || sum.getKeepdim();
  }
  return StridedView{last.source, 0, strides, last.scale};
}

static SmallVector<Loop> getLoops(nn::MatmulOp matmul, const StridedView &a,
                                  const StridedView &b, const StridedView &c) {
  ArrayRef<int64_t> lhs = getShape(matmul.getLhs());
  ArrayRef<int64_t> rhs = getShape(matmul.getRhs());
  size_t numBatch = lhs.size() - 2;
  SmallVector<Loop> loops;
  for (size_t i = 0; i < numBatch; ++i)
    loops.push_back({lhs[i], a.strides[i], b.strides[i], c.strides[i]});
  loops.push_back({lhs[numBatch], a.strides[numBatch], 0, c.strides[numBatch]});
  loops.push_back(
      {rhs[numBatch + 1], 0, b.strides[numBatch + 1], c.strides[numBatch + 1]});
  loops.push_back(
      {lhs[numBatch + 1], a.strides[numBatch + 1], b.strides[numBatch], 0});
  return loops;
}

namespace {
struct Choice {
  StridedView a, b, c;
  Product product;
};
} // namespace

/// The product that follows views farthest. The operands and the result as they
/// are always do.
static Choice choose(nn::MatmulOp matmul) {
  SmallVector<StridedView> destinations;
  if (auto summed = getSummedDestination(matmul))
    destinations.push_back(*summed);
  destinations.push_back(getDestination(matmul.getResult()));
  destinations.push_back({matmul.getResult(), 0,
                          getContiguousStrides(getShape(matmul.getResult()))});
  SmallVector<StridedView> lhs = getViews(matmul.getLhs());
  SmallVector<StridedView> rhs = getViews(matmul.getRhs());
  for (StridedView &c : destinations)
    for (StridedView &a : llvm::reverse(lhs))
      for (StridedView &b : llvm::reverse(rhs))
        if (auto product = formProduct(getLoops(matmul, a, b, c)))
          return {a, b, c, *product};
  llvm_unreachable("contiguous operands always form a product");
}

/// Whether a library could write its result permuted: rows of the last
/// dimension, for a product of one of the last two.
static bool keepsRows(nn::PermuteOp permute, Value result) {
  ArrayRef<int64_t> permutation = permute.getPermutation();
  int64_t last = permutation.size() - 1;
  bool isProduct = result.getDefiningOp<nn::MatmulOp>() != nullptr;
  return permutation.back() >= last - isProduct;
}

/// Whether `a` comes before `b` in the text; both are in steps.
static bool isBefore(Operation *a, Operation *b) {
  if (a->getBlock() == b->getBlock())
    return a->isBeforeInBlock(b);
  return a->getParentOp()->isBeforeInBlock(b->getParentOp());
}

/// Where several permutations of what a library makes are all that is used of
/// it, makes one of them the result and the others permutations of that one:
/// the gradient of an attention head is used as it is and transposed, in the
/// layout of the projection.
static void choosePermutation(OpResult result) {
  Value last = result;
  while (last.hasOneUse() &&
         getScale(*last.user_begin(), last.use_begin()->getOperandNumber()))
    last = last.user_begin()->getResult(0);
  SmallVector<nn::PermuteOp> users;
  for (Operation *user : last.getUsers())
    users.push_back(dyn_cast<nn::PermuteOp>(user));
  if (users.size() < 2 || llvm::is_contained(users, nullptr))
    return;
  // The list's own order is another one where the IR was printed and read.
  llvm::sort(users, isBefore);
  auto chosen = llvm::find_if(
      users, [&](nn::PermuteOp user) { return keepsRows(user, result); });
  if (chosen == users.end())
    return;
  nn::PermuteOp first = *chosen;
  SmallVector<int64_t> place(first.getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(first.getPermutation()))
    place[dim] = i;
  first->moveAfter(last.getDefiningOp());
  for (nn::PermuteOp other : users) {
    if (other == first)
      continue;
    SmallVector<int64_t> permutation;
    for (int64_t dim : other.getPermutation())
      permutation.push_back(place[dim]);
    other.getInputMutable().assign(first.getResult());
    other.setPermutation(permutation);
  }
}

static void replace(nn::MatmulOp matmul, Choice choice) {
  OpBuilder builder(matmul);
  Product &p = choice.product;
  if (p.swapped)
    std::swap(choice.a, choice.b);
  auto product = sched::MatmulOp::create(
      builder, matmul.getLoc(), choice.c.source.getType(),
      /*beside=*/Type(), choice.a.source, choice.b.source, /*bias=*/Value(),
      /*sum=*/Value(), /*preActivation=*/Value(), p.batch, p.m, p.n, p.k,
      p.stridesA, p.stridesB, p.stridesC,
      llvm::APFloat(choice.a.scale * choice.b.scale * choice.c.scale),
      sched::Epilogue::None, sched::Summed::None, choice.a.offset,
      choice.b.offset);
  product->setDiscardableAttrs(matmul->getDiscardableAttrDictionary());
  takeOrigin(product.getResult(), choice.c.source);
  choice.c.source.replaceAllUsesWith(product.getResult());
}

namespace {
struct SelectProductsPass : impl::SelectProductsBase<SelectProductsPass> {
  void runOnOperation() override {
    auto rewrite = [](func::FuncOp function) {
      // What attention writes permuted is what products read.
      rewriteEach<nn::MatmulOp, nn::AttentionBackwardOp>(function, [](auto op) {
        for (OpResult result : op->getResults())
          choosePermutation(result);
      });
      rewriteEach<nn::MatmulOp>(
          function, [](nn::MatmulOp op) { replace(op, choose(op)); });
    };
    if (failed(rewriteSteps(getOperation(), rewrite)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
