//===- CutWaiting.cpp - waiting collectives in pieces ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Roles.h"
#include "tandem/Analysis/TensorType.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"
#include <cmath>
#include <numeric>

namespace tandem {
#define GEN_PASS_DEF_CUTWAITINGPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// A collective in a shape that shows what it leaves alone: dimensions 0, 2 and
/// 4 stand before, between and behind those that it changes, with what a member
/// has of the dimension that is cut. It is cut along the largest of them, the
/// first of equals (Cost/Pieces.h, `getCutExtent`).
struct Cut {
  Operation *op;
  SmallVector<int64_t> source, result;
  /// Of an all-to-all, the dimension that is cut over the members; the other of
  /// 1 and 3 is joined.
  unsigned split = 3;
  /// That the pieces are cut along.
  unsigned dim = 0;
  int64_t getExtent() const { return source[dim]; }
};

/// A part of a collective: its slot (stage, strand), and from which to which
/// index.
struct Part {
  Piece slot;
  int64_t begin, end;
};

class CutWaitingPass : public tandem::StepPass<
                           tandem::impl::CutWaitingPassBase<CutWaitingPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  void cut(Operation *op, ArrayRef<Piece> pieces) const;
  void markPart(Operation *part, Operation *whole, Piece slot,
                double share) const;
};
} // namespace

static int64_t multiply(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                         std::multiplies<>());
}

/// A reduce-scatter or all-gather, which changes `dim`.
static Cut getCutOfOne(Operation *op, int64_t dim) {
  ArrayRef<int64_t> source = getTensorType(op->getOperand(0)).getShape();
  ArrayRef<int64_t> result = getTensorType(op->getResult(0)).getShape();
  bool scatters = isa<ReduceScatterOp>(op);
  ArrayRef<int64_t> local = scatters ? result : source;
  int64_t members = multiply(scatters ? source : result) / multiply(local);
  int64_t before = multiply(local.take_front(dim));
  int64_t rest = multiply(local.drop_front(dim));
  Cut cut{op, {before, 1, rest}, {before, 1, rest}};
  (scatters ? cut.source : cut.result)[1] = members;
  return cut;
}

static Cut getCutOfTwo(AllToAllOp op) {
  ArrayRef<int64_t> source = getTensorType(op.getInput()).getShape();
  ArrayRef<int64_t> result = getTensorType(op.getResult()).getShape();
  int64_t split = op.getSplitDim(), concat = op.getConcatDim();
  int64_t first = std::min(split, concat), second = std::max(split, concat);
  int64_t members = source[split] / result[split], part = result[split];
  int64_t before = multiply(source.take_front(first));
  int64_t between = multiply(source.slice(first + 1, second - first - 1));
  int64_t behind = multiply(source.drop_front(second + 1));
  if (split == second)
    return {op,
            {before, source[concat], between, members, part * behind},
            {before, result[concat], between, 1, part * behind}};
  return {op,
          {before, members, part * between, source[concat], behind},
          {before, 1, part * between, result[concat], behind},
          1};
}

/// None for what does not communicate.
static std::optional<Cut> getCut(Operation *op) {
  std::optional<Cut> cut;
  if (isa<AllReduceOp>(op)) {
    int64_t size = multiply(getTensorType(op->getOperand(0)).getShape());
    return Cut{op, {size}, {size}};
  }
  if (auto scatter = dyn_cast<ReduceScatterOp>(op))
    cut = getCutOfOne(op, scatter.getDim());
  else if (auto gather = dyn_cast<AllGatherOp>(op))
    cut = getCutOfOne(op, gather.getDim());
  else if (auto exchange = dyn_cast<AllToAllOp>(op))
    cut = getCutOfTwo(exchange);
  if (cut)
    for (unsigned dim = 2; dim < cut->source.size(); dim += 2)
      if (cut->source[dim] > cut->getExtent())
        cut->dim = dim;
  return cut;
}

static Value reshape(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  auto type =
      RankedTensorType::get(shape, getTensorType(value).getElementType());
  if (type == value.getType())
    return value;
  return nn::ReshapeOp::create(builder, value.getLoc(), type, value);
}

