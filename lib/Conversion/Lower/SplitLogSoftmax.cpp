//===- SplitLogSoftmax.cpp - recomputation of log-softmax -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cross entropy of many classes holds nothing larger than its logits, which
// are there anyway: of bf16 logits no copy in f32. Where elements are gathered
// from a view of a log-softmax, or from one that is converted, the view is of
// the elements.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Analysis/TensorType.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem::nn;

namespace tandem::lower {

#define GEN_PASS_DEF_SPLITLOGSOFTMAX
#include "tandem/Conversion/Lower/Passes.h.inc"

namespace {
/// Writes before one operator, as a part of it: with its location and facts,
/// without its number, which says what is the whole.
class Writer {
public:
  explicit Writer(Operation *op, bool isMadeAgain = false)
      : builder(op), op(op), isMadeAgain(isMadeAgain) {}

  template <typename OpT, typename... Args>
  Value create(Type type, Args &&...args) {
    auto made =
        OpT::create(builder, op->getLoc(), type, std::forward<Args>(args)...);
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    made->removeAttr(kIdAttrName);
    if (isMadeAgain)
      made->setAttr(sched::kAgainAttrName, builder.getUnitAttr());
    return made->getResult(0);
  }

  /// `value` itself if it is of that type.
  Value convert(Value value, Type element) {
    auto type = getTensorType(value).clone(element);
    return value.getType() == type ? value : create<ConvertOp>(type, value);
  }

private:
  OpBuilder builder;
  Operation *op;
  bool isMadeAgain;
};

/// log_softmax(x) = (x - most) - log, the latter two per row.
struct Rows {
  Value input;        ///< Before it was converted.
  Type element, wide; ///< Of the log-softmax, and in which it is computed.
  int64_t dim;
  Value most, log;

