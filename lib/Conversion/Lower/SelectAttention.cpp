//===- SelectAttention.cpp - attention reads and writes by strides --------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "StridedView.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_SELECTATTENTION
#include "tandem/Conversion/Lower/Passes.h.inc"

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Whether the library takes the view: rows are contiguous, apart, and as they
/// are.
static bool isTaken(const StridedView &view, Value value) {
  ArrayRef<int64_t> shape = getShape(value);
  bool hasRows = view.strides.back() == 1 || shape.back() == 1;
  bool areApart = shape[2] == 1 || view.strides[2] >= shape[3];
  return hasRows && areApart && view.scale == 1 &&
         llvm::all_of(view.strides, [](int64_t stride) { return stride >= 0; });
}

/// Where all but one of the uses of `value` read by strides, and that one is a
/// permutation, makes the others read the permutation: the output of attention
/// goes into a projection, and into the backward.
static void usePermutation(Value value) {
  nn::PermuteOp permute;
  SmallVector<OpOperand *> others;
  for (OpOperand &use : value.getUses()) {
    auto library = dyn_cast<nn::LibraryOpInterface>(use.getOwner());
    if (library && library.readsByStrides(use.getOperandNumber())) {
      others.push_back(&use);
      continue;
    }
    if (permute || !isa<nn::PermuteOp>(use.getOwner()))
      return;
    permute = cast<nn::PermuteOp>(use.getOwner());
  }
  if (!permute || others.empty())
    return;
  permute->moveAfter(value.getDefiningOp());
  SmallVector<int64_t> back(permute.getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(permute.getPermutation()))
    back[dim] = i;
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfter(permute);
  Value same = nn::PermuteOp::create(builder, permute.getLoc(), value.getType(),
                                     permute.getResult(), back);
  for (OpOperand *use : others)
    use->set(same);
}

/// Strides of a mask of rank 4 that broadcasts to the scores.
static SmallVector<int64_t> getMaskStrides(Value mask) {
  ArrayRef<int64_t> shape = getShape(mask);
  SmallVector<int64_t> strides(getContiguousStrides(shape));
  for (auto [stride, size] : llvm::zip_equal(strides, shape))
    if (size == 1)
      stride = 0;
  return strides;
}

namespace {
/// Collects what `sched.attention` is made of.
struct Call {
  void addSource(Value value) {
    StridedView view = chooseSource(value, isTaken);
    inputs.push_back(view.source);
    offsets.push_back(view.offset);
    addStrides(view);
  }
  void addDestination(Value value) {
    StridedView view = chooseDestination(value, isTaken);
    results.push_back(view.source);
    addStrides(view);
  }
  void addStrides(const StridedView &view) {
    strides.append(view.strides.begin(), std::prev(view.strides.end()));
  }

  SmallVector<Value> inputs, results;
  SmallVector<int64_t> offsets, strides;
};
} // namespace

template <typename OpT> static SmallVector<int64_t> getSizes(OpT op) {
  ArrayRef<int64_t> query = getShape(op.getQuery()),
                    key = getShape(op.getKey());
  return {query[0],
          query[1],
          key[1],
          query[2],
          key[2],
          query[3],
          getShape(op.getValue())[3]};
}

template <typename OpT> static void create(OpT op, Call &call) {
  OpBuilder builder(op);
  llvm::append_range(call.inputs, op.getOthers());
  DenseI64ArrayAttr maskStrides;
  if (Value mask = op.getOtherOperands().mask)
    maskStrides = builder.getDenseI64ArrayAttr(getMaskStrides(mask));
  auto created = sched::AttentionOp::create(
      builder, op.getLoc(), ValueRange(call.results).getTypes(), call.inputs,
      isa<nn::AttentionBackwardOp>(op) ? builder.getUnitAttr() : UnitAttr(),
      builder.getDenseI64ArrayAttr(getSizes(op)),
      builder.getDenseI64ArrayAttr(call.strides), maskStrides,
      op.getScaleAttr(), op.getBeforeAttr(), op.getAfterAttr(),
      op.getDropoutAttr(), op.getOrdinalAttr(),
      builder.getDenseI64ArrayAttr(call.offsets),
      builder.getI64IntegerAttr(static_cast<int64_t>(op.getFlops())));
  created->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  for (auto [result, made] :
       llvm::zip_equal(call.results, created.getResults())) {
    takeOrigin(made, result);
    result.replaceAllUsesWith(made);
  }
}

static void replace(nn::AttentionOp op) {
  Call call;
  for (Value value : {op.getQuery(), op.getKey(), op.getValue()})
    call.addSource(value);
  usePermutation(op.getResult());
  call.addDestination(op.getResult());
  call.results.push_back(op.getLogsumexp());
  create(op, call);
}

static void replace(nn::AttentionBackwardOp op) {
  Call call;
  for (Value value : {op.getGrad(), op.getQuery(), op.getKey(), op.getValue(),
                      op.getOutput()})
    call.addSource(value);
  call.inputs.push_back(op.getLogsumexp());
  for (Value value : op.getResults())
    call.addDestination(value);
  create(op, call);
}

namespace {
struct SelectAttentionPass : impl::SelectAttentionBase<SelectAttentionPass> {
  void runOnOperation() override {
    // In the order of the text: the backward reads what the forward writes.
    auto rewrite = [](func::FuncOp function) {
      rewriteEach<nn::AttentionOp, nn::AttentionBackwardOp>(
          function, [](auto op) { replace(op); });
    };
    if (failed(rewriteSteps(getOperation(), rewrite)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
