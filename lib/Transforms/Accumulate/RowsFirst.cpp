//===- RowsFirst.cpp - rows as the major part of their dimensions ---------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A form splits the major part of a dimension, and concatenations, slices and
// reshapes leave rows that are another part of it. So rows are followed from
// the inputs (`RowLayout`), and such a dimension is sorted by row.
//
// That is right whatever was followed: an operator on whose rule a factor may
// be split computes each index of it alone, or sums over all, so that the same
// operator on sorted operands gives sorted results. A value is sorted by moving
// its elements, and what looks at positions gets it as it was.
//
//===----------------------------------------------------------------------===//

#include "FindRows.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Transforms/Accumulate/Accumulate.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/Support/SaveAndRestore.h"

namespace tandem {
#define GEN_PASS_DEF_ROWSFIRSTPASS
#include "tandem/Transforms/Accumulate/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;
using spmd::Rule;

namespace {
using Shape = SmallVector<int64_t>;

/// Sorts the dimensions of one step, operator by operator.
class RowSorter {
public:
  explicit RowSorter(func::FuncOp step) : step(step), builder(step) {}
  void run();

private:
  void visit(Operation *op);
  void visitByRule(Operation *op);
  void visitReshape(ReshapeOp op);
  bool visitCat(CatOp op);
  bool visitSlice(SliceOp op);
  bool visitPad(PadOp op);
  void keep(Operation *op);
  void replace(Operation *op, Value made, const RowDim &rows);

  Value get(Value value, ArrayRef<RowDim> rows);
  Value getUnsorted(Value value);
  void setSorted(Value value, RowDims dims);

  Value reshape(Value value, ArrayRef<int64_t> shape);
  Value permute(Value value, ArrayRef<int64_t> permutation);
  Value slice(Value value, int64_t dim, int64_t start, int64_t size);
  Value cat(ArrayRef<Value> values, int64_t dim);
  Value sort(Value value, const RowDim &rows);
  Value sortPad(PadOp op, const RowDim &rows);
  Value sortIota(const RowLayout &layout);
  Value count(int64_t size, int64_t stride, ArrayRef<int64_t> shape);
  Value unsort(Value value, const RowDim &rows);
  Value moveRows(Value value, const RowDim &rows, int64_t front);

  func::FuncOp step;
  OpBuilder builder;
  /// The operator that others are made for.
  Operation *origin = nullptr;
  RowFinder finder;
  /// Values whose elements are sorted, by what.
  llvm::DenseMap<Value, RowDims> sorted;
  /// The two ways from a sorted value to what it was, and back.
  llvm::DenseMap<Value, Value> unsorted, sources;
  /// What values were sorted by for their readers.
  llvm::DenseMap<Value, SmallVector<std::pair<RowDims, Value>, 1>> made;
};

struct RowsFirstPass
    : StepPass<tandem::impl::RowsFirstPassBase<RowsFirstPass>> {
  LogicalResult runOnStep(func::FuncOp step) override {
    RowSorter(step).run();
    return success();
  }
};
} // namespace

static ArrayRef<int64_t> getShape(Value value) {
  return getTensorType(value).getShape();
}

static RowDims getUnordered(ArrayRef<RowDim> rows) {
  RowDims dims;
  llvm::copy_if(rows, std::back_inserter(dims),
                [](const RowDim &each) { return !each.layout.isSorted(); });
  return dims;
}

/// `shape` with `sizes` in place of dimension `dim`.
static Shape split(ArrayRef<int64_t> shape, int64_t dim,
                   ArrayRef<int64_t> sizes) {
  Shape result(shape.take_front(dim));
  llvm::append_range(result, sizes);
  llvm::append_range(result, shape.drop_front(dim + 1));
  return result;
}

//===----------------------------------------------------------------------===//
// Operators to write with
//===----------------------------------------------------------------------===//

Value RowSorter::reshape(Value value, ArrayRef<int64_t> shape) {
  if (auto inner = value.getDefiningOp<ReshapeOp>();
      inner && getShape(value) != shape)
    value = inner.getInput();
  if (getShape(value) == shape)
    return value;
  auto op = ReshapeOp::create(
      builder, origin->getLoc(),
      RankedTensorType::get(shape, getTensorType(value).getElementType()),
      value);
  copyPass(origin, op);
  return op;
}

Value RowSorter::permute(Value value, ArrayRef<int64_t> permutation) {
  if (llvm::is_sorted(permutation))
    return value;
  auto op = PermuteOp::create(
      builder, origin->getLoc(),
      RankedTensorType::get(applyPermutation(getShape(value), permutation),
                            getTensorType(value).getElementType()),
      value, permutation);
  copyPass(origin, op);
  return op;
}

Value RowSorter::slice(Value value, int64_t dim, int64_t start, int64_t size) {
  if (size == getShape(value)[dim])
    return value;
  auto op = SliceOp::create(
      builder, origin->getLoc(),
      RankedTensorType::get(split(getShape(value), dim, size),
                            getTensorType(value).getElementType()),
      value, dim, start, start + size, /*step=*/1);
  copyPass(origin, op);
  return op;
}

Value RowSorter::cat(ArrayRef<Value> values, int64_t dim) {
  if (values.size() == 1)
    return values.front();
  int64_t size = 0;
  for (Value value : values)
    size += getShape(value)[dim];
  auto op = CatOp::create(
      builder, origin->getLoc(),
      RankedTensorType::get(split(getShape(values.front()), dim, size),
                            getTensorType(values.front()).getElementType()),
      values, dim);
  copyPass(origin, op);
  return op;
}

/// A permutation of `rank` dimensions that has `from` in the place of `to`.
static Shape moveDim(int64_t rank, int64_t from, int64_t to) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return Shape(order);
}

