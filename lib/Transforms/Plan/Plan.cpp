//===- Plan.cpp - the plan stage ------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Transforms/Plan/Plan.h"
#include "AutoMesh.h"
#include "PlanFile.h"
#include "Presets.h"
#include "ReadOrder.h"
#include "SearchPlan.h"
#include "StepAttrs.h"
#include "WriteOrder.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Analysis/PlannedOrder.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

/// `file` is the plan file that names the mesh, if one does.
static FailureOr<MeshAttr> parseMesh(func::FuncOp step, StringRef text,
                                     int64_t micro, StringRef file) {
  std::string place = file.empty() ? "" : "plan file '" + file.str() + "': ";
  auto emitAtPlace = [&]() -> InFlightDiagnostic {
    return emitError(step.getLoc()) << place;
  };
  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  auto add = [&](StringRef name, int64_t size) {
    names.push_back(StringAttr::get(step.getContext(), name));
    sizes.push_back(size);
  };
  for (StringRef part : parts) {
    auto [name, sizeText] = part.split('=');
    int64_t size;
    if (name.trim().empty() || sizeText.trim().getAsInteger(10, size) ||
        size < 1)
      return emitAtPlace()
             << "mesh '" << text
             << "': expected 'axis=size', a size of at least 1, found '"
             << part.trim() << "'";
    add(name.trim(), size);
  }
  // One device is a mesh of one point.
  if (names.empty())
    add("data", 1);
  if (micro < 1)
    return emitAtPlace() << "micro is " << micro << ", expected at least 1";
  if (micro > 1)
    add("micro", micro);
  unsigned numTimeAxes = micro > 1 ? 1 : 0;
  if (failed(MeshAttr::verify(emitAtPlace, names, sizes, numTimeAxes)))
    return failure();
  return MeshAttr::get(step.getContext(), names, sizes, numTimeAxes);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static Attribute getFormAttr(MeshAttr mesh, ArrayRef<AxisForm> forms) {
  if (llvm::all_of(forms, [](AxisForm form) { return form.isFull(); }))
    return {};
  SmallVector<int64_t> codes;
  for (AxisForm form : forms)
    codes.push_back(form.getCode());
  return FormAttr::get(mesh.getContext(), mesh, codes);
}

/// Writes the plan that `graph` holds into the IR.
static void writePlan(const StepGraph &graph) {
  Builder builder(graph.mesh.getContext());
  for (const OpNode &op : graph.ops) {
    SmallVector<std::string> texts;
    for (const Signature &signature : op.signatures)
      texts.push_back(signature.str());
    SmallVector<StringRef> refs(texts.begin(), texts.end());
    op.op->setAttr(SPMDDialect::kSignatureAttrName,
                   builder.getStrArrayAttr(refs));
  }
  auto setForm = [&](NamedAttrList &attrs, const Forms &forms) {
    attrs.erase(kFormAttrName);
    if (Attribute form = getFormAttr(graph.mesh, forms))
      attrs.set(kFormAttrName, form);
  };
  editArgAttrs(graph.step, [&](unsigned index, NamedAttrList &attrs) {
    setForm(attrs, graph.arguments[index].forms);
  });
  editResultAttrs(graph.step, [&](unsigned index, NamedAttrList &attrs) {
    Forms forms;
    for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
      forms.push_back(graph.getResultForm(index, axis));
    setForm(attrs, forms);
  });
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

namespace {
struct PlanPass : PassWrapper<PlanPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanPass)
  PlanPass() = default;
  PlanPass(const PlanPass &other)
      : PassWrapper(other), mesh(other.mesh), preset(other.preset),
        pins(other.pins), planFile(other.planFile), output(other.output),
        micro(other.micro), search(other.search) {}
  explicit PlanPass(const PlanOptions &options)
      : mesh(options.mesh), preset(options.preset), pins(options.pins),
        planFile(options.planFile), output(options.output),
        micro(options.micro),
        search({options.search, options.cluster, options.problemOut,
                options.timeLimit, options.start}) {
    search.usesPresets = !options.noPresets;
    search.recomputes = options.recompute;
    search.costsPlan = options.costsPlan;
    search.questions = {options.report,      options.explains,
                        options.timeLimit,   options.failOnReplicate,
                        options.compareWith, options.endsSearch};
    search.writesSeconds = options.seconds;
    search.endsSearch = options.endsSearch;
  }

  StringRef getArgument() const override { return "tandem-make-plan"; }
  StringRef getDescription() const override {
    return "Chooses the forms of arguments and a signature per operator";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<SPMDDialect>();
  }
  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }

private:
  LogicalResult run();
  LogicalResult findMesh(func::FuncOp step, StringRef hash);
  FailureOr<PlanRecord> plan(StepGraph &graph, StringRef hash);
  FailureOr<PlanRecord> apply(StepGraph &graph, PlanFile &file, StringRef hash);
  LogicalResult compare(StepGraph &graph, const PlanFile &file, StringRef hash);

  std::string mesh, preset, pins, planFile, output;
  int64_t micro = 1;
  SearchSettings search;
};

