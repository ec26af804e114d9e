//===- ExplainForms.h - entries of tensors, and other forms for them *- C++
//-*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPLAIN_EXPLAINFORMS_H
#define TANDEM_LIB_EXPLAIN_EXPLAINFORMS_H

#include "ExplainTime.h"
#include "tandem/Search/SearchEnd.h"

namespace tandem::explain {

/// All tensors, repeated layers as one, the largest (all its tensors on a
/// device) first; without choices and reasons.
std::vector<FormEntry> getForms(PlanFacts &facts);

/// The plans that were met while other forms were asked for. A plan that one
/// entry asked for may be the best answer to another's question.
class MetPlans {
public:
  explicit MetPlans(const PlanFacts &facts) : facts(facts) {}

  /// `totals`: from `describePlan`; those of a plan that is not legal are left
  /// out.
  void add(const std::vector<unsigned> &signatures, const Choice &totals,
           const FormEntry &asked);
  /// Up to two, by rising cost, those that fit first: the cheapest plan that
  /// gives no tensor of the entry its form, and the cheapest one that gives
  /// them neither that of the first. Where nothing fits second, or only slower
  /// plans, one that is faster but too large stands second.
  std::vector<Choice> pick(const FormEntry &entry) const;

private:
  struct Met {
    std::vector<unsigned> signatures;
    Choice totals;
    /// It counts for this entry even if not all its tensors changed.
    const FormEntry *asked;
  };
  struct Candidate {
    std::vector<cost::Layout> layouts;
    Choice choice;
    bool isAsked;
    bool differsFrom(const Candidate &other) const;
  };
  std::vector<Candidate> getCandidates(const FormEntry &entry) const;

  const PlanFacts &facts;
  std::vector<Met> all;
};

/// How much work an entry is worth: of an estimate, new stages for many forms,
/// or the plan's own stages for the two that the relaxed cost likes best.
enum class Effort { Brief, Full };

/// Finds plans with other forms for an entry. False if that had to end before
/// anything was looked at.
using ChoiceFinder =
    std::function<bool(const FormEntry &entry, Effort effort, MetPlans &plans)>;
/// By a search of its own for each, whatever the effort. Searches are cut short
/// at the end: what they lead to is an estimate.
bool searchChoices(PlanFacts &facts, search::SearchEnd &end,
                   const FormEntry &entry, MetPlans &plans);
/// By local estimates, for the accounting `tandem`. Behind the end they are
/// brief, and go on for as long as a fixed amount of work lasts.
ChoiceFinder makeEstimator(PlanFacts &facts, search::SearchEnd &end);

/// What the plan costs, without the forms of an entry; `seconds` is 0 if it is
/// not legal.
Choice describePlan(PlanFacts &facts, const cost::Plan &plan);

/// Adds the peak of memory and what is held there (ExplainMemory.cpp). False,
/// with `error`, if the plan is not legal.
bool addMemory(PlanFacts &facts, const ExplainOptions &options,
               Explanation &result, std::string &error);

/// The better choice has the smaller rank: what fits, then what is faster.
inline std::pair<bool, double> getRank(const Choice &choice) {
  return {!choice.fits, choice.seconds};
}

/// One sentence on why the plan has this form, from the choices; empty if there
/// are none.
std::string getReason(const PlanFacts &facts, const FormEntry &entry);

} // namespace tandem::explain

#endif // TANDEM_LIB_EXPLAIN_EXPLAINFORMS_H
