//===- StartPlans.cpp - start plans of a search ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StartPlans.h"
#include "ExplainMemory.h"
#include "GroupSignatures.h"
#include "Presets.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Search/Natural.h"
#include "llvm/ADT/Sequence.h"
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

/// Makes the result in the form that the first reader wants.
static void followReader(const StepGraph &graph, OpNode &op) {
  auto isTaken = [&](const Use &use) {
    return use.op < graph.ops.size() && !graph.isLeftOut(use);
  };
  const auto &uses = graph.values[op.results[0]].uses;
  auto use = llvm::find_if(uses, isTaken);
  if (use == uses.end())
    return;
  spmd::Forms wanted = graph.getWanted(*use);
  for (unsigned axis = 0; axis < wanted.size(); ++axis)
    for (const spmd::Signature &signature :
         op.rule.enumerate(graph.mesh.getSize(axis)))
      if (signature.results[0] == wanted[axis])
        op.signatures[axis] = signature;
}

void tandem::plan::takeSignatures(StepGraph &planned,
                                  const StepGraph &without) {
  for (auto [node, found] : llvm::zip(planned.arguments, without.arguments))
    node.forms = found.forms;
  for (OpNode &op : llvm::reverse(planned.ops))
    if (std::optional<unsigned> found = without.findOperator(op.id))
      op.signatures = without.ops[*found].signatures;
    else if (!op.isLeftOut)
      followReader(planned, op);
}

LogicalResult tandem::plan::addStart(const StepGraph &graph,
                                     const Extraction &extraction,
                                     const PlanOptions &options,
                                     bool isOneOfMany,
                                     std::vector<cost::Plan> &starts) {
  const std::string &path = options.start, &search = options.search;
  if (path.empty())
    return success();
  if (search != "tandem" && search != "ilp")
    return emitError(graph.getLoc())
           << "start '" << path << "' with "
           << (search.empty() ? "no search" : "the search '" + search + "'")
           << ", expected tandem or ilp, which begin with plans";
  std::optional<StepGraph> without =
      findOtherStep(graph, options.exchange, path);
  if (without && !graph.hasChoices())
    return emitOtherStep(graph, options.exchange, path);
  FailureOr<PlanFile> file = readPlanFile(without ? *without : graph, path);
  if (failed(file))
    return failure();
  if (file->mesh != getMeshText(graph.mesh) ||
      file->micro != graph.mesh.getNumStrands()) {
    if (isOneOfMany)
      return success();
    return emitError(graph.getLoc())
           << "plan file '" << path << "' is for the mesh " << file->mesh
           << " with micro=" << file->micro << ", but the mesh is "
           << getMeshText(graph.mesh)
           << " with micro=" << graph.mesh.getNumStrands();
  }
  StepGraph planned = graph.onMesh(graph.mesh);
  if (without)
    without = without->onMesh(graph.mesh);
  if (failed(readPlan(without ? *without : planned, *file)))
    return failure();
  if (without)
    takeSignatures(planned, *without);
  bool isOfSources = planned.getRegionSources() != graph.getRegionSources();
  if (isOfSources) {
    StepGraph read = std::exchange(planned, graph.onMesh(graph.mesh));
    takeSignatures(planned, read);
  }
  // Of other pins, or operators, whose stages are not those of this problem.
  if (without || isOfSources ||
      planned.getGroups().groupOf != graph.getGroups().groupOf) {
    planned.shareGroups(graph);
    file->decisions = Decisions();
  }
  FailureOr<cost::Plan> start =
      makePlan(planned, extraction, file->decisions, path);
  if (failed(start))
    return failure();
  starts.push_back(std::move(*start));
  return success();
}

