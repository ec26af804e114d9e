//===- ApplyPlan.cpp - a search's plan on the step ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApplyPlan.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// From a plan
//===----------------------------------------------------------------------===//

static unsigned countDifferences(ArrayRef<cost::Layout> wanted,
                                 ArrayRef<cost::Layout> found) {
  unsigned count = 0;
  for (auto [first, second] : llvm::zip(wanted, found))
    for (unsigned axis = 0; axis < cost::kMaxAxes; ++axis)
      count += first[axis] != second[axis];
  return count;
}

/// The signature that differs on the fewest axes of the fewest values; results
/// count more, since others depend on them.
static unsigned findNearest(const cost::SignatureSet &set,
                            const cost::Signature &wanted) {
  unsigned nearest = 0, least = -1;
  for (auto [index, signature] : llvm::enumerate(set)) {
    unsigned count = countDifferences(wanted.operands, signature.operands) +
                     2 * countDifferences(wanted.results, signature.results);
    if (count >= least)
      continue;
    nearest = index;
    least = count;
  }
  return nearest;
}

/// Of each value that a choice may take, the saved one.
static llvm::DenseMap<unsigned, unsigned> mapToSaved(const StepGraph &graph) {
  llvm::DenseMap<unsigned, unsigned> saved;
  for (const OpNode &op : graph.ops)
    if (op.isEither())
      for (unsigned source : op.operands)
        saved[source] = op.operands.front();
  return saved;
}

/// The signature of a group that nobody takes: with the forms of what is there,
/// so that a loop holds it, and that `again` can be written into a plan's file
/// by hand.
static unsigned findUntaken(const StepGraph &graph, const OperatorGroup &group,
                            const cost::SignatureSet &set,
                            const llvm::DenseMap<unsigned, unsigned> &saved) {
  cost::Signature wanted;
  auto getLayout = [&](unsigned value) {
    auto it = saved.find(value);
    return toLayout(graph.getForms(it == saved.end() ? value : it->second));
  };
  for (unsigned value : group.inputs)
    wanted.operands.push_back(getLayout(value));
  for (unsigned value : group.outputs)
    if (saved.contains(value))
      wanted.results.push_back(getLayout(value));
    else
      break;
  return findNearest(set, wanted);
}

void tandem::plan::applyPlan(StepGraph &graph, const Extraction &extraction,
                             const cost::Plan &plan) {
  const cost::SearchProblem &problem = extraction.problem;
  unsigned numAxes = graph.mesh.getNumAxes();
  llvm::DenseMap<unsigned, unsigned> saved = mapToSaved(graph);
  for (auto [index, origin] : llvm::enumerate(extraction.origins)) {
    unsigned chosen = plan.signatures[index];
    if (origin.kind == Part::Kind::Argument)
      graph.arguments[origin.index].forms =
          toForms(problem.getSignatures(index)[chosen].results[0], numAxes);
    if (origin.kind != Part::Kind::Group)
      continue;
    const OperatorGroup &group = graph.getGroups().groups[origin.index];
    if (isLeftOut(problem.getSignatures(index)[chosen]))
      chosen = findUntaken(graph, group, problem.getSignatures(index), saved);
    unsigned set = problem.operators[index].signatureSet;
    const auto &choices = extraction.choices[set][chosen];
    const auto &members = group.members;
    for (auto [member, choice] : llvm::zip(members, choices))
      for (unsigned axis = 0; axis < numAxes; ++axis)
        graph.ops[member].signatures[axis] =
            plan::getSignature(graph.ops[member].rule, choice[axis]);
    if (!extraction.sources[set].empty())
      for (auto [member, source] :
           llvm::zip(members, extraction.sources[set][chosen]))
        graph.ops[member].source = source;
  }
  graph.findLeftOut();
}

//===----------------------------------------------------------------------===//
// To a plan
//===----------------------------------------------------------------------===//

/// In which the first member of a group that takes `value` wants it; `absent`
/// if all that read it take something else.
static cost::Layout getWanted(const StepGraph &planned, unsigned group,
                              unsigned value) {
  const std::vector<int> &groupOf = planned.getGroups().groupOf;
  cost::Layout wanted;
  for (const Use &use : planned.values[value].uses) {
    if (use.op == planned.ops.size() || groupOf[use.op] != int(group))
      continue;
    if (!planned.isLeftOut(use))
      return toLayout(planned.getWanted(use));
    wanted = getAbsentLayout(planned);
  }
  return wanted;
}

/// The layouts of a part's operands and results.
static cost::Signature getLayouts(const StepGraph &planned, Part part) {
  cost::Signature found;
  if (part.kind == Part::Kind::Argument)
    found.results = {toLayout(planned.getForms(part.index))};
  if (part.kind == Part::Kind::Result)
    found.operands = {toLayout(
        planned.getWanted({unsigned(planned.ops.size()), part.index}))};
  if (part.kind != Part::Kind::Group)
    return found;
  const OperatorGroup &group = planned.getGroups().groups[part.index];
  for (unsigned value : group.inputs)
    found.operands.push_back(getWanted(planned, part.index, value));
  for (unsigned value : group.outputs)
    found.results.push_back(
        planned.ops[planned.values[value].producer].isLeftOut
            ? getAbsentLayout(planned)
            : toLayout(planned.getForms(value)));
  return found;
}

cost::Plan tandem::plan::convertPlan(const StepGraph &planned,
                                     const Extraction &extraction) {
  const cost::SearchProblem &problem = extraction.problem;
  cost::Plan plan;
  for (auto [op, part] : llvm::enumerate(extraction.origins))
    plan.signatures.push_back(
        findNearest(problem.getSignatures(op), getLayouts(planned, part)));
  for (auto [argument, result] : problem.ties)
    plan.signatures[result] = plan.signatures[argument];
  plan.stageEnds.push_back(problem.operators.size());
  return plan;
}