struct VerifyPlanPass : PassWrapper<VerifyPlanPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyPlanPass)
  StringRef getArgument() const override { return "tandem-verify-plan"; }
  StringRef getDescription() const override {
    return "Checks that each operator's signatures come from its rule";
  }
  void runOnOperation() override;
};
} // namespace

FailureOr<PlanRecord> PlanPass::plan(StepGraph &graph, StringRef hash) {
  if (search.isWanted()) {
    auto record = planBySearch(graph, search, preset, pins, hash);
    if (succeeded(record) && !search.algorithm.empty())
      listUndivided(graph);
    return record;
  }
  if (failed(planByPreset(graph, preset, pins)))
    return failure();
  warnOfUnsplit(graph, preset);
  return PlanRecord();
}

/// Says which lines of a file are not followed, as the plan of the same cluster
/// that was costed has it otherwise.
static LogicalResult reportMoved(const StepGraph &graph, const PlanFile &file,
                                 const RecordedOrder &order,
                                 const PlanRecord &costed) {
  auto moved = findMoved(graph, file.record, order, costed, file.path);
  if (failed(moved))
    return failure();
  if (moved->empty() || file.record.cluster != costed.cluster)
    return success();
  const MovedLine &first = moved->front();
  func::FuncOp step = graph.step;
  auto remark = emitRemark(step.getLoc());
  remark << "plan file '" << file.path << "', line " << first.entry->line
         << ": '" << first.entry->place << "' " << first.costed
         << ", as its cost counts it, and not as the line says";
  if (moved->size() > 1)
    remark << "; nor are " << moved->size() - 1 << " others";
  return success();
}

/// Costs and compares before the plan changes the IR, which the problem is made
/// of. A search's plan that was costed is followed as its prices have it.
FailureOr<PlanRecord> PlanPass::apply(StepGraph &graph, PlanFile &file,
                                      StringRef hash) {
  if (failed(readSignatures(graph, file)))
    return failure();
  auto order = readOrder(graph, OperatorGroups(graph), file.record, file.path);
  if (failed(order))
    return failure();
  PlanRecord record = file.record;
  bool isSearched = !file.record.search.empty();
  bool isOpen = file.record.isUnstaged() || order->lacksPieces;
  if ((isSearched && isOpen) || search.isWanted()) {
    auto again = costAgain(graph, search, file.record, file.path, hash);
    if (failed(again))
      return failure();
    record = *again;
    if (isSearched && failed(reportMoved(graph, file, *order, record)))
      return failure();
    if (isSearched)
      file.record = record;
  }
  if (failed(compare(graph, file, hash)) || failed(applyPlanFile(graph, file)))
    return failure();
  return record;
}

