//===- SelectConvolutions.cpp - convolutions by strides -------------------===//
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

#define GEN_PASS_DEF_SELECTCONVOLUTIONS
#include "tandem/Conversion/Lower/Passes.h.inc"

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Whether the library takes the view: each element is one of its own.
static bool isTaken(const StridedView &view, Value value) {
  return view.scale == 1 &&
         llvm::all_of(llvm::zip_equal(view.strides, getShape(value)),
                      [](auto pair) {
                        auto [stride, size] = pair;
                        return stride > 0 || (stride == 0 && size == 1);
                      });
}

static sched::ConvolutionKind getKind(Operation *op) {
  if (isa<nn::ConvOp>(op))
    return sched::ConvolutionKind::Forward;
  return isa<nn::ConvInputGradOp>(op) ? sched::ConvolutionKind::InputGradient
                                      : sched::ConvolutionKind::WeightGradient;
}

static void replace(Operation *op) {
  nn::Convolution convolution(op);
  StridedView lhs = chooseSource(op->getOperand(0), isTaken);
  StridedView rhs = chooseSource(op->getOperand(1), isTaken);
  StridedView result = chooseDestination(op->getResult(0), isTaken);
  SmallVector<int64_t> strides;
  for (Value tensor :
       {convolution.input, convolution.weight, convolution.output}) {
    const StridedView &view = tensor == op->getResult(0)    ? result
                              : tensor == op->getOperand(0) ? lhs
                                                            : rhs;
    llvm::append_range(strides, view.strides);
  }
  OpBuilder builder(op);
  auto created = sched::ConvOp::create(
      builder, op->getLoc(), result.source.getType(), lhs.source, rhs.source,
      getKind(op), getShape(convolution.input), getShape(convolution.weight),
      getShape(convolution.output), convolution.stride, convolution.padding,
      convolution.dilation, strides, ArrayRef<int64_t>{lhs.offset, rhs.offset});
  created->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  takeOrigin(created.getResult(), result.source);
  result.source.replaceAllUsesWith(created.getResult());
}

namespace {
struct SelectConvolutionsPass
    : impl::SelectConvolutionsBase<SelectConvolutionsPass> {
  void runOnOperation() override {
    auto rewrite = [](func::FuncOp function) {
      rewriteEach<nn::ConvOp, nn::ConvInputGradOp, nn::ConvWeightGradOp>(
          function, [](Operation *op) { replace(op); });
    };
    if (failed(rewriteSteps(getOperation(), rewrite)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
