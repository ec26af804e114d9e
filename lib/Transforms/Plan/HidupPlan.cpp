//===- HidupPlan.cpp - HiDup's search on a step ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HidupPlan.h"
#include "AxisPlanner.h"
#include "Presets.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include <map>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

/// The mesh is one space axis and the time axis behind it.
static constexpr unsigned kSpace = 0, kTime = 1;

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

namespace {
class ForwardMaker {
public:
  ForwardMaker(const Extraction &extraction, const StepGraph &timed)
      : whole(extraction.problem), tensors(whole.tensors.size(), -1) {
    result.natural = convertSignatures(timed, extraction);
  }
  ForwardProblem run();

private:
  bool isSameInTime(const cost::Signature &a, const cost::Signature &b) const;
  cost::Signature project(const cost::Signature &signature,
                          bool isStored) const;
  void addTensor(unsigned tensor, cost::Form time);
  void addOperator(unsigned op);

  const cost::SearchProblem &whole;
  ForwardProblem result;
  std::vector<int> tensors;
};
} // namespace

bool ForwardMaker::isSameInTime(const cost::Signature &a,
                                const cost::Signature &b) const {
  auto isSame = [](const cost::Layout &first, const cost::Layout &second) {
    return first[kTime] == second[kTime];
  };
  return std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(),
                    isSame) &&
         std::equal(a.results.begin(), a.results.end(), b.results.begin(),
                    isSame);
}

/// Without time. What is stored whole is `replicate`.
cost::Signature ForwardMaker::project(const cost::Signature &signature,
                                      bool isStored) const {
  cost::Signature projected = signature;
  for (auto *layouts : {&projected.operands, &projected.results})
    for (cost::Layout &layout : *layouts)
      layout[kTime] = cost::kFull;
  if (isStored && projected.results[0][kSpace] == cost::kFull)
    projected.results[0][kSpace] = cost::kReplicate;
  return projected;
}

/// A tensor as one strand has it.
void ForwardMaker::addTensor(unsigned tensor, cost::Form time) {
  tensors[tensor] = result.problem.tensors.size();
  cost::Tensor added = whole.tensors[tensor];
  if (time >= 0)
    added.shape[time] /= whole.axes[kTime].size;
  result.problem.tensors.push_back(std::move(added));
}

void ForwardMaker::addOperator(unsigned index) {
  cost::Operator op = whole.operators[index];
  const cost::SignatureSet &all = whole.getSignatures(index);
  const cost::Signature &inTime = all[result.natural.signatures[index]];
  bool isStored = op.kind == cost::Operator::Kind::Resident;
  cost::SignatureSet set;
  std::vector<unsigned> chosen;
  std::map<std::pair<std::vector<cost::Layout>, std::vector<cost::Layout>>,
           unsigned>
      known;
  for (auto [number, signature] : llvm::enumerate(all)) {
    if (!isSameInTime(signature, inTime))
      continue;
    cost::Signature projected = project(signature, isStored);
    auto [it, isNew] =
        known.try_emplace({projected.operands, projected.results}, set.size());
    if (!isNew && set[it->second].seconds <= projected.seconds)
      continue;
    set.resize(std::max<size_t>(set.size(), it->second + 1));
    chosen.resize(set.size());
    set[it->second] = std::move(projected);
    chosen[it->second] = number;
  }
  for (unsigned &tensor : op.operands)
    tensor = tensors[tensor];
  for (auto [tensor, layout] : llvm::zip(op.results, inTime.results)) {
    addTensor(tensor, layout[kTime]);
    tensor = tensors[tensor];
  }
  op.signatureSet = result.problem.signatureSets.size();
  result.problem.signatureSets.push_back(std::move(set));
  result.problem.operators.push_back(std::move(op));
  result.operators.push_back(index);
  result.signatures.push_back(std::move(chosen));
}

ForwardProblem ForwardMaker::run() {
  result.problem.accounting = cost::Accounting::HidupOverlapped;
  result.problem.axes.assign(1, whole.axes[kSpace]);
  result.problem.graphHash = whole.graphHash;
  std::vector<unsigned> producers = whole.getProducers();
  for (auto [index, op] : llvm::enumerate(whole.operators)) {
    if (op.pass != cost::Pass::Forward ||
        op.kind != cost::Operator::Kind::Compute)
      continue;
    // As in the paper, an argument stands in front of what reads it first.
    for (unsigned tensor : op.operands)
      if (tensors[tensor] < 0)
        addOperator(producers[tensor]);
    addOperator(index);
  }
  return std::move(result);
}

FailureOr<ForwardProblem>
tandem::plan::makeForwardProblem(const StepGraph &graph,
                                 const Extraction &extraction) {
  if (graph.mesh.getNumSpaceAxes() != 1 || graph.mesh.getNumStrands() != 2)
    return emitError(graph.getLoc())
           << "search 'hidup' on the mesh " << getMeshText(graph.mesh)
           << ", expected one axis and two microbatches: use the search tandem";
  StepGraph timed = graph.onMesh(graph.mesh);
  if (failed(planByPreset(timed, "replicate", "")))
    return failure();
  return ForwardMaker(extraction, timed).run();
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

/// The plan of the whole problem whose forward signatures are those found, and
/// what is not decided natural.
static cost::Plan expandPlan(const ForwardProblem &forward,
                             const cost::Plan &found) {
  cost::Plan plan = forward.natural;
  for (auto [index, op] : llvm::enumerate(forward.operators))
    plan.signatures[op] = forward.signatures[index][found.signatures[index]];
  return plan;
}

/// Plans what is not forward around the forward signatures that `graph` has.
static void planAround(StepGraph &graph, const Extraction &extraction) {
  for (unsigned axis : graph.mesh.getLayoutOrder()) {
    AxisPolicy policy;
    policy.isBatchAxis = true;
    policy.keepStored.assign(graph.arguments.size(), false);
    policy.isFree.assign(graph.arguments.size(), true);
    policy.fixed.resize(graph.ops.size());
    for (auto [index, op] : llvm::enumerate(graph.ops))
      if (op.pass == PassKind::Forward && graph.getGroups().groupOf[index] >= 0)
        policy.fixed[index] = op.signatures[axis];
    if (graph.mesh.getSize(axis) > 1)
      AxisPlanner(graph, axis, policy).run();
    graph.commitAxis(axis);
  }
}

LogicalResult tandem::plan::planByHidup(StepGraph &graph,
                                        const Extraction &extraction,
                                        const ForwardProblem &forward,
                                        const search::SearchOptions &options) {
  // One walk: a step's arguments stand in front, so that nearly every choice of
  // split parameters is undominated, and a proof would take seconds.
  search::SearchOptions oneWalk = options;
  oneWalk.gap = 1;
  search::SearchResult found = search::searchHidup(forward.problem, oneWalk);
  if (!found.plan)
    return emitError(graph.step.getLoc()) << "no plan: " << found.error;
  applyPlan(graph, extraction, expandPlan(forward, *found.plan));
  for (ArgumentNode &node : graph.arguments)
    if (node.role == Role::State && node.parameter >= 0)
      node.forms = graph.arguments[node.parameter].forms;
  planAround(graph, extraction);
  return success();
}
