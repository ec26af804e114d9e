//===- WriteDecisions.cpp - a plan in the IR ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WriteDecisions.h"
#include "ApplyPlan.h"
#include "tandem/Analysis/PlannedOrder.h"
#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Transforms/Plan/Plan.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Forms and signatures
//===----------------------------------------------------------------------===//

static Attribute getFormAttr(MeshAttr mesh, ArrayRef<AxisForm> forms) {
  if (llvm::all_of(forms, [](AxisForm form) { return form.isFull(); }))
    return {};
  SmallVector<int64_t> codes;
  for (AxisForm form : forms)
    codes.push_back(form.getCode());
  return FormAttr::get(mesh.getContext(), mesh, codes);
}

static void writeForms(const StepGraph &graph) {
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
// Stages and copies
//===----------------------------------------------------------------------===//

/// What was decided of each value, as one attribute on what makes it.
template <typename T>
static void writeTexts(const StepGraph &graph, const std::vector<T> &all,
                       StringRef name) {
  Builder builder(graph.mesh.getContext());
  llvm::MapVector<Operation *, SmallVector<Attribute>> byOperator;
  llvm::MapVector<unsigned, SmallVector<Attribute>> byArgument;
  for (const T &one : all) {
    const ValueNode &node = graph.values[one.value];
    auto &texts = node.producer < 0 ? byArgument[node.index]
                                    : byOperator[graph.ops[node.producer].op];
    texts.push_back(builder.getStringAttr(print(graph, one)));
  }
  for (auto &[op, texts] : byOperator)
    op->setAttr(name, builder.getArrayAttr(texts));
  editArgAttrs(graph.step, [&](unsigned index, NamedAttrList &attrs) {
    if (auto *it = byArgument.find(index); it != byArgument.end())
      attrs.set(name, builder.getArrayAttr(it->second));
  });
}

/// Also of the stages in turn.
static void writeStages(const StepGraph &graph, const Decisions &decisions) {
  StageNumbers stages(graph, decisions.stages);
  for (auto [index, group] : llvm::enumerate(graph.getGroups().groups))
    for (unsigned member : group.members)
      setPlannedStage(graph.ops[member].op, stages.getOfGroup(index));
  Builder builder(graph.mesh.getContext());
  editResultAttrs(graph.step, [&](unsigned index, NamedAttrList &attrs) {
    attrs.set(kStageAttrName, builder.getI64IntegerAttr(
                                  stages.get({Part::Kind::Result, index})));
  });
  SmallVector<int64_t> inTurn;
  for (const StageBegin &stage : decisions.stages)
    if (stage.isInTurn)
      inTurn.push_back(stages.get(stage.part));
  func::FuncOp step = graph.step;
  if (!inTurn.empty())
    step->setAttr(kInTurnAttrName, builder.getDenseI64ArrayAttr(inTurn));
}

void tandem::plan::writeDecisions(const StepGraph &graph,
                                  const Decisions &decisions) {
  func::FuncOp step = graph.step;
  step->getParentOfType<ModuleOp>()->setAttr(SPMDDialect::kMeshAttrName,
                                             graph.mesh);
  writeForms(graph);
  if (decisions.search.empty())
    return;
  writeTexts(graph, decisions.copies, kCopiesAttrName);
  writeTexts(graph, decisions.waits, kPlannedWaitsAttrName);
  writeStages(graph, decisions);
}

void tandem::plan::clearDecisions(ModuleOp module) {
  constexpr StringRef names[] = {SPMDDialect::kMeshAttrName,
                                 kPricesAttrName,
                                 SPMDDialect::kSignatureAttrName,
                                 kFormAttrName,
                                 kCopiesAttrName,
                                 kPlannedWaitsAttrName,
                                 kStageAttrName,
                                 kSecondsAttrName,
                                 kInTurnAttrName};
  for (StringRef name : names) {
    auto attribute = StringAttr::get(module.getContext(), name);
    auto remove = [&](unsigned, NamedAttrList &attrs) {
      attrs.erase(attribute);
    };
    module.walk([&](Operation *op) { op->removeDiscardableAttr(attribute); });
    for (auto function : module.getOps<func::FuncOp>()) {
      editArgAttrs(function, remove);
      editResultAttrs(function, remove);
    }
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

static DictionaryAttr makePrices(const cost::SearchProblem &problem,
                                 double seconds, Builder &builder) {
  NamedAttrList prices;
  prices.set("cost", builder.getF64FloatAttr(seconds));
  prices.set("compute_slowdown",
             builder.getF64FloatAttr(problem.computeSlowdown));
  prices.set("collective_slowdown",
             builder.getF64FloatAttr(problem.collectiveSlowdown));
  NamedAttrList axes;
  for (const cost::Axis &axis : problem.axes) {
    SmallVector<double> rates;
    for (const cost::ChangeRate &rate : axis.rates)
      llvm::append_values(rates, rate.latency, rate.secondsPerByte);
    axes.set(axis.name, builder.getDenseF64ArrayAttr(rates));
  }
  prices.set("axes", axes.getDictionary(builder.getContext()));
  return prices.getDictionary(builder.getContext());
}

void tandem::plan::writeSeconds(const StepGraph &graph,
                                const Extraction &extraction,
                                const cost::Plan &plan) {
  Builder builder(graph.mesh.getContext());
  const cost::SearchProblem &problem = extraction.problem;
  for (auto [index, origin] : llvm::enumerate(extraction.origins)) {
    if (origin.kind != Part::Kind::Group)
      continue;
    unsigned op = findCounted(graph, graph.getGroups().groups[origin.index]);
    setPlannedSeconds(
        graph.ops[op].op,
        problem.getSignatures(index)[plan.signatures[index]].seconds);
  }
  graph.step->getParentOfType<ModuleOp>()->setAttr(
      kPricesAttrName, makePrices(problem, plan.cost, builder));
}
