//===- StartPlans.h - start plans of a search -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_STARTPLANS_H
#define TANDEM_LIB_TRANSFORMS_PLAN_STARTPLANS_H

#include "ExtractProblem.h"
#include "SearchPlan.h"
#include "tandem/Search/Search.h"

namespace tandem::plan {

/// Gives `planned` the forms and signatures of another graph of its step, with
/// fewer operators: without the offer to make values again, or what regions
/// make again. What only `planned` has is as its readers want it.
void takeSignatures(StepGraph &planned, const StepGraph &without);

/// Adds the plan of the file that `options` name as a start, if they name one;
/// fails with an error at the step if it is for another step or mesh. A start
/// for another mesh is left out where the mesh `isOneOfMany`.
mlir::LogicalResult addStart(const StepGraph &graph,
                             const Extraction &extraction,
                             const PlanOptions &options, bool isOneOfMany,
                             std::vector<cost::Plan> &starts);

/// The plan of a preset's signatures for its cost, stages as few or as many as
/// can be. Searches finish sums before terms that are whole join them, so that
/// this is done here, too. Nothing, and a line in `error`, if it is not legal.
std::optional<cost::Plan> completePreset(const cost::SearchProblem &problem,
                                         cost::Plan plan, std::string &error);

/// What the step of a preset costs, and holds: with the sums that its passes
/// share, and with gathers ahead, as the schedule has stages of its own.
std::optional<cost::Plan> pricePreset(const cost::SearchProblem &problem,
                                      cost::Plan plan, std::string &error);

/// Copies of the forward pass that the backward pass wants, too, and that
/// `isShared` (tensor, as it is made, as it is wanted) asks for. Sorted.
std::vector<cost::Copy>
findSharedCopies(const cost::SearchProblem &problem, const cost::Plan &plan,
                 llvm::function_ref<bool(unsigned, const cost::Layout &,
                                         const cost::Layout &)>
                     isShared);

/// Keeps the copies of the forward pass that end sums of ranks, and that the
/// backward pass wants, too: the plan of a preset shares them.
void keepSharedSums(const cost::SearchProblem &problem, cost::Plan &plan);

/// What the presets decide, where they can be had.
std::vector<cost::Plan> findPresetPlans(const StepGraph &graph,
                                        const Extraction &extraction,
                                        bool isInOneStrand = false);

/// The problem in which each operator has its signature of `plan`, and chooses
/// between sources only; what is made again may have any. `origins` gets, per
/// operator, the numbers of its signatures in `extraction`'s problem.
cost::SearchProblem fixForms(const Extraction &extraction,
                             const cost::Plan &plan,
                             std::vector<std::vector<unsigned>> &origins);

/// `plan` in the problem of its own forms, with its stages, which are followed.
std::optional<cost::Plan>
toFixedForms(const cost::SearchProblem &fixed, cost::Plan plan,
             llvm::ArrayRef<std::vector<unsigned>> origins);

/// The problem without the clones that may be left out, if all that they make
/// may be saved; `origins` as above.
std::optional<cost::SearchProblem>
saveAll(const cost::SearchProblem &problem,
        std::vector<std::vector<unsigned>> &origins);

/// The cheapest of the presets that fit in memory.
search::SearchResult takeCheapest(const cost::SearchProblem &problem,
                                  std::vector<cost::Plan> presets);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_STARTPLANS_H
