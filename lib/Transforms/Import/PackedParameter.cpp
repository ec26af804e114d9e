//===- PackedParameter.cpp - packed parameters ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedParameter.h"
#include "Pieces.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

/// LSTMs have four parts, state-space models five.
static constexpr size_t kMaxParts = 8;

std::optional<int64_t> PackedDim::getRow(int64_t index) const {
  if (index * rows % pieces)
    return std::nullopt;
  return origin + index * rows / pieces;
}

std::optional<int64_t> PackedDim::getIndex(int64_t row) const {
  if ((row - origin) * pieces % rows)
    return std::nullopt;
  return (row - origin) * pieces / rows;
}

namespace {
/// Follows one dimension of a parameter and of its states to where it ends.
class Walk {
public:
  Walk(ArrayRef<BlockArgument> arguments, PackedParameter &packing)
      : packing(packing) {
    for (BlockArgument argument : arguments)
      push(argument, {packing.dim});
  }

  /// False where something computes across parts. Slices may add cuts; then
  /// the walk has to be made again.
  bool run();
  bool hasNewCuts() const { return isChanged; }
  /// Whether slices of single parts cover all rows.
  bool isCovered() const;

private:
  bool push(Value value, PackedDim place);
  bool visit(OpOperand &operand, PackedDim place);
  bool visitSlice(SliceOp op, OpOperand &operand, PackedDim place);
  bool visitReshape(ReshapeOp op, PackedDim place);
  bool visitReturn(OpOperand &operand, PackedDim place);
  bool addCut(int64_t row);

  PackedParameter &packing;
  llvm::MapVector<Value, PackedDim> places;
  SmallVector<Value> open;
  std::set<int64_t> covered;
  bool isChanged = false;
};
} // namespace

/// False if the value has another place already.
bool Walk::push(Value value, PackedDim place) {
  auto [it, isNew] = places.insert({value, place});
  if (isNew)
    open.push_back(value);
  return isNew || it->second == place;
}

bool Walk::addCut(int64_t row) {
  isChanged |= packing.cuts.insert(row).second;
  return packing.cuts.size() <= kMaxParts + 1;
}

bool Walk::visitSlice(SliceOp op, OpOperand &operand, PackedDim place) {
  auto begin = place.getRow(op.getStart()), end = place.getRow(op.getStop());
  if (op.getStep() != 1 || !begin || !end || !addCut(*begin) || !addCut(*end))
    return false;
  auto next = packing.cuts.upper_bound(*begin);
  PackedDim inner = place;
  inner.origin = *begin;
  if (next == packing.cuts.end() || *next < *end)
    return push(op.getResult(), inner);
  // What is a view of the parameter alone is no projection of several.
  Value source = op.getInput();
  for (Operation *view = source.getDefiningOp(); view && view->hasTrait<View>();
       view = source.getDefiningOp())
    source = view->getOperand(0);
  if (isa<BlockArgument>(source))
    return false;
  packing.ends.push_back({&operand, place});
  covered.insert(*begin);
  return true;
}

bool Walk::visitReshape(ReshapeOp op, PackedDim place) {
  int64_t own = getShape(op.getInput())[place.dim];
  auto range = mapThroughReshape(getShape(op.getInput()), getShape(op),
                                 {place.dim, 0, own});
  if (!range)
    return false;
  int64_t other = getShape(op)[range->dim];
  place.dim = range->dim;
  if (other > own)
    place.pieces *= other / own;
  else
    place.rows *= own / other;
  return push(op.getResult(), place);
}

/// New values of the parameter and of its states are taken apart; nothing else.
bool Walk::visitReturn(OpOperand &operand, PackedDim place) {
  auto step = cast<func::FuncOp>(operand.getOwner()->getParentOp());
  std::optional<int64_t> updates =
      getUpdates(step.getResultAttrDict(operand.getOperandNumber()));
  if (place != PackedDim{packing.dim} || !updates ||
      !places.contains(step.getArgument(*updates)))
    return false;
  packing.ends.push_back({&operand, place});
  return true;
}

bool Walk::visit(OpOperand &operand, PackedDim place) {
  Operation *op = operand.getOwner();
  if (isa<func::ReturnOp>(op))
    return visitReturn(operand, place);
  if (auto slice = dyn_cast<SliceOp>(op);
      slice && int64_t(slice.getDim()) == place.dim)
    return visitSlice(slice, operand, place);
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return visitReshape(reshape, place);
  if (auto dim = getParallelDim(op, operand.getOperandNumber(), place.dim)) {
    place.dim = *dim;
    return push(op->getResult(0), place);
  }
  // The gradient of what all parts are computed from is a sum over them; in the
  // forward pass a sum over them means that they are one.
  auto library = dyn_cast<LibraryOpInterface>(op);
  if (!library || getPass(op) != PassKind::Backward ||
      library.getSummedDim(operand.getOperandNumber()) != place.dim)
    return false;
  packing.ends.push_back({&operand, place});
  return true;
}

bool Walk::run() {
  while (!open.empty()) {
    Value value = open.pop_back_val();
    PackedDim place = places.lookup(value);
    for (OpOperand &use : value.getUses())
      if (!visit(use, place))
        return false;
  }
  return true;
}

bool Walk::isCovered() const {
  return covered.size() + 1 == packing.cuts.size() && covered.size() > 1;
}

/// Whether every cut is an index of every place where the dimension ends.
static bool areCutsWhole(const PackedParameter &packing) {
  return llvm::all_of(packing.ends, [&](const PackedUse &end) {
    return llvm::all_of(packing.cuts, [&](int64_t row) {
      return end.place.getIndex(row).has_value();
    });
  });
}

static std::optional<PackedParameter>
findPackingOf(ArrayRef<BlockArgument> arguments, int64_t dim) {
  PackedParameter packing{dim, {0, getShape(arguments.front())[dim]}, {}};
  while (true) {
    packing.ends.clear();
    Walk walk(arguments, packing);
    if (!walk.run())
      return std::nullopt;
    if (walk.hasNewCuts())
      continue;
    if (!walk.isCovered() || !areCutsWhole(packing))
      return std::nullopt;
    return packing;
  }
}

std::optional<PackedParameter>
tandem::findPacking(ArrayRef<BlockArgument> arguments) {
  int64_t rank = getShape(arguments.front()).size();
  for (int64_t dim = 0; dim < rank; ++dim)
    if (auto packing = findPackingOf(arguments, dim))
      return packing;
  return std::nullopt;
}