Value RowSorter::sort(Value value, const RowDim &rows) {
  if (auto expand = value.getDefiningOp<ExpandOp>()) {
    int64_t dim = rows.dim - getTensorType(value).getRank() +
                  getTensorType(expand.getInput()).getRank();
    if (dim < 0 || getShape(expand.getInput())[dim] == 1)
      return value;
  }
  if (auto constant = value.getDefiningOp<ConstantOp>();
      constant && cast<ElementsAttr>(constant.getValue()).isSplat())
    return value;
  if (value.getDefiningOp<IotaOp>() && rows.layout.sections.size() == 1)
    return sortIota(rows.layout);
  if (auto pad = value.getDefiningOp<PadOp>())
    if (Value made = sortPad(pad, rows))
      return made;
  SmallVector<Value> pieces;
  Shape shape(getShape(value));
  int64_t count = rows.layout.rows, begin = 0, dim = rows.dim;
  for (RowSection section : rows.layout.sections) {
    Value piece = slice(value, dim, begin, count * section.getItems());
    begin += count * section.getItems();
    piece = reshape(piece,
                    split(shape, dim, {section.outer, count, section.inner}));
    if (section.outer != 1)
      piece = permute(piece, moveDim(shape.size() + 2, dim + 1, dim));
    pieces.push_back(
        reshape(piece, split(shape, dim, {count, section.getItems()})));
  }
  return reshape(cat(pieces, dim + 1), shape);
}

/// 0, stride, 2 * stride, ... along the one dimension of `shape` with `size`.
Value RowSorter::count(int64_t size, int64_t stride, ArrayRef<int64_t> shape) {
  Type i64 = builder.getI64Type();
  auto add = [&](Operation *op) {
    copyPass(origin, op);
    return op->getResult(0);
  };
  Location loc = origin->getLoc();
  auto type = RankedTensorType::get({size}, i64);
  Value positions = add(IotaOp::create(builder, loc, type));
  auto scalar = RankedTensorType::get({}, i64);
  Value step = add(ConstantOp::create(
      builder, loc, scalar,
      DenseElementsAttr::get(scalar, builder.getI64IntegerAttr(stride))));
  return reshape(add(MulOp::create(builder, loc, type, positions, step)),
                 shape);
}

/// Positions of rows and those of items, which are added: those of all rows
/// are no tensor.
Value RowSorter::sortIota(const RowLayout &layout) {
  int64_t rows = layout.rows;
  auto [outer, inner] = layout.sections.front();
  Value sum = count(rows, inner, {rows, 1, 1});
  Shape shape{rows, 1, 1};
  auto add = [&](Value term) {
    for (auto [dim, size] : llvm::enumerate(getShape(term)))
      shape[dim] = std::max(shape[dim], size);
    auto op = AddOp::create(builder, origin->getLoc(),
                            RankedTensorType::get(shape, builder.getI64Type()),
                            sum, term);
    copyPass(origin, op);
    sum = op;
  };
  add(count(outer, rows * inner, {1, outer, 1}));
  add(count(inner, 1, {1, 1, inner}));
  return reshape(sum, {rows * outer * inner});
}

