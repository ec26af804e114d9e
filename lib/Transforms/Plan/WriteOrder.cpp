//===- WriteOrder.cpp - a plan's stages and copies in the IR --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WriteOrder.h"
#include "ReadOrder.h"
#include "StepAttrs.h"
#include "tandem/Analysis/PlannedOrder.h"
#include "tandem/Transforms/Plan/Plan.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

/// The texts of `entries`, as one attribute on what makes each value.
static void writeTexts(StepGraph &graph, ArrayRef<PlanRecord::Entry> entries,
                       ArrayRef<CopyText> copies, StringRef name) {
  Builder builder(graph.mesh.getContext());
  unsigned numArguments = graph.arguments.size();
  llvm::MapVector<unsigned, SmallVector<StringRef>> byProducer;
  for (auto [entry, copy] : llvm::zip(entries, copies)) {
    const ValueNode &node = graph.values[copy.value];
    unsigned key =
        node.producer < 0 ? node.index : numArguments + node.producer;
    byProducer[key].push_back(entry.text);
  }
  for (auto &[key, texts] : byProducer)
    if (key >= numArguments)
      graph.ops[key - numArguments].op->setAttr(name,
                                                builder.getStrArrayAttr(texts));
  editArgAttrs(graph.step, [&](unsigned index, NamedAttrList &attrs) {
    if (auto *it = byProducer.find(index); it != byProducer.end())
      attrs.set(name, builder.getStrArrayAttr(it->second));
  });
}

/// Also of the stages in turn.
static void writeStages(StepGraph &graph, const OperatorGroups &groups,
                        const RecordedOrder &order) {
  for (auto [index, group] : llvm::enumerate(groups.groups))
    for (unsigned member : group.members)
      setPlannedStage(graph.ops[member].op,
                      order.stageOf[order.numArguments + index]);
  Builder builder(graph.mesh.getContext());
  unsigned firstResult = order.numArguments + order.numGroups;
  editResultAttrs(graph.step, [&](unsigned index, NamedAttrList &attrs) {
    attrs.set(kStageAttrName,
              builder.getI64IntegerAttr(order.stageOf[firstResult + index]));
  });
  SmallVector<int64_t> inTurn(order.inTurn.begin(), order.inTurn.end());
  if (!inTurn.empty())
    graph.step->setAttr(kInTurnAttrName, builder.getDenseI64ArrayAttr(inTurn));
}

LogicalResult tandem::plan::writeOrder(StepGraph &graph,
                                       const PlanRecord &record,
                                       StringRef file) {
  OperatorGroups groups(graph);
  auto order = readOrder(graph, groups, record, file);
  if (failed(order))
    return failure();
  writeTexts(graph, record.copies, order->copies, kCopiesAttrName);
  if (record.search.empty())
    return success();
  writeTexts(graph, record.waits, order->waits, kPlannedWaitsAttrName);
  writeStages(graph, groups, *order);
  return success();
}

void tandem::plan::clearOrder(func::FuncOp step) {
  constexpr StringRef names[] = {kCopiesAttrName, kPlannedWaitsAttrName,
                                 kStageAttrName, kSecondsAttrName,
                                 kInTurnAttrName};
  for (StringRef name : names) {
    auto attribute = StringAttr::get(step.getContext(), name);
    auto remove = [&](unsigned, NamedAttrList &attrs) {
      attrs.erase(attribute);
    };
    editArgAttrs(step, remove);
    editResultAttrs(step, remove);
    step.walk([&](Operation *op) { op->removeDiscardableAttr(attribute); });
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

void tandem::plan::writeSeconds(StepGraph &graph, const Extraction &extraction,
                                const cost::Plan &plan) {
  Builder builder(graph.mesh.getContext());
  const cost::SearchProblem &problem = extraction.problem;
  for (auto [index, origin] : llvm::enumerate(extraction.origins)) {
    if (origin.kind != Extraction::Origin::Kind::Group)
      continue;
    unsigned op = findCounted(graph, extraction.groups.groups[origin.index]);
    setPlannedSeconds(
        graph.ops[op].op,
        problem.getSignatures(index)[plan.signatures[index]].seconds);
  }
  graph.step->getParentOfType<ModuleOp>()->setAttr(
      kPricesAttrName, makePrices(problem, plan.cost, builder));
}
