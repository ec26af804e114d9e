//===- WriteOrder.cpp - a plan's stages and copies in the IR --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WriteOrder.h"
#include "StepAttrs.h"
#include "tandem/Analysis/PlannedOrder.h"
#include "tandem/Transforms/Plan/Plan.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
class OrderWriter {
public:
  OrderWriter(StepGraph &graph, const PlanRecord &record, StringRef file)
      : graph(graph), record(record), places(graph, file),
        builder(graph.mesh.getContext()) {}
  LogicalResult run();

private:
  /// `parse` reports what cannot be read.
  using Parse =
      FailureOr<CopyText> (PlaceReader::*)(const PlanRecord::Entry &) const;
  LogicalResult writeTexts(ArrayRef<PlanRecord::Entry> entries, Parse parse,
                           StringRef name);
  LogicalResult writeStages();

  StepGraph &graph;
  const PlanRecord &record;
  PlaceReader places;
  Builder builder;
};
} // namespace

/// The texts of `entries`, as one attribute on what makes each value.
LogicalResult OrderWriter::writeTexts(ArrayRef<PlanRecord::Entry> entries,
                                      Parse parse, StringRef name) {
  llvm::MapVector<unsigned, SmallVector<StringRef>> byProducer;
  for (const auto &entry : entries) {
    auto copy = (places.*parse)(entry);
    if (failed(copy))
      return failure();
    const ValueNode &node = graph.values[copy->value];
    unsigned key =
        node.producer < 0 ? node.index : graph.arguments.size() + node.producer;
    byProducer[key].push_back(entry.text);
  }
  unsigned numArguments = graph.arguments.size();
  for (auto &[key, texts] : byProducer)
    if (key >= numArguments)
      graph.ops[key - numArguments].op->setAttr(name,
                                                builder.getStrArrayAttr(texts));
  editArgAttrs(graph.step, [&](unsigned index, NamedAttrList &attrs) {
    if (auto *it = byProducer.find(index); it != byProducer.end())
      attrs.set(name, builder.getStrArrayAttr(it->second));
  });
  return success();
}

/// The order of a problem: arguments, groups, results (ExtractProblem.h).
LogicalResult OrderWriter::writeStages() {
  OperatorGroups groups(graph);
  unsigned numArguments = graph.arguments.size();
  unsigned numGroups = groups.groups.size();
  std::vector<bool> begins(numArguments + numGroups + graph.results.size());
  for (const auto &entry : record.stages) {
    auto place = places.parsePlace(entry);
    if (failed(place))
      return failure();
    unsigned index = place->second;
    if (place->first == "operator") {
      if (groups.groupOf[index] < 0)
        return places.emitError(entry)
               << "no stage can begin with '" << entry.place << "'";
      index = numArguments + groups.groupOf[index];
    } else if (place->first == "result") {
      index += numArguments + numGroups;
    }
    begins[index] = true;
  }
  int64_t stage = 0;
  for (unsigned index = 0; index < numArguments + numGroups; ++index) {
    stage += begins[index];
    if (index < numArguments)
      continue;
    for (unsigned member : groups.groups[index - numArguments].members)
      setPlannedStage(graph.ops[member].op, stage);
  }
  editResultAttrs(graph.step, [&](unsigned index, NamedAttrList &attrs) {
    stage += begins[numArguments + numGroups + index];
    attrs.set(kStageAttrName, builder.getI64IntegerAttr(stage));
  });
  return success();
}

LogicalResult OrderWriter::run() {
  if (failed(
          writeTexts(record.copies, &PlaceReader::parseCopy, kCopiesAttrName)))
    return failure();
  if (record.search.empty())
    return success();
  return success(succeeded(writeTexts(record.waits, &PlaceReader::parseWait,
                                      kPlannedWaitsAttrName)) &&
                 succeeded(writeStages()));
}

LogicalResult tandem::plan::writeOrder(StepGraph &graph,
                                       const PlanRecord &record,
                                       StringRef file) {
  return OrderWriter(graph, record, file).run();
}

void tandem::plan::clearOrder(func::FuncOp step) {
  constexpr StringRef names[] = {kCopiesAttrName, kPlannedWaitsAttrName,
                                 kStageAttrName, kSecondsAttrName};
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
