//===- ApplySignatures.cpp - forms into types -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlannedCopies.h"
#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_APPLYSIGNATURESPASS
#include "tandem/Transforms/Shard/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using tandem::nn::getPass;
using tandem::nn::PassKind;

namespace {
/// The forms that a plan gives to an operator, on all axes.
struct PlannedForms {
  SmallVector<Forms> operands, results;
};

/// Who wants a value in other forms.
struct Reader {
  Operation *op;
  std::optional<PassKind> pass;
  /// The plan's stage, if it has stages.
  std::optional<int64_t> stage;
  std::optional<int64_t> loop = std::nullopt;
};

class ApplySignaturesPass
    : public tandem::StepPass<
          tandem::impl::ApplySignaturesPassBase<ApplySignaturesPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  LogicalResult applyToArguments(func::FuncOp step);
  LogicalResult applyToOperator(Operation *op);
  LogicalResult applyToResults(func::FuncOp step);
  Value findMade(Value value, const Forms &forms, std::optional<PassKind> pass,
                 std::optional<int64_t> loop) const;
  Value findKept(Value value, const Forms &forms, const Reader &reader) const;
  Value getSource(Value value, const Copy *copy, const Reader &reader);
  Value sumOverTime(Value value, const Forms &forms);
  Value build(Value value, Value source, const Forms &forms,
              std::optional<PassKind> pass, const Reader &reader, bool early);
  void markWaits(ArrayRef<ReformOp> chain, const Wait *wait) const;
  /// `value` in the forms `forms`.
  Value reform(Value value, const Forms &forms, const Reader &reader);
  Operation *getEnd(Operation *producer) const;

  MeshAttr mesh;
  /// Type, pass and loop.
  using Key = std::tuple<Type, std::optional<PassKind>, std::optional<int64_t>>;
  llvm::DenseMap<Value, SmallVector<std::pair<Key, Value>, 1>> made;
  PlannedCopies copies;
  unsigned depth = 0;
  /// The last operator of each loop.
  llvm::DenseMap<int64_t, Operation *> loopEnds;
};
} // namespace

//===----------------------------------------------------------------------===//
// Reading what the plan says
//===----------------------------------------------------------------------===//