/// The signature without sums on axes where an operand is `made` whole.
static unsigned finishSums(const cost::SignatureSet &set, unsigned chosen,
                           ArrayRef<cost::Layout> made) {
  cost::Signature wanted = set[chosen];
  for (unsigned axis = 0; axis < cost::kMaxAxes; ++axis) {
    bool isWhole = llvm::any_of(
        llvm::zip(wanted.operands, made), [&](const auto &operand) {
          return std::get<0>(operand)[axis] == cost::kReduce &&
                 std::get<1>(operand)[axis] == cost::kFull;
        });
    for (auto *layouts : {&wanted.operands, &wanted.results})
      for (cost::Layout &layout : *layouts)
        if (isWhole && layout[axis] == cost::kReduce)
          layout[axis] = cost::kFull;
  }
  auto it = llvm::find_if(set, [&](const cost::Signature &signature) {
    return signature.operands == wanted.operands &&
           signature.results == wanted.results;
  });
  return it == set.end() ? chosen : it - set.begin();
}

/// Whether a change between the layouts ends a sum of ranks.
static bool isSummed(const cost::Layout &made, const cost::Layout &wanted) {
  return llvm::any_of(llvm::seq(cost::kMaxAxes), [&](unsigned axis) {
    return made[axis] == cost::kReduce && wanted[axis] != cost::kReduce;
  });
}

std::vector<cost::Copy> tandem::plan::findSharedCopies(
    const cost::SearchProblem &problem, const cost::Plan &plan,
    llvm::function_ref<bool(unsigned, const cost::Layout &,
                            const cost::Layout &)>
        isShared) {
  std::vector<cost::Layout> made(problem.tensors.size());
  std::set<cost::Copy> forward, shared;
  for (auto [index, op] : llvm::enumerate(problem.operators)) {
    const cost::Signature &forms =
        problem.getSignatures(index)[plan.signatures[index]];
    for (auto [tensor, layout] : llvm::zip(op.operands, forms.operands)) {
      cost::Copy copy{tensor, layout, cost::Pass::Forward};
      if (op.pass == cost::Pass::Forward && !layout.isAbsent() &&
          made[tensor] != layout && isShared(tensor, made[tensor], layout))
        forward.insert(copy);
      if (op.pass == cost::Pass::Backward && forward.contains(copy))
        shared.insert(copy);
    }
    for (auto [tensor, layout] : llvm::zip(op.results, forms.results))
      made[tensor] = layout;
  }
  return {shared.begin(), shared.end()};
}

void tandem::plan::keepSharedSums(const cost::SearchProblem &problem,
                                  cost::Plan &plan) {
  std::vector<cost::Copy> kept = std::move(plan.kept);
  llvm::append_range(kept,
                     findSharedCopies(problem, plan,
                                      [](unsigned, const cost::Layout &made,
                                         const cost::Layout &wanted) {
                                        return isSummed(made, wanted);
                                      }));
  llvm::sort(kept);
  kept.erase(llvm::unique(kept), kept.end());
  plan.kept = std::move(kept);
}

std::optional<cost::Plan>
tandem::plan::completePreset(const cost::SearchProblem &problem,
                             cost::Plan plan, std::string &error) {
  std::vector<cost::Layout> made(problem.tensors.size());
  for (auto [index, op] : llvm::enumerate(problem.operators)) {
    SmallVector<cost::Layout> operands;
    for (unsigned tensor : op.operands)
      operands.push_back(made[tensor]);
    const cost::SignatureSet &set = problem.getSignatures(index);
    unsigned &chosen = plan.signatures[index];
    if (op.pass == cost::Pass::Update)
      chosen = finishSums(set, chosen, operands);
    for (auto [tensor, layout] : llvm::zip(op.results, set[chosen].results))
      made[tensor] = layout;
  }
  return search::completePlan(problem, std::move(plan), error);
}

std::optional<cost::Plan>
tandem::plan::pricePreset(const cost::SearchProblem &problem, cost::Plan plan,
                          std::string &error) {
  keepSharedSums(problem, plan);
  auto priced = completePreset(problem, std::move(plan), error);
  if (!priced)
    return std::nullopt;
  priced->gathersAhead = true;
  cost::ChangeTable table(problem);
  priced->peak = cost::cost(problem, *priced, table, error)->peak;
  return priced;
}

