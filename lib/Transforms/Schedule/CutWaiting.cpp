//===- CutWaiting.cpp - waiting collectives in pieces ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/PlannedOrder.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// A collective on a tensor of three dimensions, of which the last one is cut:
/// what is before the dimension of the collective, the members of the group,
/// and the rest.
struct Cut {
  Operation *op;
  SmallVector<int64_t> source, result;
  int64_t getExtent() const { return source.back(); }
};

class CutWaitingPass : public StepPass<CutWaitingPass> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CutWaitingPass)
  StringRef getArgument() const override { return "tandem-cut-waiting"; }
  StringRef getDescription() const override {
    return "Cuts waiting collectives into the pieces that the plan names";
  }
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  LogicalResult cut(Operation *op, ArrayRef<double> pieces);
  void markPiece(Operation *piece, Operation *whole, ArrayRef<double> slot,
                 double share, bool isFirst) const;

  double pieceLatency = 0;
};
} // namespace

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// None for what is not cut: an all-to-all, which is sent whole.
static std::optional<Cut> getCut(Operation *op) {
  ArrayRef<int64_t> source = getType(op->getOperand(0)).getShape();
  ArrayRef<int64_t> result = getType(op->getResult(0)).getShape();
  auto product = [](ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                           std::multiplies<>());
  };
  if (isa<AllReduceOp>(op))
    return Cut{op, {1, 1, product(source)}, {1, 1, product(source)}};
  bool scatters = isa<ReduceScatterOp>(op);
  if (!scatters && !isa<AllGatherOp>(op))
    return std::nullopt;
  int64_t dim = scatters ? cast<ReduceScatterOp>(op).getDim()
                         : cast<AllGatherOp>(op).getDim();
  ArrayRef<int64_t> local = scatters ? result : source;
  int64_t members = product(scatters ? source : result) / product(local);
  int64_t before = product(local.take_front(dim));
  int64_t rest = product(local.drop_front(dim));
  Cut cut{op, {before, 1, rest}, {before, 1, rest}};
  (scatters ? cut.source : cut.result)[1] = members;
  return cut;
}

static Value reshape(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, getType(value).getElementType());
  if (type == value.getType())
    return value;
  return nn::ReshapeOp::create(builder, value.getLoc(), type, value);
}

/// The collective on elements `begin` to `end` of the last dimension.
static Operation *buildPiece(OpBuilder &builder, const Cut &cut, Value source,
                             int64_t begin, int64_t end) {
  Location loc = cut.op->getLoc();
  Type element = getType(source).getElementType();
  auto getPart = [&](ArrayRef<int64_t> shape) {
    return RankedTensorType::get({shape[0], shape[1], end - begin}, element);
  };
  Value part = nn::SliceOp::create(builder, loc, getPart(cut.source), source, 2,
                                   begin, end, 1);
  auto axes = cut.op->getAttrOfType<ArrayAttr>("axes");
  Type type = getPart(cut.result);
  if (isa<AllReduceOp>(cut.op))
    return AllReduceOp::create(builder, loc, type, part, axes);
  if (isa<ReduceScatterOp>(cut.op))
    return ReduceScatterOp::create(builder, loc, type, part, axes, 1);
  return AllGatherOp::create(builder, loc, type, part, axes, 1);
}

/// `slot` is stage and strand; `share` is what of the collective the piece is.
void CutWaitingPass::markPiece(Operation *piece, Operation *whole,
                               ArrayRef<double> slot, double share,
                               bool isFirst) const {
  piece->setDiscardableAttrs(whole->getDiscardableAttrDictionary());
  Builder builder(piece->getContext());
  piece->setAttr(kWaitsAttrName,
                 builder.getDenseF64ArrayAttr({slot[0], slot[1], 1}));
  double seconds = getPlannedSeconds(whole) * share;
  if (seconds == 0)
    return;
  double latency = isFirst ? 0 : pieceLatency;
  setPlannedSeconds(piece, seconds + latency);
  if (latency > 0)
    piece->setAttr(kLatencyAttrName, builder.getF64FloatAttr(latency));
}

LogicalResult CutWaitingPass::cut(Operation *op, ArrayRef<double> pieces) {
  std::optional<Cut> cut = getCut(op);
  if (pieces.size() % 3 != 0)
    return op->emitError() << "has " << pieces.size() << " numbers in '"
                           << kWaitsAttrName
                           << "', expected stage, strand and share per piece";
  if (!cut || pieces.size() <= 3)
    return success();
  OpBuilder builder(op);
  Value source = reshape(builder, op->getOperand(0), cut->source);
  SmallVector<Value> results;
  int64_t extent = cut->getExtent(), begin = 0;
  for (size_t i = 0; i < pieces.size(); i += 3) {
    bool isLast = i + 3 == pieces.size();
    int64_t end = isLast ? extent : std::llround(pieces[i + 2] * extent);
    if (end <= begin)
      continue;
    Operation *piece = buildPiece(builder, *cut, source, begin, end);
    markPiece(piece, op, pieces.slice(i, 2), double(end - begin) / extent,
              results.empty());
    results.push_back(piece->getResult(0));
    begin = end;
  }
  auto type =
      RankedTensorType::get(cut->result, getType(source).getElementType());
  Value whole = results.front();
  if (results.size() > 1)
    whole = nn::CatOp::create(builder, op->getLoc(), type, results, 2);
  if (Operation *cat = whole.getDefiningOp(); isa<nn::CatOp>(cat))
    if (std::optional<int64_t> stage = getPlannedStage(op))
      setPlannedStage(cat, *stage);
  op->replaceAllUsesWith(ValueRange(
      reshape(builder, whole, getType(op->getResult(0)).getShape())));
  op->erase();
  return success();
}

LogicalResult CutWaitingPass::runOnStep(func::FuncOp step) {
  pieceLatency = 0;
  if (auto prices =
          step->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(
              kPricesAttrName))
    if (auto piece = prices.getAs<FloatAttr>("piece"))
      pieceLatency = piece.getValueAsDouble();
  for (Operation &op :
       llvm::make_early_inc_range(step.getBody().front().without_terminator()))
    if (auto waits = op.getAttrOfType<DenseF64ArrayAttr>(kWaitsAttrName))
      if (failed(cut(&op, waits)))
        return failure();
  return success();
}

std::unique_ptr<Pass> tandem::createCutWaitingPass() {
  return std::make_unique<CutWaitingPass>();
}