/// Zeros beside the items; null where they are not of the same rows.
Value RowSorter::sortPad(PadOp op, const RowDim &rows) {
  int64_t dim = rows.dim, count = rows.layout.rows, first = 0;
  if (int64_t(op.getDim()) != dim || op.getStep() != 1)
    return {};
  int64_t low = op.getLow(), size = getShape(op.getInput())[dim];
  auto inner = rows.layout.slice(low, low + size, 1, first);
  if (!inner || inner->getItems() * count != size)
    return {};
  RowDims wanted = getUnordered(RowDim{dim, *inner});
  Value input = get(op.getInput(), wanted);
  Shape shape(getShape(op));
  int64_t items = rows.layout.getItems(), left = inner->getItems();
  input = reshape(input, split(shape, dim, {count, left}));
  auto pad =
      PadOp::create(builder, origin->getLoc(),
                    RankedTensorType::get(split(shape, dim, {count, items}),
                                          op.getType().getElementType()),
                    input, dim + 1, first, items - first - left, /*step=*/1);
  copyPass(origin, pad);
  return reshape(pad, shape);
}

Value RowSorter::unsort(Value value, const RowDim &rows) {
  SmallVector<Value> pieces;
  Shape shape(getShape(value));
  int64_t count = rows.layout.rows, begin = 0, dim = rows.dim;
  value = reshape(value, split(shape, dim, {count, rows.layout.getItems()}));
  for (RowSection section : rows.layout.sections) {
    Value piece = slice(value, dim + 1, begin, section.getItems());
    begin += section.getItems();
    piece = reshape(piece,
                    split(shape, dim, {count, section.outer, section.inner}));
    if (section.outer != 1)
      piece = permute(piece, moveDim(shape.size() + 2, dim + 1, dim));
    pieces.push_back(
        reshape(piece, split(shape, dim, count * section.getItems())));
  }
  return cat(pieces, dim);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// The value sorted by `rows`, and by nothing else.
Value RowSorter::get(Value value, ArrayRef<RowDim> rows) {
  if (Value source = sources.lookup(value))
    value = source;
  auto it = sorted.find(value);
  if (it != sorted.end() && ArrayRef<RowDim>(it->second) == rows)
    return value;
  Value whole = getUnsorted(value);
  if (rows.empty())
    return whole;
  for (auto &[known, result] : made[whole])
    if (ArrayRef<RowDim>(known) == rows)
      return result;
  Value result = whole;
  for (const RowDim &each : rows)
    result = sort(result, each);
  made[whole].push_back({RowDims(rows), result});
  return result;
}

Value RowSorter::getUnsorted(Value value) {
  auto it = sorted.find(value);
  if (it == sorted.end())
    return value;
  if (Value known = unsorted.lookup(value))
    return known;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(value);
  llvm::SaveAndRestore maker(origin, value.getDefiningOp());
  Value whole = value;
  for (const RowDim &each : it->second)
    whole = unsort(whole, each);
  sources[whole] = value;
  return unsorted[value] = whole;
}

/// `value` has rows in `dims`, and is sorted by those that are not in order.
void RowSorter::setSorted(Value value, RowDims dims) {
  if (RowDims moved = getUnordered(dims); !moved.empty())
    sorted[value] = moved;
  finder.set(value, std::move(dims));
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// The operator as it was.
void RowSorter::keep(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    operand.set(get(operand.get(), {}));
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

void RowSorter::visitByRule(Operation *op) {
  const Rule *rule = finder.getRule(op);
  if (!rule)
    return keep(op);
  FactorRows layouts = finder.getLayouts(op, *rule);
  for (auto [number, operand] : llvm::enumerate(op->getOpOperands()))
    operand.set(get(operand.get(),
                    getUnordered(getRowDims(rule->operands[number], layouts))));
  for (auto [number, result] : llvm::enumerate(op->getResults()))
    setSorted(result, getRowDims(rule->results[number], layouts));
}

/// The tensor with rows and items of `rows` behind its first `front` elements,
/// in place of those in front of them: (front, rows, what is left).
Value RowSorter::moveRows(Value value, const RowDim &rows, int64_t front) {
  int64_t before = countElements(getShape(value).take_front(rows.dim));
  int64_t count = rows.layout.rows;
  int64_t behind = getTensorType(value).getNumElements() / before / count;
  if (before == front)
    return value;
  if (before > front)
    return permute(reshape(value, {front, before / front, count, behind}),
                   {0, 2, 1, 3});
  int64_t moved = front / before;
  return permute(reshape(value, {before, count, moved, behind / moved}),
                 {0, 2, 1, 3});
}

void RowSorter::visitReshape(ReshapeOp op) {
  Value input = op.getInput();
  std::optional<RowDim> from, to;
  for (const RowDim &rows : finder.getRows(input)) {
    auto mapped = mapThroughReshape(getShape(input), getShape(op), rows);
    if (mapped && (!to || (from->layout.isSorted() && to->layout.isSorted()))) {
      from = rows;
      to = mapped;
    }
  }
  if (!to)
    return keep(op);
  int64_t front = countElements(getShape(op).take_front(to->dim));
  int64_t before = countElements(getShape(input).take_front(from->dim));
  if (front % before != 0 && before % front != 0)
    return keep(op);
  Value source = get(input, getUnordered(*from));
  op.getInputMutable().assign(moveRows(source, *from, front));
  setSorted(op, {*to});
}

bool RowSorter::visitCat(CatOp op) {
  int64_t dim = op.getDim();
  std::optional<RowLayout> layout = finder.joinLayouts(op);
  if (!layout)
    return false;
  int64_t count = layout->rows;
  SmallVector<Value> pieces;
  for (Value input : op.getInputs()) {
    RowLayout rows = finder.getPiece(input, dim, count);
    Value piece = get(input, getUnordered(RowDim{dim, rows}));
    pieces.push_back(
        reshape(piece, split(getShape(input), dim, {count, rows.getItems()})));
  }
  Value whole = reshape(cat(pieces, dim + 1), getShape(op));
  replace(op, whole, {dim, *layout});
  return true;
}

/// `made` is sorted by `rows`.
void RowSorter::replace(Operation *op, Value made, const RowDim &rows) {
  op->getResult(0).replaceAllUsesWith(made);
  finder.forget(op);
  setSorted(made, {rows});
  op->erase();
}

bool RowSorter::visitSlice(SliceOp op) {
  int64_t dim = op.getDim(), first = 0;
  const RowLayout *whole = finder.getLayout(op.getInput(), dim);
  auto left =
      whole ? whole->slice(op.getStart(), op.getStop(), op.getStep(), first)
            : std::nullopt;
  if (!left)
    return false;
  Value input = get(op.getInput(), getUnordered(RowDim{dim, *whole}));
  int64_t count = whole->rows;
  input = reshape(
      input, split(getShape(op.getInput()), dim, {count, whole->getItems()}));
  Value piece =
      reshape(slice(input, dim + 1, first, left->getItems()), getShape(op));
  replace(op, piece, {dim, *left});
  return true;
}

/// Zeros have no rows, so whoever reads them says how they lie (`sortPad`).
bool RowSorter::visitPad(PadOp op) {
  int64_t dim = op.getDim(), low = op.getLow(), high = op.getHigh();
  const RowLayout *own = finder.getLayout(op.getInput(), dim);
  if (!own || op.getStep() != 1 || low % own->rows || high % own->rows)
    return false;
  RowLayout layout(own->rows);
  layout.sections.clear();
  int64_t inner = own->sections.front().inner;
  auto addZeros = [&](int64_t size) {
    int64_t items = size / own->rows;
    bool fits = items % inner == 0;
    if (items)
      layout.append({fits ? items / inner : items, fits ? inner : 1});
  };
  addZeros(low);
  layout.append(*own);
  inner = own->sections.back().inner;
  addZeros(high);
  keep(op);
  finder.note(op, {dim, layout});
  return true;
}

void RowSorter::visit(Operation *op) {
  origin = op;
  builder.setInsertionPoint(op);
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return visitReshape(reshape);
  if (auto cat = dyn_cast<CatOp>(op); cat && visitCat(cat))
    return;
  if (auto slice = dyn_cast<SliceOp>(op); slice && visitSlice(slice))
    return;
  if (auto pad = dyn_cast<PadOp>(op); pad && visitPad(pad))
    return;
  visitByRule(op);
}

/// Operators that nobody reads any more, views and copies.
static void removeUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isa<ReshapeOp, PermuteOp, SliceOp, CatOp, PadOp, ExpandOp, ConstantOp>(
            op) &&
        op.use_empty())
      op.erase();
}

/// Each reader of positions gets its own: those of rows and those of a sequence
/// as long as the batch were one value, and one of the two was taken for the
/// other.
static void separatePositions(Block &block) {
  for (auto iota : llvm::make_early_inc_range(block.getOps<IotaOp>()))
    for (OpOperand &use :
         llvm::make_early_inc_range(llvm::drop_begin(iota->getUses()))) {
      OpBuilder builder(iota);
      use.set(builder.clone(*iota)->getResult(0));
    }
}

void RowSorter::run() {
  Block &block = step.getBody().front();
  separatePositions(block);
  finder.run(step);
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  for (Operation *op : ops)
    visit(op);
  removeUnread(block);
}