cost::SearchProblem
tandem::plan::fixForms(const Extraction &extraction, const cost::Plan &plan,
                       std::vector<std::vector<unsigned>> &origins) {
  cost::SearchProblem problem = extraction.problem;
  problem.signatureSets.clear();
  origins.resize(problem.operators.size());
  for (auto [index, op] : llvm::enumerate(problem.operators)) {
    const cost::SignatureSet &all = extraction.problem.getSignatures(index);
    const auto &choices = extraction.choices[op.signatureSet];
    unsigned chosen = plan.signatures[index];
    bool isOptional = isLeftOut(all.front());
    cost::SignatureSet &set = problem.signatureSets.emplace_back();
    for (unsigned number = 0; number < all.size(); ++number) {
      bool isSame = number == chosen ||
                    (!choices.empty() && choices[number] == choices[chosen]);
      if (!isSame && !isOptional)
        continue;
      set.push_back(all[number]);
      origins[index].push_back(number);
    }
    op.signatureSet = index;
  }
  return problem;
}

std::optional<cost::Plan>
tandem::plan::toFixedForms(const cost::SearchProblem &fixed, cost::Plan plan,
                           ArrayRef<std::vector<unsigned>> origins) {
  for (auto [signature, ofOperator] : llvm::zip(plan.signatures, origins))
    signature = llvm::find(ofOperator, signature) - ofOperator.begin();
  plan.gathersAhead = false;
  std::string error;
  if (!cost::derive(fixed, plan, error, cost::LimitUse::Ignore))
    return std::nullopt;
  return plan;
}

std::optional<cost::SearchProblem>
tandem::plan::saveAll(const cost::SearchProblem &problem,
                      std::vector<std::vector<unsigned>> &origins) {
  cost::SearchProblem saved = problem;
  saved.signatureSets.clear();
  origins.resize(problem.operators.size());
  std::vector<bool> isLeft(problem.tensors.size());
  for (auto [index, op] : llvm::enumerate(saved.operators)) {
    const cost::SignatureSet &all = problem.getSignatures(index);
    bool isOptional = isLeftOut(all.front());
    for (unsigned tensor : op.results)
      isLeft[tensor] = isOptional;
    auto readsSaved = [&](const cost::Signature &signature) {
      return llvm::all_of(llvm::zip(op.operands, signature.operands),
                          [&](auto pair) {
                            auto [tensor, layout] = pair;
                            return !isLeft[tensor] || layout.isAbsent();
                          });
    };
    cost::SignatureSet &set = saved.signatureSets.emplace_back();
    op.signatureSet = index;
    for (unsigned number = 0; number < all.size(); ++number) {
      if (isOptional ? number > 0 : !readsSaved(all[number]))
        continue;
      set.push_back(all[number]);
      origins[index].push_back(number);
    }
    if (set.empty())
      return std::nullopt;
  }
  return saved;
}

std::vector<cost::Plan> tandem::plan::findPresetPlans(
    const StepGraph &graph, const Extraction &extraction, bool isInOneStrand) {
  std::vector<cost::Plan> presets;
  ScopedDiagnosticHandler silent(graph.mesh.getContext(),
                                 [](Diagnostic &) { return success(); });
  for (StringRef name : getPresetNames()) {
    auto plan = planByPreset(graph, extraction, name, isInOneStrand);
    std::string error;
    if (failed(plan))
      continue;
    if (auto start = completePreset(extraction.problem, *plan, error))
      presets.push_back(std::move(*start));
  }
  return presets;
}

search::SearchResult
tandem::plan::takeCheapest(const cost::SearchProblem &problem,
                           std::vector<cost::Plan> presets) {
  search::SearchResult result;
  auto smallest =
      llvm::min_element(presets, [](const cost::Plan &a, const cost::Plan &b) {
        return a.peak < b.peak;
      });
  if (presets.empty())
    result.error = "no preset has a cost";
  result.lacksMemory = !presets.empty() && smallest->peak > problem.memoryLimit;
  if (result.lacksMemory)
    result.error = "no preset fits: the smallest plan that was found " +
                   explainTooLarge(problem, *smallest) +
                   "; use --search tandem for a plan that fits";
  for (cost::Plan &start : presets) {
    ++result.numVisited;
    std::string error;
    if ((!result.plan || start.cost < result.plan->cost) &&
        cost::derive(problem, start, error))
      result.plan = std::move(start);
  }
  return result;
}
