//===- SplitStrands.cpp - one copy of an operator per strand --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Duplex/Duplex.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_SPLITSTRANDSPASS
#include "tandem/Transforms/Duplex/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using tandem::nn::NNDialect;

namespace {
/// A point of the mesh; its coordinates on space axes are not used.
using Point = SmallVector<int64_t>;

/// What became of a value: one copy per point of the axes on which it is not
/// `full`.
struct Copies {
  SmallVector<unsigned> axes;
  llvm::SmallDenseMap<int64_t, Value, 4> byStrand;
};

class SplitStrandsPass
    : public tandem::StepPass<
          tandem::impl::SplitStrandsPassBase<SplitStrandsPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  SmallVector<unsigned> getAxes(Type type) const;
  SmallVector<unsigned> getAxes(TypeRange types) const;
  RankedTensorType getStrandType(Type type) const;
  RankedTensorType withShape(RankedTensorType type,
                             ArrayRef<int64_t> shape) const;
  int64_t getStrand(ArrayRef<unsigned> axes, ArrayRef<int64_t> point) const;
  void forEachPoint(ArrayRef<unsigned> axes,
                    llvm::function_ref<void(const Point &)> visit) const;

  Value lookup(OpBuilder &builder, Value value, const Point &point);
  Value sliceArgument(OpBuilder &builder, Value value, const Point &point);
  void record(Value value, const Point &point, Value copy);
  void copyOperator(Operation *op);
  void splitEnter(EnterOp enter);
  SmallVector<Value> buildCopy(OpBuilder &builder, Operation *op,
                               ArrayRef<Value> operands, const Point &point);
  LogicalResult splitReform(ReformOp reform);
  Value join(OpBuilder &builder, ReformOp reform, unsigned axis,
             const Point &point);
  Value part(OpBuilder &builder, Value whole, AxisForm form, unsigned axis,
             int64_t index);
  Value assemble(OpBuilder &builder, Value value, ArrayRef<unsigned> axes,
                 const Point &point);
  LogicalResult verifyResults(func::FuncOp step) const;
  void finish(func::FuncOp step);

  MeshAttr mesh;
  llvm::DenseMap<Value, Copies> copies;
};

/// Gives new operators the pass and location's companions of their origin, and
/// the strand that they belong to.
struct MarkStrand : OpBuilder::Listener {
  MarkStrand(DictionaryAttr attributes, std::optional<int64_t> strand)
      : attributes(attributes), strand(strand) {}
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    op->setDiscardableAttrs(attributes);
    if (strand)
      setInteger(op, nn::kStrandAttrName, *strand);
  }
  DictionaryAttr attributes;
  std::optional<int64_t> strand;
};
} // namespace

//===----------------------------------------------------------------------===//
// Points of time axes
//===----------------------------------------------------------------------===//

SmallVector<unsigned> SplitStrandsPass::getAxes(Type type) const {
  SmallVector<unsigned> axes;
  for (auto [axis, form] : llvm::enumerate(getForms(type, mesh)))
    if (mesh.isTime(axis) && !form.isFull())
      axes.push_back(axis);
  return axes;
}

SmallVector<unsigned> SplitStrandsPass::getAxes(TypeRange types) const {
  SmallVector<unsigned> axes;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    if (llvm::any_of(types, [&](Type type) {
          return llvm::is_contained(getAxes(type), axis);
        }))
      axes.push_back(axis);
  return axes;
}

RankedTensorType SplitStrandsPass::getStrandType(Type type) const {
  auto tensor = cast<RankedTensorType>(type);
  return withShape(
      tensor, getLocalShape(tensor.getShape(), mesh, getForms(tensor, mesh)));
}

/// `type` with another shape, and `at` alone of its forms.
RankedTensorType SplitStrandsPass::withShape(RankedTensorType type,
                                             ArrayRef<int64_t> shape) const {
  return withForms(RankedTensorType::get(shape, type.getElementType()), mesh,
                   getFormsLeft(mesh, getForms(type, mesh), /*hasTime=*/false));
}

