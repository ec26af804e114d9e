//===- SplitLogSoftmax.cpp - log-softmaxes are made again -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cross entropy of many classes holds nothing larger than its logits, which
// are there anyway: of bf16 logits no copy in f32.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem::nn;

namespace tandem::lower {

#define GEN_PASS_DEF_SPLITLOGSOFTMAX
#include "tandem/Conversion/Lower/Passes.h.inc"

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {
/// Writes before one operator, as a part of it: with its location and facts.
class Writer {
public:
  explicit Writer(Operation *op, bool isMadeAgain = false)
      : builder(op), op(op), isMadeAgain(isMadeAgain) {}

  template <typename OpT, typename... Args>
  Value create(Type type, Args &&...args) {
    auto made =
        OpT::create(builder, op->getLoc(), type, std::forward<Args>(args)...);
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    if (isMadeAgain)
      made->setAttr(sched::kAgainAttrName, builder.getUnitAttr());
    return made->getResult(0);
  }

private:
  OpBuilder builder;
  Operation *op;
  bool isMadeAgain;
};

/// log_softmax(x) = (x - most) - log, the latter two per row.
struct Rows {
  Value input; ///< Before it was converted to the type of the result.
  RankedTensorType type;
  int64_t dim;
  Value most, log;

  explicit Rows(LogSoftmaxOp op);
  /// Of elements of the input.
  Value finish(Writer &writer, Value elements) const;
};
} // namespace

Rows::Rows(LogSoftmaxOp op)
    : input(op.getInput()), type(getType(op.getResult())), dim(op.getDim()) {
  Writer writer(op);
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = 1;
  auto one = RankedTensorType::get(shape, type.getElementType());
  most = writer.create<MaxOp>(one, input, ArrayRef(dim), /*keepdim=*/true);
  Value shifted = writer.create<SubOp>(type, input, most);
  Value powers = writer.create<ExpOp>(type, shifted);
  Value sum =
      writer.create<SumOp>(one, powers, ArrayRef(dim), /*keepdim=*/true);
  log = writer.create<LogOp>(one, sum);
  if (auto convert = input.getDefiningOp<ConvertOp>())
    input = convert.getInput();
}

Value Rows::finish(Writer &writer, Value elements) const {
  auto result = getType(elements).clone(type.getElementType());
  if (elements.getType() != result)
    elements = writer.create<ConvertOp>(result, elements);
  Value shifted = writer.create<SubOp>(result, elements, most);
  return writer.create<SubOp>(result, shifted, log);
}

static bool isHeld(LogSoftmaxOp op) {
  auto users = op.getResult().getUsers();
  return llvm::any_of(users, llvm::IsaPred<LogSoftmaxBackwardOp>) &&
         llvm::none_of(users, [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>();
         });
}

/// Whether the operator's kernel makes on the way what it reads.
static bool isFused(Operation *op) {
  return op->hasTrait<Broadcasting>() || isa<LogSoftmaxBackwardOp, SumOp>(op);
}

static void split(LogSoftmaxOp op) {
  Type element = getType(op.getResult()).getElementType();
  // Others are computed in f32 and rounded, which nobody does again.
  if (!isHeld(op) || (!element.isF32() && !element.isF64()))
    return;
  Rows rows(op);
  SmallVector<Operation *> users(op->getUsers());
  for (Operation *user : users) {
    auto gather = dyn_cast<GatherOp>(user);
    if (gather && static_cast<int64_t>(gather.getDim()) == rows.dim &&
        gather.getInput() == op.getResult()) {
      Writer writer(gather);
      auto type = getType(gather.getResult())
                      .clone(getType(rows.input).getElementType());
      Value elements = writer.create<GatherOp>(type, rows.input,
                                               gather.getIndex(), rows.dim);
      gather.replaceAllUsesWith(rows.finish(writer, elements));
      gather.erase();
      continue;
    }
    Writer writer(user, isFused(user));
    user->replaceUsesOfWith(op.getResult(), rows.finish(writer, rows.input));
  }
  op.erase();
}

namespace {
struct SplitLogSoftmaxPass : impl::SplitLogSoftmaxBase<SplitLogSoftmaxPass> {
  void runOnOperation() override {
    auto rewrite = [](func::FuncOp function) {
      rewriteEach<LogSoftmaxOp>(function, split);
    };
    if (failed(rewriteSteps(getOperation(), rewrite)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
