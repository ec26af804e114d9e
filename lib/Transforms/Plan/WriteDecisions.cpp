//===- WriteDecisions.cpp - a plan in the IR ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WriteDecisions.h"
#include "ApplyPlan.h"
#include "AxisRates.h"
#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Dialect/SPMD/Ahead.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Dialect/SPMD/Rates.h"
#include "tandem/Transforms/Plan/Plan.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
/// What is decided of each part of the step, before it is written.
class Writer {
public:
  Writer(const StepGraph &graph, const Decisions &decisions)
      : graph(graph), decisions(decisions), context(graph.mesh.getContext()),
        operators(graph.ops.size()), arguments(graph.arguments.size()),
        results(graph.results.size()) {}
  void run();

private:
  FormAttr getForm(ArrayRef<AxisForm> forms) const;
  Planned &getMaker(unsigned value);
  void addForms();
  void addCopies();
  void addWaits();
  void addStages();
  void write();
  void writeUniform(Operation *op, ArrayRef<AxisForm> forms);
  void writeRegions();

  const StepGraph &graph;
  const Decisions &decisions;
  MLIRContext *context;
  std::vector<Planned> operators, arguments, results;
  Planned function;
};
} // namespace

FormAttr Writer::getForm(ArrayRef<AxisForm> forms) const {
  if (llvm::all_of(forms, [](AxisForm form) { return form.isFull(); }))
    return {};
  SmallVector<int64_t> codes(
      llvm::map_range(forms, [](AxisForm form) { return form.getCode(); }));
  return FormAttr::get(context, graph.mesh, codes);
}

/// Sources are left to `shard`, which makes them as they are wanted.
void Writer::addForms() {
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    operators[index].asWanted = graph.getGroups().groupOf[index] < 0;
    if (!operators[index].asWanted)
      operators[index].signatures = SignaturesAttr::get(context, op.signatures);
  }
  for (auto [index, node] : llvm::enumerate(graph.arguments))
    arguments[index].form = getForm(node.forms);
  for (unsigned index = 0; index < results.size(); ++index)
    results[index].form =
        getForm(graph.getWanted({unsigned(graph.ops.size()), index}));
}

Planned &Writer::getMaker(unsigned value) {
  const ValueNode &node = graph.values[value];
  return node.producer < 0 ? arguments[node.index] : operators[node.producer];
}

void Writer::addCopies() {
  for (const PlannedCopy &copy : decisions.copies)
    getMaker(copy.value)
        .copies.push_back(CopyAttr::get(
            context, graph.values[copy.value].getResult(), copy.getCopy()));
}

void Writer::addWaits() {
  for (const PlannedWait &wait : decisions.waits)
    getMaker(wait.value)
        .waits.push_back(
            WaitAttr::get(context, graph.values[wait.value].getResult(), wait));
}

void Writer::addStages() {
  StageNumbers stages(graph, decisions.stages);
  for (auto [index, group] : llvm::enumerate(graph.getGroups().groups))
    for (unsigned member : group.members)
      operators[member].stage = stages.getOfGroup(index);
  for (unsigned index = 0; index < results.size(); ++index)
    results[index].stage = stages.get({Part::Kind::Result, index});
  for (const StageBegin &stage : decisions.stages)
    if (stage.isInTurn)
      function.inTurn.push_back(stages.get(stage.part));
  SmallVector<int64_t> ahead;
  for (const StageBegin &stage : decisions.stages)
    if (stage.isAhead)
      ahead.push_back(stages.get(stage.part));
  setAhead(func::FuncOp(graph.step), ahead);
}

/// In one form throughout per axis, or `full` where it has no such signature.
void Writer::writeUniform(Operation *op, ArrayRef<AxisForm> forms) {
  SmallVector<Signature> signatures(forms.size());
  Rule rule = cast<SignatureOpInterface>(op).getRule();
  for (unsigned axis : graph.mesh.getLayoutOrder()) {
    auto set = [&](AxisForm form) {
      signatures[axis].operands.assign(op->getNumOperands(), form);
      signatures[axis].results.assign(op->getNumResults(), form);
    };
    set(forms[axis]);
    if (failed(rule.split(signatures[axis], graph.mesh.getSize(axis))))
      set(AxisForm::full());
  }
  Planned planned;
  planned.signatures = SignaturesAttr::get(context, signatures);
  setPlanned(op, planned);
}

