//===- AccumulateProducts.cpp - products accumulate into buffers ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A library adds what it computes to what lies in the destination, for one more
// read of it. An addition of its own reads both terms and writes the sum, and
// both terms lie in memory until then: the gradients of all strands.
//
// It is cheaper where the other term lies in memory anyway. What the step of
// the addition computes itself would go from registers into the sum. Kernels
// would read all terms of what many layers read at once, and hold them so long.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "tandem/Analysis/FreeViews.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_ACCUMULATEPRODUCTS
#include "tandem/Conversion/Lower/Passes.h.inc"

namespace {
/// Looks at one addition after the other, in the order of the text, so that a
/// sum of many products becomes a chain of them. Steps are open.
class Accumulator {
public:
  explicit Accumulator(func::FuncOp function) : function(function) {
    function.walk<WalkOrder::PreOrder>(
        [&](Operation *op) { position[op] = position.size(); });
  }
  void run();

private:
  void accumulate(nn::AddOp add);
  bool canOverwrite(Value made, Value term, sched::MatmulOp product,
                    nn::AddOp add) const;

  func::FuncOp function;
  DenseMap<Operation *, int64_t> position;
};
} // namespace

static sched::StepOp getStep(Operation *op) {
  return op->getParentOfType<sched::StepOp>();
}

/// What `add` reads as `term`, without reshapes of its own.
static Value getMade(Value term) {
  while (auto reshape = term.getDefiningOp<nn::ReshapeOp>()) {
    if (!term.hasOneUse())
      return term;
    term = reshape.getInput();
  }
  return term;
}

/// A product of which `add` makes a sum, and nobody else anything.
static sched::MatmulOp getProduct(Value term, nn::AddOp add) {
  Value made = getMade(term);
  auto product = made.getDefiningOp<sched::MatmulOp>();
  bool isFree = product && !product.getSum() && made.hasOneUse() &&
                term.getType() == add.getType();
  return isFree ? product : sched::MatmulOp();
}

/// Whether `made`, which is read as `term`, has a buffer of its own that is
/// complete when `product` begins, and that nothing but `add` reads.
bool Accumulator::canOverwrite(Value made, Value term, sched::MatmulOp product,
                               nn::AddOp add) const {
  Operation *maker = made.getDefiningOp();
  // What keeps the sum in the memory of the term does not read it.
  bool isReadOnce = llvm::count_if(made.getUsers(), [](Operation *user) {
                      return !isa<sched::KeepOp>(user);
                    }) == 1;
  if (!maker || !isReadOnce || term.getType() != add.getType() ||
      made.getType() != product.getResult().getType() || isFreeView(maker) ||
      spmd::isSource(maker))
    return false;
  sched::StepOp step = getStep(maker);
  bool liesInMemory =
      isa<sched::LibraryCallOpInterface>(maker) || step != getStep(add);
  return liesInMemory && position.at(maker) < position.at(product) &&
         step.getQueue() == getStep(product).getQueue();
}

void Accumulator::accumulate(nn::AddOp add) {
  for (auto [own, other] : {std::pair(add.getRhs(), add.getLhs()),
                            std::pair(add.getLhs(), add.getRhs())}) {
    sched::MatmulOp product = getProduct(own, add);
    Value made = getMade(other);
    if (!product || !canOverwrite(made, other, product, add))
      continue;
    product.getSumMutable().assign(made);
    takeOrigin(product.getResult(), add.getResult());
    add.replaceAllUsesWith(own);
    add.erase();
    return;
  }
}

void Accumulator::run() {
  rewriteEach<nn::AddOp>(function, [&](nn::AddOp add) { accumulate(add); });
}

namespace {
struct AccumulateProductsPass
    : impl::AccumulateProductsBase<AccumulateProductsPass> {
  void runOnOperation() override {
    auto rewrite = [](func::FuncOp function) { Accumulator(function).run(); };
    if (failed(rewriteSteps(getOperation(), rewrite)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