  explicit Rows(LogSoftmaxOp op);
  /// Of elements of the input.
  Value finish(Writer &writer, Value elements) const;
};
} // namespace

static Value withoutConversion(Value value) {
  auto convert = value.getDefiningOp<ConvertOp>();
  return convert ? convert.getInput() : value;
}

Rows::Rows(LogSoftmaxOp op)
    : input(withoutConversion(op.getInput())),
      element(getTensorType(op.getResult()).getElementType()), wide(element),
      dim(op.getDim()) {
  if (!element.isF64())
    wide = Float32Type::get(op.getContext());
  Writer writer(op);
  Value whole = writer.convert(op.getInput(), wide);
  RankedTensorType type = getTensorType(whole);
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = 1;
  auto one = type.clone(shape);
  most = writer.create<MaxOp>(one, whole, ArrayRef(dim), /*keepdim=*/true);
  Value shifted = writer.create<SubOp>(type, whole, most);
  Value powers = writer.create<ExpOp>(type, shifted);
  Value sum =
      writer.create<SumOp>(one, powers, ArrayRef(dim), /*keepdim=*/true);
  log = writer.create<LogOp>(one, sum);
}

Value Rows::finish(Writer &writer, Value elements) const {
  elements = writer.convert(elements, wide);
  Type type = elements.getType();
  Value shifted = writer.create<SubOp>(type, elements, most);
  return writer.convert(writer.create<SubOp>(type, shifted, log), element);
}

//===----------------------------------------------------------------------===//
// Elements behind views
//===----------------------------------------------------------------------===//

namespace {
/// What is gathered from, and how.
struct Source {
  Value input, index;
  int64_t dim;
};
} // namespace

static int64_t countBehind(ArrayRef<int64_t> shape, int64_t dim) {
  return computeProduct(shape.drop_front(dim + 1));
}

/// Where rows along `dim` of the result are rows of what is reshaped.
static std::optional<Source> getSource(ReshapeOp reshape, Value index,
                                       int64_t dim, Writer &writer) {
  ArrayRef<int64_t> from = getTensorType(reshape.getInput()).getShape(),
                    to = getTensorType(reshape.getResult()).getShape();
  auto isRow = [&](int64_t i) {
    return from[i] == to[dim] && countBehind(from, i) == countBehind(to, dim);
  };
  auto dims = llvm::seq<int64_t>(from.size());
  auto found = llvm::find_if(dims, isRow);
  if (found == dims.end())
    return std::nullopt;
  SmallVector<int64_t> shape(from);
  shape[*found] = getTensorType(index).getDimSize(dim);
  Value moved =
      writer.create<ReshapeOp>(getTensorType(index).clone(shape), index);
  return Source{reshape.getInput(), moved, *found};
}

static Source getSource(PermuteOp permute, Value index, int64_t dim,
                        Writer &writer) {
  auto back = invertPermutationVector(permute.getPermutation());
  auto shape = applyPermutation(getTensorType(index).getShape(), back);
  Value moved =
      writer.create<PermuteOp>(getTensorType(index).clone(shape), index, back);
  return {permute.getInput(), moved, permute.getPermutation()[dim]};
}

static std::optional<Source> getSource(GatherOp gather, Writer &writer) {
  Value index = gather.getIndex();
  int64_t dim = gather.getDim();
  Operation *view = gather.getInput().getDefiningOp();
  if (auto reshape = dyn_cast_or_null<ReshapeOp>(view))
    return getSource(reshape, index, dim, writer);
  if (auto permute = dyn_cast_or_null<PermuteOp>(view))
    return getSource(permute, index, dim, writer);
  if (auto convert = dyn_cast_or_null<ConvertOp>(view))
    return Source{convert.getInput(), index, dim};
  return std::nullopt;
}

/// gather(view(x)) -> view(gather(x)); gives the new gather. Null where rows do
/// not stay rows, and nothing is changed.
static GatherOp passView(GatherOp gather) {
  Writer writer(gather);
  std::optional<Source> source = getSource(gather, writer);
  if (!source)
    return {};
  auto type = getTensorType(source->index)
                  .clone(getTensorType(source->input).getElementType());
  Value elements =
      writer.create<GatherOp>(type, source->input, source->index, source->dim);
  Operation *view = gather.getInput().getDefiningOp();
  Operation *moved = OpBuilder(gather).clone(*view);
  moved->removeAttr(kIdAttrName);
  moved->setOperand(0, elements);
  moved->getResult(0).setType(gather.getType());
  gather.replaceAllUsesWith(moved->getResult(0));
  gather.erase();
  if (view->use_empty())
    view->erase();
  return elements.getDefiningOp<GatherOp>();
}

static void passViews(GatherOp gather) {
  while (gather)
    gather = passView(gather);
}

//===----------------------------------------------------------------------===//
// The rewrite
//===----------------------------------------------------------------------===//

static sched::QueueAttr getQueue(Operation *op) {
  return op->getParentOfType<sched::StepOp>().getQueue();
}

/// Whether the backward pass reads it, and kernels alone do: it is no result of
/// the step, and none of those who communicate ask for it.
static bool isHeld(LogSoftmaxOp op) {
  auto users = op.getResult().getUsers();
  return llvm::any_of(users, llvm::IsaPred<LogSoftmaxBackwardOp>) &&
         llvm::all_of(users, [&](Operation *user) {
           return !user->hasTrait<OpTrait::IsTerminator>() &&
                  getQueue(user) == getQueue(op);
         });
}

/// Whether `gather` reads views of a log-softmax that is held.
static bool readsHeld(GatherOp gather) {
  Operation *producer = gather.getInput().getDefiningOp();
  while (isa_and_nonnull<ReshapeOp, PermuteOp, ConvertOp>(producer))
    producer = producer->getOperand(0).getDefiningOp();
  auto softmax = dyn_cast_or_null<LogSoftmaxOp>(producer);
  return softmax && isHeld(softmax);
}

/// Whether the operator's kernel makes on the way what it reads.
static bool isFused(Operation *op) {
  return op->hasTrait<Broadcasting>() || isa<LogSoftmaxBackwardOp, SumOp>(op);
}

static void gatherBefore(GatherOp gather, const Rows &rows) {
  Writer writer(gather);
  auto type = getTensorType(gather.getResult())
                  .clone(getTensorType(rows.input).getElementType());
  Value elements =
      writer.create<GatherOp>(type, rows.input, gather.getIndex(), rows.dim);
  gather.replaceAllUsesWith(rows.finish(writer, elements));
  gather.erase();
}

static void split(LogSoftmaxOp op) {
  if (!isHeld(op))
    return;
  Rows rows(op);
  SmallVector<Operation *> users(op->getUsers());
  for (Operation *user : users) {
    auto gather = dyn_cast<GatherOp>(user);
    if (gather && static_cast<int64_t>(gather.getDim()) == rows.dim &&
        gather.getInput() == op.getResult()) {
      gatherBefore(gather, rows);
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
      rewriteEach<GatherOp>(function, [](GatherOp gather) {
        if (readsHeld(gather))
          passViews(gather);
      });
      rewriteEach<LogSoftmaxOp>(function, split);
    };
    if (failed(rewriteSteps(getOperation(), rewrite)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
