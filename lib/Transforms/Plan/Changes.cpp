//===- Changes.cpp - the changes of form that a plan implies --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Changes.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Transforms/Plan/Plan.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

static void readForms(StepGraph &graph) {
  for (auto [index, node] : llvm::enumerate(graph.arguments))
    if (FormAttr form = getPlannedArg(graph.step, index).form)
      for (auto [axis, code] : llvm::enumerate(form.getCodes()))
        node.forms[axis] = AxisForm::fromCode(code);
}

FailureOr<StepGraph> tandem::plan::readPlannedGraph(ModuleOp module) {
  MeshAttr mesh = getMesh(module);
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!mesh || !step)
    return emitError(module.getLoc())
           << "the module has no plan: run the plan stage";
  StepGraph graph(step, mesh);
  readForms(graph);
  for (OpNode &op : graph.ops) {
    Planned planned = getPlanned(op.op);
    if (planned.asWanted)
      continue;
    if (!planned.signatures ||
        planned.signatures.getNumAxes() != mesh.getNumAxes())
      return emitError(op.op->getLoc())
             << op.op->getName() << " has no signatures in '" << kPlanAttrName
             << "': run the plan stage";
    for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
      op.signatures[axis] = planned.signatures.getSignature(axis);
  }
  return graph;
}

StringRef tandem::plan::getChangeName(const Change &change) {
  if (change.from.isFull())
    return "slice";
  if (change.from.isReduce())
    return change.to.isFull() ? "all-reduce" : "reduce-scatter";
  return change.to.isFull() ? "all-gather" : "all-to-all";
}

namespace {
/// The forms in which one pass wants one value.
struct Demand {
  PassKind pass;
  unsigned user;
  Forms forms;
};

class ChangeFinder {
public:
  explicit ChangeFinder(const StepGraph &graph) : graph(graph) {}
  std::vector<Change> run();

private:
  SmallVector<Demand> getDemands(unsigned value) const;
  void addChanges(unsigned value, const Demand &demand);
  double getBytes(unsigned value, ArrayRef<AxisForm> forms) const;
  int64_t countStrands(ArrayRef<AxisForm> forms) const;

  const StepGraph &graph;
  std::vector<Change> changes;
};
} // namespace

SmallVector<Demand> ChangeFinder::getDemands(unsigned value) const {
  SmallVector<Demand> demands;
  for (Use use : graph.values[value].uses) {
    bool isReturn = use.op == graph.ops.size();
    Demand demand{isReturn ? PassKind::Update : graph.ops[use.op].pass, use.op,
                  graph.getWanted(use)};
    auto isSame = [&](const Demand &other) {
      return other.pass == demand.pass && other.forms == demand.forms;
    };
    if (llvm::none_of(demands, isSame))
      demands.push_back(std::move(demand));
  }
  return demands;
}

double ChangeFinder::getBytes(unsigned value, ArrayRef<AxisForm> forms) const {
  auto type = cast<RankedTensorType>(graph.values[value].value.getType());
  double bytes = tandem::getBytes(type);
  for (auto [axis, form] : llvm::enumerate(forms))
    if (form.isGather())
      bytes /= graph.mesh.getSize(axis);
  return bytes;
}

int64_t ChangeFinder::countStrands(ArrayRef<AxisForm> forms) const {
  int64_t count = 1;
  for (auto [axis, form] : llvm::enumerate(forms))
    if (graph.mesh.isTime(axis) && !form.isFull())
      count *= graph.mesh.getSize(axis);
  return count;
}

/// Time first, since gradients are summed over strands before the collective.
void ChangeFinder::addChanges(unsigned value, const Demand &demand) {
  Forms forms = graph.getForms(value);
  for (unsigned axis : graph.mesh.getLayoutOrder()) {
    AxisForm from = forms[axis], to = demand.forms[axis];
    if (from == to)
      continue;
    double before = getBytes(value, forms);
    int64_t count = countStrands(forms);
    forms[axis] = to;
    changes.push_back({value, demand.pass, axis, from, to, demand.user, count,
                       std::max(before, getBytes(value, forms))});
  }
}

std::vector<Change> ChangeFinder::run() {
  for (unsigned value = 0; value < graph.values.size(); ++value) {
    unsigned first = changes.size();
    for (const Demand &demand : getDemands(value))
      addChanges(value, demand);
    // Two demands that differ on another axis may share this one's change.
    auto isRepeated = [&](unsigned index) {
      const Change &change = changes[index];
      for (unsigned i = first; i < index; ++i)
        if (changes[i].axis == change.axis && changes[i].to == change.to &&
            changes[i].pass == change.pass && changes[i].from == change.from &&
            changes[i].bytes == change.bytes)
          return true;
      return false;
    };
    for (unsigned index = changes.size(); index-- > first;)
      if (isRepeated(index))
        changes.erase(changes.begin() + index);
  }
  return changes;
}

std::vector<Change> tandem::plan::findChanges(const StepGraph &graph) {
  return ChangeFinder(graph).run();
}