/// What is not in the graph: `shard` removes it, and `accumulate` makes loops
/// of choices as well.
void Writer::writeRegions() {
  for (Operation *op : graph.unread)
    writeUniform(op, Forms(graph.mesh.getNumAxes(), AxisForm::full()));
  for (const RegionChoice &choice : graph.regions) {
    nn::EitherOp either = choice.op;
    if (choice.value >= 0)
      writeUniform(either, graph.getForms(choice.value));
    if (choice.source != nn::getSource(either))
      setInteger(either, nn::kSourceAttrName, choice.source);
  }
}

/// The attributes of a function's arguments are one list, set at once.
void Writer::write() {
  func::FuncOp step = graph.step;
  setPlanned(step, function);
  for (auto [op, planned] : llvm::zip(graph.ops, operators)) {
    planned.seconds = getPlanned(op.op).seconds;
    setPlanned(op.op, planned);
    if (op.source > 0)
      setInteger(op.op, nn::kSourceAttrName, op.source);
  }
  writeRegions();
  editArgAttrs(step, [&](unsigned index, NamedAttrList &attributes) {
    setPlanned(attributes, arguments[index], context);
    if (graph.values[index].isOnHost)
      attributes.set(kHostAttrName, UnitAttr::get(context));
  });
  editResultAttrs(step, [&](unsigned index, NamedAttrList &attributes) {
    setPlanned(attributes, results[index], context);
  });
}

void Writer::run() {
  func::FuncOp step = graph.step;
  auto module = step->getParentOfType<ModuleOp>();
  module->setAttr(kMeshAttrName, graph.mesh);
  if (decisions.memoryLimit)
    setInteger(module, kMemoryAttrName, *decisions.memoryLimit);
  addForms();
  addCopies();
  // The schedule of a preset finds stages of its own.
  if (!decisions.search.empty()) {
    addWaits();
    addStages();
  }
  write();
}

void tandem::plan::writeDecisions(const StepGraph &graph,
                                  const Decisions &decisions) {
  Writer(graph, decisions).run();
}

void tandem::plan::clearDecisions(ModuleOp module) {
  module->removeAttr(kMeshAttrName);
  module->removeAttr(kMemoryAttrName);
  module->removeAttr(kRatesAttrName);
  auto name = StringAttr::get(module.getContext(), kPlanAttrName);
  auto remove = [&](unsigned, NamedAttrList &attributes) {
    attributes.erase(name);
    attributes.erase(kHostAttrName);
  };
  module.walk([&](Operation *op) {
    op->removeDiscardableAttr(name);
    op->removeDiscardableAttr(nn::kSourceAttrName);
  });
  for (auto function : module.getOps<func::FuncOp>()) {
    function->removeAttr(kAheadAttrName);
    editArgAttrs(function, remove);
    editResultAttrs(function, remove);
  }
}

//===----------------------------------------------------------------------===//
// Seconds
//===----------------------------------------------------------------------===//

/// A member of `group` that is there once per strand if any is.
static unsigned findCounted(const StepGraph &graph,
                            const OperatorGroup &group) {
  auto isOverTime = [&](unsigned member) {
    for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
      if (graph.mesh.isTime(axis) &&
          llvm::any_of(graph.ops[member].signatures[axis].results,
                       [](AxisForm form) { return !form.isFull(); }))
        return true;
    return false;
  };
  const auto *it = llvm::find_if(group.members, isOverTime);
  return it == group.members.end() ? group.members.front() : *it;
}

static PricesAttr makePrices(const cost::SearchProblem &problem, double seconds,
                             MLIRContext *context) {
  Builder builder(context);
  return PricesAttr::get(context, builder.getF64FloatAttr(seconds),
                         builder.getF64FloatAttr(problem.computeSlowdown),
                         builder.getF64FloatAttr(problem.collectiveSlowdown),
                         makeRates(problem.axes, context));
}

void tandem::plan::writeSeconds(const StepGraph &graph,
                                const Extraction &extraction,
                                const cost::Plan &plan) {
  const cost::SearchProblem &problem = extraction.problem;
  for (auto [index, origin] : llvm::enumerate(extraction.origins)) {
    if (origin.kind != Part::Kind::Group)
      continue;
    unsigned op = findCounted(graph, graph.getGroups().groups[origin.index]);
    editPlanned(graph.ops[op].op, [&, number = index](Planned &planned) {
      planned.seconds =
          problem.getSignatures(number)[plan.signatures[number]].seconds;
    });
  }
  func::FuncOp step = graph.step;
  editPlanned(step->getParentOfType<ModuleOp>(), [&](Planned &planned) {
    planned.prices = makePrices(problem, plan.cost, step.getContext());
  });
}
