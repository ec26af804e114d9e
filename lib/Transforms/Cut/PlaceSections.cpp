//===- PlaceSections.cpp - sections as forms at(i) ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What was planned on the mesh without the pipe axis gets this axis. What is in
// a section is `at` its point. What is in none is `full`, unless it reads
// points: it is where it reads, or, if it is linear and reads several, it makes
// a term on each of them (`reduce`), so that a norm over all sections is one
// sum.
//
// A value changes its form once for all readers that want it in the same way,
// in front of the first one: a tensor goes straight to where it is read, once.
// Where an axis sends parts, each of its devices sends another one, and all of
// them gather the whole where it arrives.
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Gradients.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Transforms/Cut/Cut.h"

namespace tandem {
#define GEN_PASS_DEF_PLACESECTIONSPASS
#include "tandem/Transforms/Cut/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// Places the values of one step.
class SectionPlacer {
public:
  SectionPlacer(func::FuncOp step, MeshAttr before, MeshAttr mesh,
                unsigned axis, ArrayRef<int64_t> points,
                ArrayRef<unsigned> splitting)
      : step(step), block(step.getBody().front()), before(before), mesh(mesh),
        axis(axis), points(points), splitting(splitting),
        hasLoops(llvm::any_of(
            block, [](Operation &op) { return getLoop(&op).has_value(); })) {}
  void run();

private:
  AxisForm getForm(Value value) const {
    return getForms(value.getType(), mesh)[axis];
  }
  Type getType(Type type, AxisForm form) const;
  AxisForm getSection(DictionaryAttr attributes) const;
  std::optional<Signature> findSum(Operation *op) const;
  AxisForm choose(Operation *op) const;
  SmallVector<std::pair<unsigned, AxisForm>> findParts(Value value) const;
  Value reform(Value value, unsigned changing, AxisForm form, Operation *like);
  Value gatherThere(Value value, AxisForm form, Operation *reader);
  Value change(Value value, AxisForm form, Operation *reader);
  void placeOperand(OpOperand &operand, AxisForm form);
  bool isIterated(Operation *op) const;
  void inheritSection(Operation *op);
  void place(Operation *op);
  void placeArguments();
  void placeResults();

  func::FuncOp step;
  Block &block;
  MeshAttr before, mesh;
  unsigned axis;
  ArrayRef<int64_t> points;
  /// Axes that send parts.
  ArrayRef<unsigned> splitting;
  bool hasLoops;
  /// Values in another form of the axis, by its code.
  llvm::DenseMap<std::pair<Value, int64_t>, Value> changed;
};

struct PlaceSectionsPass
    : tandem::impl::PlaceSectionsPassBase<PlaceSectionsPass> {
  using PlaceSectionsPassBase::PlaceSectionsPassBase;
  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
  FailureOr<unsigned> findAxis(MeshAttr before, MeshAttr mesh);
  FailureOr<SmallVector<unsigned>> findSplitting(MeshAttr mesh, unsigned axis);
  LogicalResult run();
};
} // namespace

Type SectionPlacer::getType(Type type, AxisForm form) const {
  auto tensor = cast<RankedTensorType>(type);
  Forms forms = getForms(tensor, before);
  forms.insert(forms.begin() + axis, form);
  return withForms(withoutForms(tensor), mesh, forms);
}

AxisForm SectionPlacer::getSection(DictionaryAttr attributes) const {
  auto section = attributes ? getInteger(attributes, kSectionAttrName)
                            : std::optional<int64_t>();
  return section ? AxisForm::at(points[*section]) : AxisForm::full();
}

//===----------------------------------------------------------------------===//
// What is in no section
//===----------------------------------------------------------------------===//

/// The signature with which `op` adds terms of several points; none if it is
/// not linear in all that it reads of points.
std::optional<Signature> SectionPlacer::findSum(Operation *op) const {
  auto ruled = dyn_cast<SignatureOpInterface>(op);
  if (!ruled)
    return std::nullopt;
  for (const Signature &signature :
       ruled.getRule().enumerate(mesh.getSize(axis))) {
    bool fits = llvm::all_of(signature.results,
                             [](AxisForm form) { return form.isReduce(); });
    for (auto [operand, form] :
         llvm::zip_equal(op->getOperands(), signature.operands))
      fits &= getForm(operand).isFull() ? form.isFull() : form.isReduce();
    if (fits)
      return signature;
  }
  return std::nullopt;
}