/// Sets the mesh, and the plan that was found on it.
LogicalResult PlanPass::findMesh(func::FuncOp step, StringRef hash) {
  if (mesh != kAutoMesh)
    return success();
  if (search.algorithm.empty())
    search.algorithm = "tandem";
  auto choice = chooseMesh(
      step, [&](StringRef text) { return parseMesh(step, text, micro, ""); },
      search, pins, hash);
  if (failed(choice))
    return failure();
  mesh = choice->mesh;
  search.chosen = std::move(choice->plan);
  search.start.clear();
  return success();
}

/// Compares the plan of a file with that of another one.
LogicalResult PlanPass::compare(StepGraph &graph, const PlanFile &file,
                                StringRef hash) {
  const Questions &questions = search.questions;
  if (questions.compareWith.empty())
    return success();
  auto other = readPlanFile(graph.step, questions.compareWith, hash);
  if (failed(other))
    return failure();
  FailureOr<MeshAttr> axes =
      parseMesh(graph.step, other->mesh, other->micro, other->path);
  if (failed(axes))
    return failure();
  StepGraph otherGraph(graph.step, *axes);
  if (failed(readSignatures(otherGraph, *other)))
    return failure();
  auto text = compareFiles(graph, search, file, otherGraph, *other, hash);
  if (failed(text))
    return failure();
  if (questions.report)
    questions.report->comparison = *text;
  return success();
}

LogicalResult PlanPass::run() {
  ModuleOp module = getOperation();
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step)
    return emitError(module.getLoc())
           << "the module has no function @step, expected a training step";
  clearOrder(step);
  module->removeAttr(kPricesAttrName);
  std::string hash = hashGraph(module);
  std::optional<PlanFile> file;
  if (!planFile.empty()) {
    auto read = readPlanFile(step, planFile, hash);
    if (failed(read))
      return failure();
    file = std::move(*read);
    if (!mesh.empty() && mesh != file->mesh)
      return emitError(step.getLoc())
             << "plan file '" << planFile << "' is for the mesh " << file->mesh
             << " with micro=" << file->micro << ", but mesh=" << mesh;
    if (micro != 1 && micro != file->micro)
      return emitError(step.getLoc())
             << "plan file '" << planFile << "' is for micro=" << file->micro
             << ", but micro=" << micro;
    mesh = file->mesh;
    micro = file->micro;
  }
  if (failed(findMesh(step, hash)))
    return failure();
  FailureOr<MeshAttr> axes = parseMesh(step, mesh, micro, planFile);
  if (failed(axes))
    return failure();
  StepGraph graph(step, *axes);
  if (!search.questions.compareWith.empty() && !file)
    return emitError(step.getLoc())
           << "found one plan to compare, '" << search.questions.compareWith
           << "', expected a plan file beside it";
  FailureOr<PlanRecord> record =
      file ? apply(graph, *file, hash) : plan(graph, hash);
  if (failed(record))
    return failure();
  module->setAttr(SPMDDialect::kMeshAttrName, *axes);
  module->setAttr(kPlanHashAttrName, StringAttr::get(&getContext(), hash));
  writePlan(graph);
  return output.empty() ? success()
                        : writePlanFile(graph, output, hash, *record);
}

static FailureOr<Signature> parseSignature(Operation *op, StringRef text) {
  auto signature = plan::parseSignature(text);
  if (signature && signature->operands.size() == op->getNumOperands() &&
      signature->results.size() == op->getNumResults())
    return *signature;
  return emitError(op->getLoc())
         << op->getName() << " has the signature '" << text << "', expected "
         << op->getNumOperands() << " operands and " << op->getNumResults()
         << " results";
}