/// The forms of the operator's signatures.
static FailureOr<PlannedForms> readSignatures(Operation *op, MeshAttr mesh) {
  SignaturesAttr signatures = getPlanned(op).signatures;
  if (!signatures)
    return op->emitError()
           << "has no signatures in '" << kPlanAttrName
           << "', expected one per axis: run the plan stage first";
  if (signatures.getNumAxes() != mesh.getNumAxes())
    return op->emitError() << "has " << signatures.getNumAxes()
                           << " signatures, expected one per axis of " << mesh;
  PlannedForms planned;
  planned.operands.assign(op->getNumOperands(), Forms(mesh.getNumAxes()));
  planned.results.assign(op->getNumResults(), Forms(mesh.getNumAxes()));
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    Signature signature = signatures.getSignature(axis);
    for (auto [form, forms] : llvm::zip(signature.operands, planned.operands))
      forms[axis] = form;
    for (auto [form, forms] : llvm::zip(signature.results, planned.results))
      forms[axis] = form;
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

/// The forms that `form` names, all `full` without one.
static FailureOr<Forms> getPlannedForms(Operation *op, const Twine &what,
                                        FormAttr form, Type type,
                                        MeshAttr mesh) {
  Forms forms(mesh.getNumAxes());
  if (!form)
    return forms;
  if (form.getMesh() != mesh)
    return op->emitError() << what << " has the form " << form
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

/// What was made of `value` for `pass`, in the loop; null if nothing was.
Value ApplySignaturesPass::findMade(Value value, const Forms &forms,
                                    std::optional<PassKind> pass,
                                    std::optional<int64_t> loop) const {
  auto it = made.find(value);
  if (it != made.end())
    for (auto &[key, reformed] : it->second)
      if (Key(getForms(std::get<0>(key), mesh) == forms ? std::get<0>(key)
                                                        : Type(),
              pass, loop) == key)
        return reformed;
  return {};
}

/// Whether a change to `forms` finishes a sum.
static bool isSummed(Value value, const Forms &forms, MeshAttr mesh) {
  return llvm::any_of(
      llvm::zip(getForms(value.getType(), mesh), forms), [](const auto &axis) {
        return std::get<0>(axis).isReduce() && !std::get<1>(axis).isReduce();
      });
}

/// The copy that an earlier pass made and keeps. Without stages that is each
/// finished sum: it is held instead of its terms.
Value ApplySignaturesPass::findKept(Value value, const Forms &forms,
                                    const Reader &reader) const {
  std::optional<int64_t> loop = reader.loop;
  if (!reader.stage && isSummed(value, forms, mesh))
    for (PassKind pass : {PassKind::Forward, PassKind::Backward})
      if (reader.pass > pass)
        if (Value kept = findMade(value, forms, pass, loop))
          return kept;
  for (const Copy &copy : copies.getCopies(value))
    if (copy.isKept && copy.path.back() == forms)
      if (Value kept =
              findMade(value, forms, nn::symbolizePassKind(copy.pass), loop))
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
  std::optional<PassKind> pass = getPass(producer);
  if (!isSum)
    return value;
  if (Value known = findMade(value, summed, pass, getLoop(producer)))
    return known;
  return build(value, value, summed, pass,
               {producer, pass, getPlannedStage(producer), getLoop(producer)},
               /*early=*/true);
}

/// What the plan makes the copy from: another copy, which may not be there yet
/// as stages do not follow the text, or the value itself.
Value ApplySignaturesPass::getSource(Value value, const Copy *copy,
                                     const Reader &reader) {
  const Forms own = getForms(value.getType(), mesh);
  if (!copy || copy->path.front() == own)
    return value;
  if (Value source =
          findMade(value, copy->path.front(), reader.pass, reader.loop))
    return source;
  if (Value source = findKept(value, copy->path.front(), reader))
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
                                    const Wait *wait) const {
  if (!wait)
    return;
  unsigned number = 0;
  for (ReformOp op : chain) {
    Forms from = getForms(op.getInput().getType(), mesh);
    Forms to = getForms(op.getType(), mesh);
    std::optional<unsigned> axis = getReformedAxis(mesh, from, to);
    if (!axis || mesh.isTime(*axis) || from[*axis].isFull())
      continue;
    ArrayRef<Piece> pieces;
    if (number < wait->pieces.size())
      pieces = wait->pieces[number++];
    editPlanned(op, [&](Planned &planned) {
      planned.pieces = PiecesAttr::get(op.getContext(), pieces);
    });
  }
}

/// What is carried out of a loop is complete behind its last operator.
Operation *ApplySignaturesPass::getEnd(Operation *producer) const {
  return isCarried(producer) ? loopEnds.lookup(*getLoop(producer)) : producer;
}

/// Makes `source`, which is `value` or was made of it, into `forms` on the way
/// that the plan names; behind `source` if it is `early`.
Value ApplySignaturesPass::build(Value value, Value source, const Forms &forms,
                                 std::optional<PassKind> pass,
                                 const Reader &reader, bool early) {
  const Copy *copy = copies.find(value, forms, reader.pass);
  SmallVector<Forms> path{forms};
  if (copy && copy->path.front() == getForms(source.getType(), mesh))
    path.assign(copy->path.begin() + 1, copy->path.end());
  OpBuilder builder(reader.op);
  if (early)
    builder.setInsertionPointAfter(getEnd(source.getDefiningOp()));
  Location loc = (early ? value.getDefiningOp() : reader.op)->getLoc();
  SmallVector<ReformOp> chain;
  for (const Forms &next : path) {
    auto type = withForms(cast<RankedTensorType>(value.getType()), mesh, next);
    auto reform = ReformOp::create(builder, loc, type, source);
    if (pass)
      nn::setPass(reform, *pass);
    if (reader.stage)
      setPlannedStage(reform, *reader.stage);
    if (reader.loop)
      setInteger(reform, kLoopAttrName, *reader.loop);
    chain.push_back(reform);
    source = reform;
  }
  if (reader.stage && reader.pass == PassKind::Update)
    markWaits(chain, copies.findWait(value, forms));
  made[value].push_back({Key(source.getType(), pass, reader.loop), source});
  return source;
}

Value ApplySignaturesPass::reform(Value value, const Forms &forms,
                                  const Reader &reader) {
  if (getForms(value.getType(), mesh) == forms)
    return value;
  Operation *producer = value.getDefiningOp();
  bool early = producer && reader.pass == PassKind::Update;
  std::optional<PassKind> pass = early ? getPass(producer) : reader.pass;
  if (Value known = findMade(value, forms, pass, reader.loop)) {
    lowerStage(known, reader.stage);
    return known;
  }
  if (Value kept = findKept(value, forms, reader))
    return kept;
  const Copy *copy = copies.find(value, forms, reader.pass);
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
    FailureOr<Forms> forms = getPlannedForms(step, "argument " + Twine(index),
                                             getPlannedArg(step, index).form,
                                             argument.getType(), mesh);
    if (failed(forms))
      return failure();
    argument.setType(
        withForms(cast<RankedTensorType>(argument.getType()), mesh, *forms));
  }
  editArgAttrs(
      step, [](unsigned, NamedAttrList &attrs) { attrs.erase(kPlanAttrName); });
  return success();
}

LogicalResult ApplySignaturesPass::applyToOperator(Operation *op) {
  FailureOr<PlannedForms> planned = readSignatures(op, mesh);
  if (failed(planned))
    return failure();
  for (auto [index, operand] : llvm::enumerate(op->getOpOperands())) {
    const Forms &forms = planned->operands[index];
    if (failed(checkForms(op, "operand " + Twine(index),
                          operand.get().getType(), mesh, forms)))
      return failure();
    // What enters a loop is changed in front of it, once for all iterations.
    operand.set(
        reform(operand.get(), forms,
               {op, getPass(op), getPlannedStage(op),
                isa<EnterOp>(op) ? std::optional<int64_t>() : getLoop(op)}));
  }
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    const Forms &forms = planned->results[index];
    if (failed(checkForms(op, "result " + Twine(index), result.getType(), mesh,
                          forms)))
      return failure();
    result.setType(
        withForms(cast<RankedTensorType>(result.getType()), mesh, forms));
  }
  editPlanned(op, [](Planned &planned) {
    planned.signatures = {};
    planned.copies.clear();
    planned.waits.clear();
  });
  return success();
}