/// Row-major index over all time axes; those not in `axes` count as 0.
int64_t SplitStrandsPass::getStrand(ArrayRef<unsigned> axes,
                                    ArrayRef<int64_t> point) const {
  int64_t strand = 0;
  for (unsigned axis = mesh.getNumSpaceAxes(); axis < mesh.getNumAxes(); ++axis)
    strand = strand * mesh.getSize(axis) +
             (llvm::is_contained(axes, axis) ? point[axis] : 0);
  return strand;
}

/// Visits all points of `axes`, the last one fastest; other axes are at 0.
void SplitStrandsPass::forEachPoint(
    ArrayRef<unsigned> axes,
    llvm::function_ref<void(const Point &)> visit) const {
  Point point(mesh.getNumAxes(), 0);
  int64_t count = 1;
  for (unsigned axis : axes)
    count *= mesh.getSize(axis);
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index;
    for (unsigned axis : llvm::reverse(axes)) {
      point[axis] = rest % mesh.getSize(axis);
      rest /= mesh.getSize(axis);
    }
    visit(point);
  }
}

//===----------------------------------------------------------------------===//
// Copies of values
//===----------------------------------------------------------------------===//

void SplitStrandsPass::record(Value value, const Point &point, Value copy) {
  Copies &it = copies[value];
  it.axes = getAxes(value.getType());
  it.byStrand[getStrand(it.axes, point)] = copy;
}

/// The copy of `value` at `point`; what of an argument belongs to it.
Value SplitStrandsPass::lookup(OpBuilder &builder, Value value,
                               const Point &point) {
  SmallVector<unsigned> axes = getAxes(value.getType());
  Copies &it = copies[value];
  if (Value known = it.byStrand.lookup(getStrand(axes, point)))
    return known;
  Value slice = sliceArgument(builder, value, point);
  record(value, point, slice);
  return slice;
}

/// An argument is whole over time: major axes are cut first.
Value SplitStrandsPass::sliceArgument(OpBuilder &builder, Value value,
                                      const Point &point) {
  Value slice = value;
  Forms forms = getForms(value.getType(), mesh);
  for (unsigned axis : getAxes(value.getType()))
    slice = part(builder, slice, forms[axis], axis, point[axis]);
  return slice;
}

