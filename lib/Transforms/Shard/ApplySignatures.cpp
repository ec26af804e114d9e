//===- ApplySignatures.cpp - forms into types -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlannedCopies.h"
#include "tandem/Analysis/PlannedOrder.h"
#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using tandem::nn::NNDialect;

static constexpr llvm::StringLiteral kFormAttrName = "spmd.form";

namespace {
/// The forms that a plan gives to an operator, on all axes.
struct PlannedForms {
  SmallVector<Forms> operands, results;
};

/// Who wants a value in other forms.
struct Reader {
  Operation *op;
  StringRef pass;
  /// The plan's stage, if it has stages.
  std::optional<int64_t> stage;
};

class ApplySignaturesPass : public tandem::StepPass<ApplySignaturesPass> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ApplySignaturesPass)
  StringRef getArgument() const override { return "tandem-apply-signatures"; }
  StringRef getDescription() const override {
    return "Puts the forms of the plan's signatures into types, with reforms "
           "where producer and consumer differ";
  }
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  LogicalResult applyToArguments(func::FuncOp step);
  LogicalResult applyToOperator(Operation *op);
  LogicalResult applyToResults(func::FuncOp step);
  Value findMade(Value value, const Forms &forms, StringRef pass) const;
  Value findKept(Value value, const Forms &forms) const;
  Value getSource(Value value, const PlannedCopy *copy, const Reader &reader);
  Value sumOverTime(Value value, const Forms &forms);
  Value build(Value value, Value source, const Forms &forms, StringRef pass,
              const Reader &reader, bool early);
  void markWaits(ArrayRef<ReformOp> chain, const PlannedWait *wait) const;
  /// `value` in the forms `forms`.
  Value reform(Value value, const Forms &forms, const Reader &reader);

  MeshAttr mesh;
  using Key = std::pair<Type, StringRef>;
  llvm::DenseMap<Value, SmallVector<std::pair<Key, Value>, 1>> made;
  PlannedCopies copies;
  unsigned depth = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Reading what the plan says
//===----------------------------------------------------------------------===//

static LogicalResult parseForms(Operation *op, StringRef text, StringRef what,
                                unsigned count, unsigned axis,
                                MutableArrayRef<Forms> forms) {
  SmallVector<StringRef> parts;
  if (!(text = text.trim()).empty())
    text.split(parts, ',');
  if (parts.size() != count)
    return op->emitError() << "the signature names " << parts.size() << " "
                           << what << ", expected " << count;
  for (auto [part, form] : llvm::zip(parts, forms)) {
    std::optional<AxisForm> parsed = parseAxisForm(part);
    if (!parsed)
      return op->emitError() << "the signature has the form '" << part.trim()
                             << "', expected full, reduce or gather(d)";
    form[axis] = *parsed;
  }
  return success();
}

/// Reads `spmd.signature`: one text per axis, in the order of the mesh.
static FailureOr<PlannedForms> parseSignatures(Operation *op, MeshAttr mesh) {
  auto texts = op->getAttrOfType<ArrayAttr>(SPMDDialect::kSignatureAttrName);
  if (!texts)
    return op->emitError()
           << "has no '" << SPMDDialect::kSignatureAttrName
           << "', expected one text per axis: run the plan stage first";
  if (texts.size() != mesh.getNumAxes())
    return op->emitError() << "has " << texts.size()
                           << " signatures, expected one per axis of " << mesh;
  PlannedForms planned;
  planned.operands.assign(op->getNumOperands(), Forms(mesh.getNumAxes()));
  planned.results.assign(op->getNumResults(), Forms(mesh.getNumAxes()));
  for (auto [axis, text] : llvm::enumerate(texts)) {
    auto string = dyn_cast<StringAttr>(text);
    if (!string || !string.getValue().contains("->"))
      return op->emitError() << "has the signature " << text
                             << ", expected 'operands -> results'";
    auto [operands, results] = string.getValue().split("->");
    if (failed(parseForms(op, operands, "operands", op->getNumOperands(), axis,
                          planned.operands)) ||
        failed(parseForms(op, results, "results", op->getNumResults(), axis,
                          planned.results)))
      return failure();
  }
  return planned;
}

/// Checks that `forms` fit `type`; `what` is a place in the error.
static LogicalResult checkForms(Operation *op, const Twine &what, Type type,
                                MeshAttr mesh, const Forms &forms) {
  std::string reason;
  if (canHaveForms(cast<RankedTensorType>(type), mesh, forms, &reason))
    return success();
  return op->emitError() << what << ": " << reason;
}

/// The form that `dictionary` names, all `full` without one.
static FailureOr<Forms> getPlannedForm(Operation *op, const Twine &what,
                                       Attribute attribute, Type type,
                                       MeshAttr mesh) {
  Forms forms(mesh.getNumAxes());
  if (!attribute)
    return forms;
  auto form = dyn_cast<FormAttr>(attribute);
  if (!form || form.getMesh() != mesh)
    return op->emitError() << what << " has the form " << attribute
                           << ", expected a form on the mesh " << mesh;
  for (auto [axis, code] : llvm::enumerate(form.getCodes()))
    forms[axis] = AxisForm::fromCode(code);
  if (failed(checkForms(op, what, type, mesh, forms)))
    return failure();
  return forms;
}