LogicalResult ApplySignaturesPass::applyToResults(func::FuncOp step) {
  Operation *ret = step.getBody().front().getTerminator();
  for (OpOperand &operand : ret->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    Planned planned = getPlannedResult(step, index);
    FailureOr<Forms> forms =
        getPlannedForms(step, "result " + Twine(index), planned.form,
                        operand.get().getType(), mesh);
    if (failed(forms))
      return failure();
    operand.set(
        reform(operand.get(), *forms, {ret, PassKind::Update, planned.stage}));
  }
  editResultAttrs(
      step, [](unsigned, NamedAttrList &attrs) { attrs.erase(kPlanAttrName); });
  step.setType(FunctionType::get(step.getContext(),
                                 step.getBody().getArgumentTypes(),
                                 ret->getOperandTypes()));
  return success();
}

LogicalResult ApplySignaturesPass::runOnStep(func::FuncOp step) {
  made.clear();
  loopEnds.clear();
  for (Operation &op : step.getBody().front())
    if (std::optional<int64_t> loop = getLoop(&op))
      loopEnds[*loop] = &op;
  mesh = getMesh(step);
  if (!mesh)
    return step.emitError() << "the module has no '" << kMeshAttrName
                            << "', expected a mesh: run the plan stage first";
  if (failed(copies.read(step, mesh)) || failed(applyToArguments(step)))
    return failure();
  for (Operation &op :
       llvm::make_early_inc_range(step.getBody().front().without_terminator()))
    if (failed(applyToOperator(&op)))
      return failure();
  return applyToResults(step);
}