/// The collective on indices `begin` to `end` of the dimension that is cut.
static Operation *buildPiece(OpBuilder &builder, const Cut &cut, Value source,
                             int64_t begin, int64_t end) {
  Location loc = cut.op->getLoc();
  Type element = getTensorType(source).getElementType();
  auto getPart = [&](SmallVector<int64_t> shape) {
    shape[cut.dim] = end - begin;
    return RankedTensorType::get(shape, element);
  };
  Value part = nn::SliceOp::create(builder, loc, getPart(cut.source), source,
                                   cut.dim, begin, end, 1);
  auto axes = cut.op->getAttrOfType<ArrayAttr>("axes");
  Type type = getPart(cut.result);
  if (isa<AllReduceOp>(cut.op))
    return AllReduceOp::create(builder, loc, type, part, axes);
  if (isa<ReduceScatterOp>(cut.op))
    return ReduceScatterOp::create(builder, loc, type, part, axes, 1);
  if (isa<AllGatherOp>(cut.op))
    return AllGatherOp::create(builder, loc, type, part, axes, 1);
  return AllToAllOp::create(builder, loc, type, part, axes, cut.split,
                            4 - cut.split);
}

/// All of it is sent in one slot.
static PiecesAttr getWhole(MLIRContext *context, Piece slot) {
  slot.end = 1;
  return PiecesAttr::get(context, slot);
}

/// `share` is what of the collective the part is.
void CutWaitingPass::markPart(Operation *part, Operation *whole, Piece slot,
                              double share) const {
  part->setDiscardableAttrs(whole->getDiscardableAttrDictionary());
  editPlanned(part, [&](Planned &planned) {
    planned.pieces = getWhole(part->getContext(), slot);
    if (planned.seconds == 0)
      return;
    double seconds = planned.seconds;
    planned.latency = getLatency(whole, seconds);
    planned.seconds = planned.latency + (seconds - planned.latency) * share;
  });
}

namespace {
/// What a collective is cut by belongs to its change of form.
struct MarkChange : OpBuilder::Listener {
  explicit MarkChange(Operation *collective) : collective(collective) {}
  Operation *collective;
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    op->setAttr(kChangeAttrName, UnitAttr::get(op->getContext()));
    setLoopOf(op, collective);
  }
};
} // namespace

/// The parts that hold something.
static SmallVector<Part> getParts(const Cut &cut, ArrayRef<Piece> pieces) {
  SmallVector<Part> parts;
  int64_t extent = cut.getExtent(), begin = 0;
  for (const Piece &piece : pieces) {
    bool isLast = &piece == &pieces.back();
    int64_t end = isLast ? extent : std::llround(piece.end * extent);
    if (end <= begin)
      continue;
    parts.push_back({piece, begin, end});
    begin = end;
  }
  return parts;
}

void CutWaitingPass::cut(Operation *op, ArrayRef<Piece> pieces) const {
  std::optional<Cut> cut = getCut(op);
  if (!cut || pieces.size() < 2)
    return;
  SmallVector<Part> parts = getParts(*cut, pieces);
  if (parts.size() < 2) {
    Piece slot = parts.empty() ? pieces.front() : parts.front().slot;
    return editPlanned(op, [&](Planned &planned) {
      planned.pieces = getWhole(op->getContext(), slot);
    });
  }
  MarkChange listener(op);
  OpBuilder builder(op, &listener);
  Value source = reshape(builder, op->getOperand(0), cut->source);
  SmallVector<Value> results;
  for (auto [slot, begin, end] : parts) {
    Operation *part = buildPiece(builder, *cut, source, begin, end);
    markPart(part, op, slot, double(end - begin) / cut->getExtent());
    results.push_back(part->getResult(0));
  }
  auto type = RankedTensorType::get(cut->result,
                                    getTensorType(source).getElementType());
  Value whole =
      nn::CatOp::create(builder, op->getLoc(), type, results, cut->dim);
  if (std::optional<int64_t> stage = getPlannedStage(op))
    setPlannedStage(whole.getDefiningOp(), *stage);
  op->replaceAllUsesWith(ValueRange(
      reshape(builder, whole, getTensorType(op->getResult(0)).getShape())));
  op->erase();
}

LogicalResult CutWaitingPass::runOnStep(func::FuncOp step) {
  for (Operation &op :
       llvm::make_early_inc_range(step.getBody().front().without_terminator()))
    if (PiecesAttr pieces = getPlanned(&op).pieces)
      cut(&op, pieces.getPieces());
  return success();
}
