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
                unsigned axis, ArrayRef<int64_t> points)
      : step(step), block(step.getBody().front()), before(before), mesh(mesh),
        axis(axis), points(points),
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

/// `value` in another form, for `reader` and those behind it.
Value SectionPlacer::change(Value value, AxisForm form, Operation *reader) {
  if (getForm(value).isReduce() && form.isAt())
    form = AxisForm::full(); // a sum that all points get serves each of them
  Value &made = changed[{value, form.getCode()}];
  if (made)
    return made;
  Forms forms = getForms(value.getType(), mesh);
  forms[axis] = form;
  OpBuilder builder(reader);
  auto reform = ReformOp::create(
      builder, value.getLoc(),
      withForms(withoutForms(cast<RankedTensorType>(value.getType())), mesh,
                forms),
      value);
  Operation *maker = value.getDefiningOp();
  bool isReturned = reader->hasTrait<OpTrait::IsTerminator>();
  if (!isReturned || maker)
    nn::copyPass(isReturned ? maker : reader, reform);
  if (auto section = getInteger(reader, kSectionAttrName);
      section && form.isAt())
    setInteger(reform, kSectionAttrName, *section);
  if (maker && getLoop(maker) && !isCarried(maker))
    setLoopOf(reform, maker);
  return changed[{value, form.getCode()}] = reform;
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
  module->setAttr(kMeshAttrName, *whole);
  module->removeAttr(kWholeMeshAttrName);
  SectionPlacer(step, before, *whole, *axis, points.asArrayRef()).run();
  return success();
}
