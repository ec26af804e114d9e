//===- HidupPlan.cpp - HiDup's search on a step ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HidupPlan.h"
#include "Presets.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Search/Descent.h"
#include "tandem/Search/Natural.h"

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
/// The forward part of a problem, under `hidup-overlapped`.
struct ForwardProblem {
  cost::SearchProblem problem;
  /// Signatures of the whole problem, split over time as the presets do.
  cost::Plan natural;
  /// Of each operator: that of the whole problem, and for each signature a
  /// signature there.
  std::vector<unsigned> operators;
  std::vector<std::vector<unsigned>> signatures;
};

class ForwardMaker {
public:
  ForwardMaker(const cost::SearchProblem &whole, cost::Plan natural)
      : whole(whole), tensors(whole.tensors.size(), -1) {
    result.natural = std::move(natural);
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
  // Memory does not count here.
  added.viewOf = -1;
  added.isInKernel = false;
  added.heldFrom = -1;
  if (time >= 0)
    added.shape[time] /= whole.axes[kTime].size;
  result.problem.tensors.push_back(std::move(added));
}

void ForwardMaker::addOperator(unsigned index) {
  cost::Operator op = whole.operators[index];
  const cost::SignatureSet &all = whole.getSignatures(index);
  const cost::Signature &inTime = all[result.natural.signatures[index]];
  bool isStored = op.kind == cost::Operator::Kind::Resident;
  cost::SignatureSet projected, set;
  std::vector<unsigned> numbers, chosen;
  for (auto [number, signature] : llvm::enumerate(all))
    if (isSameInTime(signature, inTime)) {
      projected.push_back(project(signature, isStored));
      numbers.push_back(number);
    }
  for (unsigned fastest : findFastest(projected)) {
    set.push_back(projected[fastest]);
    chosen.push_back(numbers[fastest]);
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

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

/// Leaves of each operator of the forward pass and each argument what was
/// found; states are stored as their parameters are.
static void keepForward(const StepGraph &graph, const Extraction &extraction,
                        const ForwardProblem &forward, const cost::Plan &found,
                        search::Descent &descent) {
  const cost::SearchProblem &problem = extraction.problem;
  cost::Plan plan = forward.natural;
  for (auto [index, op] : llvm::enumerate(forward.operators))
    plan.signatures[op] = forward.signatures[index][found.signatures[index]];
  llvm::DenseMap<unsigned, unsigned> stored;
  for (auto [op, part] : llvm::enumerate(extraction.origins)) {
    if (part.kind != Part::Kind::Argument)
      continue;
    int parameter = graph.arguments[part.index].parameter;
    if (auto it = stored.find(parameter); parameter >= 0 && it != stored.end())
      plan.signatures[op] = plan.signatures[it->second];
    stored[part.index] = op;
  }
  for (auto [argument, result] : problem.ties)
    plan.signatures[result] = plan.signatures[argument];
  for (auto [op, node] : llvm::enumerate(problem.operators)) {
    const cost::Signature &fixed =
        problem.getSignatures(op)[plan.signatures[op]];
    if (node.pass == cost::Pass::Forward ||
        node.kind != cost::Operator::Kind::Compute)
      descent.keep(op, [&](const cost::Signature &signature) {
        return &signature == &fixed;
      });
  }
}

FailureOr<cost::Plan> tandem::plan::planByHidup(
    const StepGraph &graph, const Extraction &extraction,
    const search::SearchOptions &options,
    function_ref<LogicalResult(const cost::SearchProblem &)> write) {
  if (graph.mesh.getNumSpaceAxes() != 1 || graph.mesh.getNumStrands() != 2)
    return emitError(graph.getLoc())
           << "search 'hidup' on the mesh " << getMeshText(graph.mesh)
           << ", expected one axis and two microbatches: use the search tandem";
  // It knows no pins.
  auto natural =
      planByPreset(graph.onMesh(graph.mesh), extraction, "replicate");
  if (failed(natural))
    return failure();
  ForwardProblem forward =
      ForwardMaker(extraction.problem, std::move(*natural)).run();
  if (failed(write(forward.problem)))
    return failure();
  // One walk: a step's arguments stand in front, so that nearly every choice of
  // split parameters is undominated, and a proof would take seconds.
  search::SearchOptions oneWalk = options;
  oneWalk.gap = 1;
  search::SearchResult found = search::searchHidup(forward.problem, oneWalk);
  if (!found.plan)
    return emitError(graph.getLoc()) << "no plan: " << found.error;
  search::Descent descent(extraction.problem);
  keepForward(graph, extraction, forward, *found.plan, descent);
  for (unsigned axis : graph.mesh.getLayoutOrder())
    descent.decide({axis, /*isBatchAxis=*/true});
  std::string error;
  auto plan =
      search::completePlan(extraction.problem, descent.getPlan(), error);
  if (!plan || !cost::derive(extraction.problem, *plan, error))
    return emitError(graph.getLoc()) << "no plan: " << error;
  return std::move(*plan);
}