//===----------------------------------------------------------------------===//
// Reforms
//===----------------------------------------------------------------------===//

static StringRef getPass(Operation *op) {
  auto pass = op ? op->getAttrOfType<StringAttr>(NNDialect::kPassAttrName)
                 : StringAttr();
  return pass ? pass.getValue() : "";
}

/// What was made of `value` for `pass`; null if nothing was.
Value ApplySignaturesPass::findMade(Value value, const Forms &forms,
                                    StringRef pass) const {
  auto it = made.find(value);
  if (it != made.end())
    for (auto &[key, reformed] : it->second)
      if (getForms(key.first, mesh) == forms && key.second == pass)
        return reformed;
  return {};
}

/// The copy that an earlier pass made and keeps.
Value ApplySignaturesPass::findKept(Value value, const Forms &forms) const {
  for (const PlannedCopy &copy : copies.getCopies(value))
    if (copy.isKept && copy.path.back() == forms)
      if (Value kept = findMade(value, forms, copy.pass))
        return kept;
  return {};
}

/// What a gradient is summed to over time, behind what makes it and in its
/// stage.
Value ApplySignaturesPass::sumOverTime(Value value, const Forms &forms) {
  Forms summed = getForms(value.getType(), mesh);
  bool isSum = false;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    if (mesh.isTime(axis) && summed[axis].isReduce() && forms[axis].isFull()) {
      summed[axis] = AxisForm::full();
      isSum = true;
    }
  Operation *producer = value.getDefiningOp();
  StringRef pass = getPass(producer);
  if (!isSum)
    return value;
  if (Value known = findMade(value, summed, pass))
    return known;
  return build(value, value, summed, pass,
               {producer, pass, getPlannedStage(producer)}, /*early=*/true);
}

/// What the plan makes the copy from: another copy, which may not be there yet
/// as stages do not follow the text, or the value itself.
Value ApplySignaturesPass::getSource(Value value, const PlannedCopy *copy,
                                     const Reader &reader) {
  const Forms own = getForms(value.getType(), mesh);
  if (!copy || copy->path.front() == own)
    return value;
  if (Value source = findMade(value, copy->path.front(), reader.pass))
    return source;
  if (Value source = findKept(value, copy->path.front()))
    return source;
  // Copies of copies: a plan that was edited may name them in a circle.
  if (!reader.stage || depth > copies.getCopies(value).size())
    return value;
  ++depth;
  Value source = reform(value, copy->path.front(), reader);
  --depth;
  return source;
}

/// A reform is made in the stage of its first reader.
static void lowerStage(Value value, std::optional<int64_t> stage) {
  for (auto op = value.getDefiningOp<ReformOp>(); op && stage;
       op = op.getInput().getDefiningOp<ReformOp>()) {
    std::optional<int64_t> known = getPlannedStage(op);
    if (!known || *known <= *stage)
      return;
    setPlannedStage(op, *stage);
  }
}

void ApplySignaturesPass::markWaits(ArrayRef<ReformOp> chain,
                                    const PlannedWait *wait) const {
  if (!wait)
    return;
  unsigned number = 0;
  for (ReformOp op : chain) {
    Forms from = getForms(op.getInput().getType(), mesh);
    Forms to = getForms(op.getType(), mesh);
    std::optional<unsigned> axis = getReformedAxis(mesh, from, to);
    if (!axis || mesh.isTime(*axis) || from[*axis].isFull())
      continue;
    SmallVector<double> pieces;
    if (number < wait->pieces.size())
      for (const PlannedPiece &piece : wait->pieces[number++])
        llvm::append_values(pieces, double(piece.stage), double(piece.strand),
                            piece.end);
    op->setAttr(kWaitsAttrName,
                DenseF64ArrayAttr::get(op.getContext(), pieces));
  }
}

/// Makes `source`, which is `value` or was made of it, into `forms` on the way
/// that the plan names; behind `source` if it is `early`.
Value ApplySignaturesPass::build(Value value, Value source, const Forms &forms,
                                 StringRef pass, const Reader &reader,
                                 bool early) {
  const PlannedCopy *copy = copies.find(value, forms, reader.pass);
  SmallVector<Forms> path{forms};
  if (copy && copy->path.front() == getForms(source.getType(), mesh))
    path.assign(copy->path.begin() + 1, copy->path.end());
  OpBuilder builder(reader.op);
  if (early)
    builder.setInsertionPointAfter(source.getDefiningOp());
  Location loc = (early ? value.getDefiningOp() : reader.op)->getLoc();
  SmallVector<ReformOp> chain;
  for (const Forms &next : path) {
    auto type = withForms(cast<RankedTensorType>(value.getType()), mesh, next);
    auto reform = ReformOp::create(builder, loc, type, source);
    if (!pass.empty())
      reform->setAttr(NNDialect::kPassAttrName, builder.getStringAttr(pass));
    if (reader.stage)
      setPlannedStage(reform, *reader.stage);
    chain.push_back(reform);
    source = reform;
  }
  if (reader.stage && reader.pass == "update")
    markWaits(chain, copies.findWait(value, forms));
  made[value].push_back({Key(source.getType(), pass), source});
  return source;
}

