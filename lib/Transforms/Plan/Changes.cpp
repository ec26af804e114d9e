//===- Changes.cpp - the changes of form that a plan implies --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Changes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

StepGraph tandem::plan::readPlannedGraph(ModuleOp module) {
  MeshAttr mesh = getMesh(module);
  StepGraph graph(module.lookupSymbol<func::FuncOp>("step"), mesh);
  for (auto [index, node] : llvm::enumerate(graph.arguments))
    if (FormAttr form = getPlannedArg(graph.step, index).form)
      node.forms = Forms(llvm::map_range(form.getCodes(), &AxisForm::fromCode));
  for (OpNode &op : graph.ops)
    if (Planned planned = getPlanned(op.op); !planned.asWanted)
      for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
        op.signatures[axis] = planned.signatures.getSignature(axis);
  return graph;
}

StringRef tandem::plan::getChangeName(const Change &change) {
  if (change.from.isFull())
    return "slice";
  if (change.from.isReduce())
    return change.to.isFull() ? "all-reduce" : "reduce-scatter";
  return change.to.isFull() ? "all-gather" : "all-to-all";
}

/// Of what a rank holds, all strands together.
static double getHeldBytes(const StepGraph &graph, unsigned value,
                           ArrayRef<AxisForm> forms) {
  double bytes = graph.values[value].bytes;
  for (auto [axis, form] : llvm::enumerate(forms))
    if (form.isGather())
      bytes /= graph.mesh.getSize(axis);
  return bytes;
}

/// Whether a pass before `pass` keeps the value in these forms.
static bool isKept(const StepGraph &graph, unsigned value, PassKind pass,
                   const Forms &forms) {
  const ValueNode &node = graph.values[value];
  Planned planned = node.producer < 0 ? getPlannedArg(graph.step, node.index)
                                      : getPlanned(graph.ops[node.producer].op);
  return llvm::any_of(planned.copies, [&](CopyAttr attribute) {
    Copy copy = attribute.getCopy();
    return attribute.getResult() == node.getResult() && copy.isKept &&
           copy.path.back() == forms &&
           *nn::symbolizePassKind(copy.pass) < pass;
  });
}

/// Time first, since gradients are summed over strands before the collective.
static void addChanges(const StepGraph &graph, unsigned value, const Use &use,
                       SmallVectorImpl<Change> &ofValue) {
  PassKind pass =
      use.op == graph.ops.size() ? PassKind::Update : graph.ops[use.op].pass;
  Forms forms = graph.getForms(value), wanted = graph.getWanted(use);
  if (forms == wanted || isKept(graph, value, pass, wanted))
    return;
  for (unsigned axis : graph.mesh.getLayoutOrder()) {
    AxisForm from = forms[axis], to = wanted[axis];
    if (from == to)
      continue;
    double before = getHeldBytes(graph, value, forms);
    int64_t count = 1;
    for (auto [other, form] : llvm::enumerate(forms))
      if (graph.mesh.isTime(other) && !form.isFull())
        count *= graph.mesh.getSize(other);
    forms[axis] = to;
    double bytes = std::max(before, getHeldBytes(graph, value, forms));
    // Uses of a pass share it, also those that differ on another axis; uses of
    // all passes share a finished sum.
    if (llvm::none_of(ofValue, [&](const Change &change) {
          return change.axis == axis && change.from == from &&
                 change.to == to && change.bytes == bytes &&
                 (change.pass == pass || from.isReduce());
        }))
      ofValue.push_back({value, pass, axis, from, to, use.op, count, bytes});
  }
}

std::vector<Change> tandem::plan::findChanges(const StepGraph &graph) {
  std::vector<Change> changes;
  for (unsigned value = 0; value < graph.values.size(); ++value) {
    SmallVector<Change> ofValue;
    for (const Use &use : graph.values[value].uses)
      addChanges(graph, value, use, ofValue);
    llvm::append_range(changes, ofValue);
  }
  return changes;
}