/// What the point `index` of `axis` has of a value that is whole over it.
Value SplitStrandsPass::part(OpBuilder &builder, Value whole, AxisForm form,
                             unsigned axis, int64_t index) {
  auto type = cast<RankedTensorType>(whole.getType());
  if (form.isFull() || (form.isReduce() && index == 0))
    return whole;
  if (form.isReduce()) {
    return nn::ConstantOp::create(
        builder, whole.getLoc(), withShape(type, type.getShape()),
        DenseElementsAttr::get(withoutForms(type),
                               builder.getZeroAttr(type.getElementType())));
  }
  SmallVector<int64_t> shape(type.getShape());
  int64_t size = shape[form.getDim()] /= mesh.getSize(axis);
  return nn::SliceOp::create(builder, builder.getInsertionPoint()->getLoc(),
                             withShape(type, shape), whole, form.getDim(),
                             index * size, (index + 1) * size, 1);
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

SmallVector<Value> SplitStrandsPass::buildCopy(OpBuilder &builder,
                                               Operation *op,
                                               ArrayRef<Value> operands,
                                               const Point &point) {
  SmallVector<Type> types;
  for (Type type : op->getResultTypes())
    types.push_back(getStrandType(type));
  if (auto positions = dyn_cast<LocalizeOpInterface>(op)) {
    Shard shard(mesh, operands, op->getOperandTypes(), op->getResultTypes(),
                types, ArrayRef(point).drop_front(mesh.getNumSpaceAxes()));
    return positions.buildShard(builder, shard);
  }
  OperationState state(op->getLoc(), op->getName(), operands, types,
                       op->getAttrs());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return builder.create(state)->getResults();
}

void SplitStrandsPass::copyOperator(Operation *op) {
  SmallVector<unsigned> axes = getAxes(op->getResultTypes());
  forEachPoint(axes, [&](const Point &point) {
    std::optional<int64_t> strand;
    if (!axes.empty())
      strand = getStrand(axes, point);
    MarkStrand listener(op->getDiscardableAttrDictionary(), strand);
    OpBuilder builder(op, &listener);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(lookup(builder, operand, point));
    auto results = buildCopy(builder, op, operands, point);
    for (auto [old, copy] : llvm::zip(op->getResults(), results))
      record(old, point, copy);
  });
}

/// An iteration's part of an input is cut into strands behind the way into the
/// loop, where each is one run of elements.
void SplitStrandsPass::splitEnter(EnterOp enter) {
  MarkStrand shared(enter->getDiscardableAttrDictionary(), std::nullopt);
  OpBuilder builder(enter, &shared);
  auto input = cast<RankedTensorType>(enter.getInput().getType());
  RankedTensorType type = withShape(input, input.getShape().drop_front());
  Value whole =
      EnterOp::create(builder, enter.getLoc(), type, enter.getInput());
  Forms forms = getForms(enter.getType(), mesh);
  SmallVector<unsigned> axes = getAxes(enter.getType());
  forEachPoint(axes, [&](const Point &point) {
    MarkStrand own(enter->getDiscardableAttrDictionary(),
                   getStrand(axes, point));
    OpBuilder slicer(enter, &own);
    Value slice = whole;
    for (unsigned axis : axes)
      slice = part(slicer, slice, forms[axis], axis, point[axis]);
    record(enter.getResult(), point, slice);
  });
}

//===----------------------------------------------------------------------===//
// Reforms
//===----------------------------------------------------------------------===//

/// Makes one value of the points of `axis`, with the others at `point`.
Value SplitStrandsPass::join(OpBuilder &builder, ReformOp reform, unsigned axis,
                             const Point &point) {
  AxisForm form = getForms(reform.getInput().getType(), mesh)[axis];
  if (form.isFull())
    return lookup(builder, reform.getInput(), point);
  SmallVector<Value> parts;
  Point other = point;
  for (other[axis] = 0; other[axis] < mesh.getSize(axis); ++other[axis])
    parts.push_back(lookup(builder, reform.getInput(), other));
  Value whole = parts.front();
  auto type = cast<RankedTensorType>(whole.getType());
  if (form.isReduce()) {
    for (Value term : ArrayRef(parts).drop_front()) {
      // The plan counts the sum once.
      if (Operation *sum = whole.getDefiningOp(); sum && whole != parts.front())
        editPlanned(sum, [](Planned &planned) { planned.seconds = 0; });
      whole = nn::AddOp::create(builder, reform.getLoc(), type, whole, term);
    }
  } else if (parts.size() > 1) {
    SmallVector<int64_t> shape(type.getShape());
    shape[form.getDim()] *= parts.size();
    whole = nn::CatOp::create(builder, reform.getLoc(), withShape(type, shape),
                              parts, form.getDim());
  }
  if (parts.size() > 1)
    whole.getDefiningOp()->setAttr(
        nn::kJoinAttrName,
        builder.getStringAttr(form.str() + " -> " +
                              getForms(reform.getType(), mesh)[axis].str()));
  return whole;
}

LogicalResult SplitStrandsPass::splitReform(ReformOp reform) {
  Forms from = getForms(reform.getInput().getType(), mesh);
  Forms to = getForms(reform.getType(), mesh);
  std::string reason;
  auto axis = getReformedAxis(mesh, from, to, &reason);
  if (!axis)
    return reform.emitError()
           << "reform is no single local operation: " << reason;
  SmallVector<unsigned> others = getAxes(reform.getType());
  llvm::erase(others, *axis);
  DictionaryAttr attributes = nn::getPartAttributes(reform);
  // What the plan counts is the join; slices are free.
  NamedAttrList uncounted(attributes);
  Planned planned = getPlanned(reform);
  planned.seconds = 0;
  planned.joins = false;
  setPlanned(uncounted, planned, reform.getContext());
  DictionaryAttr sliced = uncounted.getDictionary(reform.getContext());
  forEachPoint(others, [&](Point point) {
    std::optional<int64_t> strand;
    if (!others.empty())
      strand = getStrand(others, point);
    MarkStrand joined(attributes, strand);
    OpBuilder joiner(reform, &joined);
    Value whole = join(joiner, reform, *axis, point);
    if (to[*axis].isFull())
      return record(reform.getResult(), point, whole);
    for (point[*axis] = 0; point[*axis] < mesh.getSize(*axis); ++point[*axis]) {
      MarkStrand parted(sliced, getStrand(getAxes(reform.getType()), point));
      OpBuilder builder(reform, &parted);
      record(reform.getResult(), point,
             part(builder, whole, to[*axis], *axis, point[*axis]));
    }
  });
  return success();
}

/// A result is whole over time: minor axes are joined first.
Value SplitStrandsPass::assemble(OpBuilder &builder, Value value,
                                 ArrayRef<unsigned> axes, const Point &point) {
  if (axes.empty())
    return lookup(builder, value, point);
  unsigned axis = axes.front();
  Point other = point;
  SmallVector<Value> parts;
  for (other[axis] = 0; other[axis] < mesh.getSize(axis); ++other[axis])
    parts.push_back(assemble(builder, value, axes.drop_front(), other));
  if (parts.size() == 1)
    return parts.front();
  int64_t dim = getForms(value.getType(), mesh)[axis].getDim();
  auto type = cast<RankedTensorType>(parts.front().getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] *= parts.size();
  return nn::CatOp::create(builder, value.getLoc(), withShape(type, shape),
                           parts, dim);
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// Strands of a result are concatenated; sums are made by reforms.
LogicalResult SplitStrandsPass::verifyResults(func::FuncOp step) const {
  for (auto [index, type] : llvm::enumerate(step.getResultTypes()))
    for (auto [axis, form] : llvm::enumerate(getForms(type, mesh)))
      if (form.isReduce())
        return step.emitError()
               << "result " << index << " is 'reduce' on the time axis '"
               << mesh.getName(axis) << "', expected full or gather";
  return success();
}

/// Rewires the results, removes the old operators and the forms.
void SplitStrandsPass::finish(func::FuncOp step) {
  Block &block = step.getBody().front();
  Operation *ret = block.getTerminator();
  for (OpOperand &operand : ret->getOpOperands()) {
    Operation *producer = operand.get().getDefiningOp();
    NamedAttrList attributes;
    attributes.set(kChangeAttrName, UnitAttr::get(step.getContext()));
    if (Attribute pass =
            producer ? producer->getAttr(nn::kPassAttrName) : nullptr)
      attributes.set(nn::kPassAttrName, pass);
    MarkStrand listener(attributes.getDictionary(step.getContext()), {});
    OpBuilder builder(ret, &listener);
    Point origin(mesh.getNumAxes(), 0);
    operand.set(assemble(builder, operand.get(),
                         getAxes(operand.get().getType()), origin));
  }
}

LogicalResult SplitStrandsPass::runOnStep(func::FuncOp step) {
  copies.clear();
  mesh = getMesh(step);
  if (!mesh)
    return step.emitError()
           << "the module has no '" << kMeshAttrName << "', expected a mesh";
  if (failed(verifyForms(step, mesh, FormsLeft::TimeAndAt)) ||
      failed(verifyUnscheduled(step)) || failed(verifyResults(step)))
    return failure();
  if (mesh.getNumTimeAxes() == 0)
    return success(); // one strand: nothing is in the forms
  Block &block = step.getBody().front();
  SmallVector<Operation *> old;
  for (Operation &op : block.without_terminator())
    old.push_back(&op);
  for (BlockArgument argument : step.getArguments())
    if (getAxes(argument.getType()).empty())
      record(argument, Point(mesh.getNumAxes(), 0), argument);
  for (Operation *op : old) {
    if (auto enter = dyn_cast<EnterOp>(op);
        enter && isa<BlockArgument>(enter.getInput()) &&
        !getAxes(enter.getType()).empty())
      splitEnter(enter);
    else if (!isa<ReformOp>(op))
      copyOperator(op);
    else if (failed(splitReform(cast<ReformOp>(op))))
      return failure();
  }
  finish(step);
  for (Operation *op : llvm::reverse(old))
    op->erase();
  for (BlockArgument argument : step.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    argument.setType(withShape(type, type.getShape()));
  }
  step.setType(FunctionType::get(step.getContext(), block.getArgumentTypes(),
                                 block.getTerminator()->getOperandTypes()));
  return success();
}