/// The form of the results of `op`.
AxisForm SectionPlacer::choose(Operation *op) const {
  AxisForm own = getSection(op->getDiscardableAttrDictionary());
  if (!own.isFull())
    return own;
  bool isOne = true;
  for (Value operand : op->getOperands()) {
    AxisForm form = getForm(operand);
    isOne &= own.isFull() || form.isFull() || form == own;
    if (!form.isFull())
      own = form;
  }
  bool follows = own.isAt() || !isa<SignatureOpInterface>(op);
  if (own.isFull() || (isOne && follows))
    return own;
  return findSum(op) ? AxisForm::reduce() : AxisForm::full();
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

/// The axes on which what `value` has is sent in parts, and their forms.
SmallVector<std::pair<unsigned, AxisForm>>
SectionPlacer::findParts(Value value) const {
  SmallVector<std::pair<unsigned, AxisForm>> parts;
  Operation *maker = value.getDefiningOp();
  if (!maker || !isIterated(maker))
    return parts;
  Forms forms = getForms(value.getType(), mesh);
  for (unsigned other : splitting)
    for (auto [dim, extent] :
         llvm::enumerate(cast<RankedTensorType>(value.getType()).getShape())) {
      bool isTaken = llvm::any_of(
          forms, [dim = dim](AxisForm form) { return form.isGather(dim); });
      if (!forms[other].isFull() || isTaken || extent % mesh.getSize(other))
        continue;
      forms[other] = AxisForm::gather(dim);
      parts.emplace_back(other, forms[other]);
    }
  return parts;
}

/// `value` with another form on one axis, in the pass of `like`.
Value SectionPlacer::reform(Value value, unsigned changing, AxisForm form,
                            Operation *like) {
  OpBuilder builder(like);
  Operation *maker = value.getDefiningOp();
  if (like == maker)
    builder.setInsertionPointAfter(maker);
  Forms forms = getForms(value.getType(), mesh);
  forms[changing] = form;
  auto made = ReformOp::create(
      builder, value.getLoc(),
      withForms(withoutForms(cast<RankedTensorType>(value.getType())), mesh,
                forms),
      value);
  bool isReturned = like->hasTrait<OpTrait::IsTerminator>();
  if (!isReturned || maker)
    nn::copyPass(isReturned ? maker : like, made);
  if (auto section = getInteger(like, kSectionAttrName);
      section && forms[axis].isAt())
    setInteger(made, kSectionAttrName, *section);
  if (maker && getLoop(maker) && !isCarried(maker))
    setLoopOf(made, maker);
  return made;
}

/// What lies outside of loops and each microbatch gathers, as a parameter, is
/// sent in parts, once, and gathered at the point that reads it. None if
/// `value` is something else.
Value SectionPlacer::gatherThere(Value value, AxisForm form,
                                 Operation *reader) {
  auto gather = value.getDefiningOp<ReformOp>();
  if (!gather || !form.isAt() || !isIterated(gather) || !isIterated(reader))
    return {};
  Value parts = gather.getInput();
  Operation *maker = parts.getDefiningOp();
  Forms before = getForms(parts.getType(), mesh),
        after = getForms(value.getType(), mesh);
  auto [own, other] = llvm::mismatch(before, after);
  if (own == before.end() || !own->isGather() || !other->isFull() ||
      (maker && isIterated(maker)))
    return {};
  Value made =
      reform(change(parts, form, reader), own - before.begin(), *other, reader);
  if (getLoop(reader))
    setLoopOf(made.getDefiningOp(), reader);
  return made;
}

/// `value` in another form, for `reader` and those behind it.
Value SectionPlacer::change(Value value, AxisForm form, Operation *reader) {
  if (getForm(value).isReduce() && form.isAt())
    form = AxisForm::full(); // a sum that all points get serves each of them
  if (Value made = changed.lookup({value, form.getCode()}))
    return made;
  if (Value made = gatherThere(value, form, reader))
    return changed[{value, form.getCode()}] = made;
  bool isTransfer = getForm(value).isAt() && form.isAt();
  SmallVector<std::pair<unsigned, AxisForm>> parts;
  if (isTransfer)
    parts = findParts(value);
  Value made = value;
  for (auto [other, part] : parts)
    made = reform(made, other, part, made.getDefiningOp());
  made = reform(made, axis, form, reader);
  for (auto [other, part] : llvm::reverse(parts))
    made = reform(made, other, AxisForm::full(), reader);
  return changed[{value, form.getCode()}] = made;
}

/// Lets an operand of an operator whose results are `form` be as they need it.
void SectionPlacer::placeOperand(OpOperand &operand, AxisForm form) {
  AxisForm own = getForm(operand.get());
  if (own == form || own.isFull())
    return;
  operand.set(change(operand.get(), form, operand.getOwner()));
}

/// The section that reads `op` first in its pass: values flow to later sections
/// in the forward pass, and to earlier ones in the backward pass.
static std::optional<int64_t> findReaders(Operation *op, bool isBackward) {
  std::optional<int64_t> first;
  for (Operation *user : op->getUsers()) {
    auto section = getInteger(user, kSectionAttrName);
    if (!section && isa<ReformOp>(user))
      section = findReaders(user, isBackward);
    if (section &&
        (!first || (isBackward ? *section > *first : *section < *first)))
      first = section;
  }
  return first;
}

/// Whether each microbatch has what `op` makes. A step without loops is one
/// microbatch.
bool SectionPlacer::isIterated(Operation *op) const {
  if (!hasLoops)
    return nn::getPass(op) != nn::PassKind::Update;
  return getLoop(op) && !isCarried(op);
}

/// What `shard` added for each microbatch, as a parameter that is gathered, is
/// in the section that reads it; other additions are where they read.
void SectionPlacer::inheritSection(Operation *op) {
  if (getInteger(op, kSectionAttrName))
    return;
  std::optional<int64_t> section;
  if (isIterated(op))
    section = findReaders(op, isBackward(op));
  for (Value operand : op->getOperands()) {
    if (section || !getForm(operand).isAt())
      continue;
    Operation *maker = operand.getDefiningOp();
    section = maker
                  ? getInteger(maker, kSectionAttrName)
                  : getInteger(step.getArgAttrDict(
                                   cast<BlockArgument>(operand).getArgNumber()),
                               kSectionAttrName);
  }
  if (section)
    setInteger(op, kSectionAttrName, *section);
}

void SectionPlacer::place(Operation *op) {
  if (choose(op).isAt())
    inheritSection(op);
  AxisForm form = choose(op);
  for (OpOperand &operand : op->getOpOperands())
    placeOperand(operand, form);
  for (Value result : op->getResults())
    result.setType(getType(result.getType(), form));
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

void SectionPlacer::placeArguments() {
  for (BlockArgument argument : block.getArguments())
    argument.setType(
        getType(argument.getType(),
                getSection(step.getArgAttrDict(argument.getArgNumber()))));
}

/// A new value is where the old one is; a sum is finished.
void SectionPlacer::placeResults() {
  Operation *ret = block.getTerminator();
  for (OpOperand &operand : ret->getOpOperands()) {
    AxisForm form = getForm(operand.get());
    DictionaryAttr attributes =
        step.getResultAttrDict(operand.getOperandNumber());
    if (auto updated = nn::getUpdates(attributes))
      form = getForm(step.getArgument(*updated));
    else if (form.isReduce())
      form = AxisForm::full();
    // A sum is finished on its way to a point.
    while (form != getForm(operand.get()))
      operand.set(change(operand.get(), form, ret));
  }
}

void SectionPlacer::run() {
  placeArguments();
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    place(&op);
  placeResults();
  step.setType(FunctionType::get(step.getContext(), block.getArgumentTypes(),
                                 block.getTerminator()->getOperandTypes()));
}

/// The axis of `mesh` that `before` lacks.
FailureOr<unsigned> PlaceSectionsPass::findAxis(MeshAttr before,
                                                MeshAttr mesh) {
  ModuleOp module = getOperation();
  auto name = module->getAttrOfType<StringAttr>(kPipeAttrName);
  std::optional<unsigned> axis =
      mesh.lookup(name ? name.getValue() : StringRef());
  SmallVector<StringAttr> names(mesh.getNames());
  SmallVector<int64_t> sizes(mesh.getSizes());
  if (axis) {
    names.erase(names.begin() + *axis);
    sizes.erase(sizes.begin() + *axis);
  }
  if (!axis || before.getNames() != ArrayRef(names) ||
      before.getSizes() != ArrayRef(sizes))
    return module.emitError("mesh ")
           << getMeshText(mesh) << ", expected that of the plan, "
           << getMeshText(before) << ", with the axis that '" << kPipeAttrName
           << "' names";
  return *axis;
}

/// The axes that `parts` names.
FailureOr<SmallVector<unsigned>>
PlaceSectionsPass::findSplitting(MeshAttr mesh, unsigned axis) {
  SmallVector<unsigned> found;
  for (const std::string &name : parts) {
    std::optional<unsigned> each = mesh.lookup(name);
    if (!each || *each == axis || mesh.isTime(*each))
      return getOperation().emitError("parts names '")
             << name << "', expected axes of " << getMeshText(mesh)
             << " with devices, but for that of the points";
    found.push_back(*each);
  }
  return found;
}

LogicalResult PlaceSectionsPass::run() {
  ModuleOp module = getOperation();
  auto step = module.lookupSymbol<func::FuncOp>("step");
  auto points = module->getAttrOfType<DenseI64ArrayAttr>(kSectionsAttrName);
  MeshAttr before = getMesh(module);
  if (!points)
    return success();
  if (!step || !before)
    return module.emitError("module has no function @step on a mesh");
  if (failed(verifyStepBody(step)) ||
      failed(verifyForms(step, before, FormsLeft::All)))
    return failure();
  auto whole =
      parseMesh(module.getLoc(), mesh, before.getNumStrands(), /*file=*/"");
  if (failed(whole))
    return failure();
  FailureOr<unsigned> axis = findAxis(before, *whole);
  if (failed(axis))
    return failure();
  for (int64_t point : points.asArrayRef())
    if (point >= whole->getSize(*axis))
      return module.emitError("a section lies on point ")
             << point << ", but axis '" << whole->getName(*axis) << "' has "
             << whole->getSize(*axis) << " points, from 0 on";
  FailureOr<SmallVector<unsigned>> splitting = findSplitting(*whole, *axis);
  if (failed(splitting))
    return failure();
  module->setAttr(kMeshAttrName, *whole);
  module->removeAttr(kWholeMeshAttrName);
  SectionPlacer(step, before, *whole, *axis, points.asArrayRef(), *splitting)
      .run();
  return success();
}
