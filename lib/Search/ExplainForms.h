//===- ExplainForms.h - entries of tensors, and other forms for them *- C++
//-*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_EXPLAINFORMS_H
#define TANDEM_LIB_SEARCH_EXPLAINFORMS_H

#include "ExplainNames.h"
#include "tandem/Search/Explain.h"
#include <map>
#include <memory>

namespace tandem::search {

/// What an explanation rests on: a legal plan and its cost.
struct PlanFacts {
  const cost::SearchProblem &problem;
  const cost::Plan &plan;
  cost::ChangeTable table;
  cost::CostReport report;
  Names names;
  std::vector<unsigned> producers;
  /// `getExposedByKind` of the plan.
  std::map<std::string, double> exposedByKind;

  /// Nothing, with `error`, if the plan is not legal.
  static std::unique_ptr<PlanFacts> make(const cost::SearchProblem &problem,
                                         const cost::Plan &plan,
                                         std::string &error);

  /// The layout that the producer gives a tensor.
  const cost::Layout &getLayout(unsigned tensor) const;
};

/// The index of `tensor` among the results of its producer.
unsigned getResultIndex(const cost::SearchProblem &problem, unsigned op,
                        unsigned tensor);

/// All tensors, repeated layers as one, the largest (all its tensors on a
/// device) first; without choices and reasons.
std::vector<FormEntry> getForms(PlanFacts &facts);

/// Finds other forms for entries.
class ChoiceFinder {
public:
  virtual ~ChoiceFinder() = default;
  /// Up to two, the better one first.
  virtual std::vector<Choice> find(const FormEntry &entry) = 0;
};
/// By a search of its own for each; by local estimates, for the accounting
/// `tandem`.
std::unique_ptr<ChoiceFinder> makeSearcher(const PlanFacts &facts);
std::unique_ptr<ChoiceFinder> makeEstimator(const PlanFacts &facts);

/// Fills in a choice from the plan that it stands for; empty if it is not
/// legal.
Choice describePlan(const PlanFacts &facts, const cost::Plan &plan,
                    const FormEntry &entry, cost::ChangeTable &table);

/// One sentence on why the plan, of `time`, has this form, from the choices.
std::string getReason(const PlanFacts &facts, const PlanTime &time,
                      const FormEntry &entry);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_EXPLAINFORMS_H
