//===- ApplySignatures.cpp - forms into types -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"

using namespace mlir;
using namespace tandem::spmd;
using tandem::nn::NNDialect;

static constexpr llvm::StringLiteral kFormAttrName = "spmd.form";
/// On what makes a value: copies that the plan takes from elsewhere than the
/// value itself, or keeps for a later pass. One text for each,
/// `RESULT PASS [kept] FORMS -> FORMS`, with a form per axis.
static constexpr llvm::StringLiteral kCopiesAttrName = "spmd.copies";

namespace {
/// The forms that a plan gives to an operator, on all axes.
struct PlannedForms {
  SmallVector<Forms> operands, results;
};

/// A copy of a value in other forms, as a plan says it.
struct PlannedCopy {
  std::string pass;
  bool isKept = false;
  Forms from, to;
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
  LogicalResult readCopies(Operation *op, Attribute attribute,
                           ValueRange values);
  LogicalResult readAllCopies(func::FuncOp step);
  Value findMade(Value value, const Forms &forms, StringRef pass) const;
  Value findKept(Value value, const Forms &forms) const;
  Value findSource(Value value, const Forms &forms, StringRef pass) const;
  /// `value` in the forms `forms`, for the consumer `op` in `pass`.
  Value reform(Value value, const Forms &forms, Operation *op, StringRef pass);

  MeshAttr mesh;
  using Key = std::pair<Type, StringRef>;
  llvm::DenseMap<Value, SmallVector<std::pair<Key, Value>, 1>> made;
  llvm::DenseMap<Value, SmallVector<PlannedCopy, 1>> copies;
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

/// Reads `RESULT PASS [kept] FORMS -> FORMS`; false if it is something else.
static bool parseCopy(StringRef text, MeshAttr mesh, unsigned &result,
                      PlannedCopy &copy) {
  auto parse = [&](StringRef part, Forms &forms) {
    SmallVector<StringRef> names;
    part.split(names, ',');
    for (StringRef name : names) {
      std::optional<AxisForm> form = parseAxisForm(name);
      if (!form)
        return false;
      forms.push_back(*form);
    }
    return forms.size() == mesh.getNumAxes();
  };
  auto [number, rest] = text.split(' ');
  auto [pass, forms] = rest.split(' ');
  copy.pass = pass.str();
  copy.isKept = forms.consume_front("kept ");
  auto [from, to] = forms.split("->");
  return !number.getAsInteger(10, result) && parse(from, copy.from) &&
         parse(to, copy.to);
}

LogicalResult ApplySignaturesPass::readCopies(Operation *op,
                                              Attribute attribute,
                                              ValueRange values) {
  auto texts = dyn_cast_or_null<ArrayAttr>(attribute);
  if (!attribute)
    return success();
  for (Attribute entry : texts ? texts.getValue() : ArrayRef<Attribute>()) {
    auto text = dyn_cast<StringAttr>(entry);
    unsigned result = 0;
    PlannedCopy copy;
    if (!text || !parseCopy(text.getValue(), mesh, result, copy) ||
        result >= values.size())
      return op->emitError() << "has the copy " << entry
                             << ", expected 'RESULT PASS [kept] FORMS -> "
                                "FORMS' with a form per "
                                "axis of "
                             << mesh;
    copies[values[result]].push_back(std::move(copy));
  }
  return success();
}

LogicalResult ApplySignaturesPass::readAllCopies(func::FuncOp step) {
  for (BlockArgument argument : step.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (failed(readCopies(step, step.getArgAttr(index, kCopiesAttrName),
                          {argument})))
      return failure();
    step.removeArgAttr(index, kCopiesAttrName);
  }
  for (Operation &op : step.getBody().front()) {
    if (failed(readCopies(&op, op.getAttr(kCopiesAttrName), op.getResults())))
      return failure();
    op.removeAttr(kCopiesAttrName);
  }
  return success();
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
  auto it = copies.find(value);
  if (it != copies.end())
    for (const PlannedCopy &copy : it->second)
      if (copy.isKept && copy.to == forms)
        if (Value kept = findMade(value, forms, copy.pass))
          return kept;
  return {};
}

/// What the plan makes the copy from, if it is there already.
Value ApplySignaturesPass::findSource(Value value, const Forms &forms,
                                      StringRef pass) const {
  auto it = copies.find(value);
  if (it != copies.end())
    for (const PlannedCopy &copy : it->second)
      if (copy.to == forms && copy.pass == pass) {
        if (Value source = findMade(value, copy.from, pass))
          return source;
        if (Value source = findKept(value, copy.from))
          return source;
      }
  return value;
}

Value ApplySignaturesPass::reform(Value value, const Forms &forms,
                                  Operation *op, StringRef pass) {
  if (getForms(value.getType(), mesh) == forms)
    return value;
  Operation *producer = value.getDefiningOp();
  bool early = producer && pass == "update";
  if (early)
    pass = getPass(producer);
  auto type = withForms(cast<RankedTensorType>(value.getType()), mesh, forms);
  if (Value known = findMade(value, forms, pass))
    return known;
  if (Value kept = findKept(value, forms))
    return kept;
  Value source = early ? value : findSource(value, forms, pass);
  OpBuilder builder(op);
  if (early)
    builder.setInsertionPointAfter(producer);
  auto reform = ReformOp::create(builder, (early ? producer : op)->getLoc(),
                                 type, source);
  if (!pass.empty())
    reform->setAttr(NNDialect::kPassAttrName, builder.getStringAttr(pass));
  made[value].push_back({Key(type, pass), reform});
  return reform;
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
    step.removeArgAttr(index, kFormAttrName);
  }
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
    operand.set(reform(operand.get(), forms, op, getPass(op)));
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
    operand.set(reform(operand.get(), *forms, ret, "update"));
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
  copies.clear();
  mesh = getMesh(step);
  if (!mesh)
    return step.emitError()
           << "the module has no '" << SPMDDialect::kMeshAttrName
           << "', expected a mesh: run the plan stage first";
  if (failed(readAllCopies(step)) || failed(applyToArguments(step)))
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