Value ApplySignaturesPass::reform(Value value, const Forms &forms,
                                  const Reader &reader) {
  if (getForms(value.getType(), mesh) == forms)
    return value;
  Operation *producer = value.getDefiningOp();
  bool early = producer && reader.pass == "update";
  StringRef pass = early ? getPass(producer) : reader.pass;
  if (Value known = findMade(value, forms, pass)) {
    lowerStage(known, reader.stage);
    return known;
  }
  if (Value kept = findKept(value, forms))
    return kept;
  const PlannedCopy *copy = copies.find(value, forms, reader.pass);
  Value source = value;
  if (early && reader.stage)
    source = sumOverTime(value, forms);
  if (getForms(source.getType(), mesh) == forms)
    return source;
  bool isOwn = copy && copy->path.front() == getForms(source.getType(), mesh);
  if (!isOwn && (!early || reader.stage))
    if (Value other = getSource(value, copy, reader); other != value)
      source = other;
  return build(value, source, forms, pass, reader, early);
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

LogicalResult ApplySignaturesPass::applyToArguments(func::FuncOp step) {
  for (BlockArgument argument : step.getArguments()) {
    unsigned index = argument.getArgNumber();
    FailureOr<Forms> forms = getPlannedForm(
        step, "argument " + Twine(index), step.getArgAttr(index, kFormAttrName),
        argument.getType(), mesh);
    if (failed(forms))
      return failure();
    argument.setType(
        withForms(cast<RankedTensorType>(argument.getType()), mesh, *forms));
  }
  editArgAttrs(
      step, [](unsigned, NamedAttrList &attrs) { attrs.erase(kFormAttrName); });
  return success();
}

LogicalResult ApplySignaturesPass::applyToOperator(Operation *op) {
  FailureOr<PlannedForms> planned = parseSignatures(op, mesh);
  if (failed(planned))
    return failure();
  for (auto [index, operand] : llvm::enumerate(op->getOpOperands())) {
    const Forms &forms = planned->operands[index];
    if (failed(checkForms(op, "operand " + Twine(index),
                          operand.get().getType(), mesh, forms)))
      return failure();
    operand.set(
        reform(operand.get(), forms, {op, getPass(op), getPlannedStage(op)}));
  }
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    const Forms &forms = planned->results[index];
    if (failed(checkForms(op, "result " + Twine(index), result.getType(), mesh,
                          forms)))
      return failure();
    result.setType(
        withForms(cast<RankedTensorType>(result.getType()), mesh, forms));
  }
  op->removeAttr(SPMDDialect::kSignatureAttrName);
  return success();
}

LogicalResult ApplySignaturesPass::applyToResults(func::FuncOp step) {
  Operation *ret = step.getBody().front().getTerminator();
  for (OpOperand &operand : ret->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    FailureOr<Forms> forms =
        getPlannedForm(step, "result " + Twine(index),
                       step.getResultAttr(index, kFormAttrName),
                       operand.get().getType(), mesh);
    if (failed(forms))
      return failure();
    std::optional<int64_t> stage;
    if (auto planned =
            step.getResultAttrOfType<IntegerAttr>(index, kStageAttrName))
      stage = planned.getInt();
    operand.set(reform(operand.get(), *forms, {ret, "update", stage}));
    step.removeResultAttr(index,
                          StringAttr::get(step.getContext(), kStageAttrName));
    step.removeResultAttr(index,
                          StringAttr::get(step.getContext(), kFormAttrName));
  }
  step.setType(FunctionType::get(step.getContext(),
                                 step.getBody().getArgumentTypes(),
                                 ret->getOperandTypes()));
  return success();
}

LogicalResult ApplySignaturesPass::runOnStep(func::FuncOp step) {
  made.clear();
  mesh = getMesh(step);
  if (!mesh)
    return step.emitError()
           << "the module has no '" << SPMDDialect::kMeshAttrName
           << "', expected a mesh: run the plan stage first";
  if (failed(copies.read(step, mesh)) || failed(applyToArguments(step)))
    return failure();
  for (Operation &op :
       llvm::make_early_inc_range(step.getBody().front().without_terminator()))
    if (failed(applyToOperator(&op)))
      return failure();
  return applyToResults(step);
}

std::unique_ptr<Pass> tandem::createApplySignaturesPass() {
  return std::make_unique<ApplySignaturesPass>();
}