static LogicalResult verifyOperator(Operation &op, MeshAttr mesh) {
  auto texts = op.getAttrOfType<ArrayAttr>(SPMDDialect::kSignatureAttrName);
  if (!texts || texts.size() != mesh.getNumAxes())
    return emitError(op.getLoc())
           << op.getName() << " has " << (texts ? texts.size() : 0)
           << " signatures, expected one per axis of " << mesh;
  auto interface = dyn_cast<SignatureOpInterface>(op);
  if (!interface)
    return emitError(op.getLoc())
           << op.getName() << " has no rule, expected an operator of nn";
  Rule rule = interface.getRule();
  for (unsigned axis : mesh.getLayoutOrder()) {
    auto string = dyn_cast<StringAttr>(texts[axis]);
    StringRef text = string ? string.getValue() : "";
    FailureOr<Signature> signature = parseSignature(&op, text);
    if (failed(signature))
      return failure();
    if (succeeded(rule.split(*signature, mesh.getSize(axis))))
      continue;
    return emitError(op.getLoc())
           << op.getName() << " has no signature '" << text << "' on axis '"
           << mesh.getName(axis) << "' of size " << mesh.getSize(axis);
  }
  return success();
}

/// A search puts operators into stages in an order in which they can run.
static LogicalResult verifyStage(Operation &op) {
  std::optional<int64_t> stage = getPlannedStage(&op);
  if (!stage)
    return success();
  for (Value operand : op.getOperands()) {
    Operation *producer = operand.getDefiningOp();
    std::optional<int64_t> made =
        producer ? getPlannedStage(producer) : std::nullopt;
    if (made && *made > *stage)
      return emitError(op.getLoc())
             << op.getName() << " is in stage " << *stage
             << ", but reads what stage " << *made
             << " makes, expected a stage of the plan from there on";
  }
  return success();
}

static LogicalResult verifyForm(func::FuncOp step, Attribute attribute,
                                Type type, MeshAttr mesh, const Twine &what) {
  if (!attribute)
    return success();
  auto form = dyn_cast<FormAttr>(attribute);
  if (!form || form.getMesh() != mesh)
    return emitError(step.getLoc()) << what << " has the form " << attribute
                                    << ", expected one on " << mesh;
  Forms forms;
  for (int64_t code : form.getCodes())
    forms.push_back(AxisForm::fromCode(code));
  std::string reason;
  if (canHaveForms(cast<RankedTensorType>(type), mesh, forms, &reason))
    return success();
  return emitError(step.getLoc()) << what << ": " << reason;
}

static LogicalResult verifyStep(func::FuncOp step, MeshAttr mesh) {
  if (failed(verifyStepBody(step)) || failed(verifyUnscheduled(step)))
    return failure();
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (failed(verifyForm(step, step.getArgAttr(i, kFormAttrName),
                          step.getArgumentTypes()[i], mesh,
                          "argument " + Twine(i))))
      return failure();
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (failed(verifyForm(step, step.getResultAttr(i, kFormAttrName),
                          step.getResultTypes()[i], mesh,
                          "result " + Twine(i))))
      return failure();
  for (Operation &op : step.getBody().front().without_terminator())
    if (failed(verifyOperator(op, mesh)) || failed(verifyStage(op)))
      return failure();
  return success();
}

void VerifyPlanPass::runOnOperation() {
  MeshAttr mesh = getMesh(getOperation());
  auto step = getOperation().lookupSymbol<func::FuncOp>("step");
  if (!mesh || !step) {
    emitError(getOperation().getLoc())
        << "the module has no " << (mesh ? "function @step" : "'spmd.mesh'")
        << ": run the plan stage first";
    return signalPassFailure();
  }
  if (failed(verifyStep(step, mesh)))
    signalPassFailure();
}

std::unique_ptr<Pass> tandem::createPlanPass(const PlanOptions &options) {
  return std::make_unique<PlanPass>(options);
}

std::unique_ptr<Pass> tandem::createVerifyPlanPass() {
  return std::make_unique<VerifyPlanPass>();
}

void tandem::buildPlanPipeline(OpPassManager &manager,
                               const PlanOptions &options) {
  manager.addPass(createPlanPass(options));
  manager.addPass(createVerifyPlanPass());
}

void tandem::registerPlanPasses() {
  registerPass([] { return createVerifyPlanPass(); });
}
