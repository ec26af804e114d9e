//===- ExplainSearch.cpp - other forms, each by a search of its own -------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Tandem/Problem/Facts.h"
#include "ExplainForms.h"
#include <algorithm>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

/// How often a search may ask whether to go on, before and in its exact part. A
/// limit of work, not of time: the same plan every time.
constexpr unsigned kMaxSteps = 300, kMaxExactSteps = 60;

namespace {
/// A problem with fewer signatures, and which ones they were.
struct Restricted {
  SearchProblem problem;
  /// Per operator; empty where all were kept.
  std::vector<std::vector<unsigned>> kept;
};

class Searcher : public ChoiceFinder {
public:
  Searcher(const PlanFacts &facts, SearchEnd &end)
      : facts(facts), end(end), table(facts.problem), ties(facts.problem) {}
  bool find(const FormEntry &entry, Effort effort, MetPlans &plans) override;

private:
  using Layouts = std::vector<std::set<Layout>>;
  std::optional<Restricted> forbid(const FormEntry &entry,
                                   const Layouts &forbidden) const;
  std::optional<Plan> search(const Restricted &restricted) const;
  void addLayouts(const FormEntry &entry, const Plan &plan,
                  Layouts &layouts) const;

  const PlanFacts &facts;
  SearchEnd &end;
  ChangeTable table;
  Facts ties;
};
} // namespace

/// Takes the forbidden layouts, one set per tensor of the entry, from the
/// tensors' producers and what is tied to them. Nothing if none is left.
std::optional<Restricted> Searcher::forbid(const FormEntry &entry,
                                           const Layouts &forbidden) const {
  const SearchProblem &problem = facts.problem;
  Restricted result{problem, {}};
  result.kept.resize(problem.operators.size());
  for (size_t i = 0; i < entry.tensors.size(); ++i) {
    unsigned tensor = entry.tensors[i], op = facts.producers[tensor];
    unsigned place = getResultIndex(problem, op, tensor);
    const SignatureSet &all = problem.getSignatures(op);
    std::vector<unsigned> kept;
    for (unsigned index = 0; index < all.size(); ++index)
      if (!forbidden[i].count(all[index].results[place]))
        kept.push_back(index);
    if (kept.empty())
      return std::nullopt;
    for (unsigned other = 0; other < problem.operators.size(); ++other) {
      if (ties.groupOf[other] != ties.groupOf[op])
        continue;
      // Two results of one operator may be tensors of the entry.
      std::vector<unsigned> &list = result.kept[other];
      std::vector<unsigned> both;
      if (list.empty())
        both = kept;
      else
        std::set_intersection(list.begin(), list.end(), kept.begin(),
                              kept.end(), std::back_inserter(both));
      if (both.empty())
        return std::nullopt;
      list = std::move(both);
    }
  }
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    if (result.kept[op].empty())
      continue;
    SignatureSet set;
    for (unsigned index : result.kept[op])
      set.push_back(problem.getSignatures(op)[index]);
    result.problem.operators[op].signatureSet =
        result.problem.signatureSets.size();
    result.problem.signatureSets.push_back(std::move(set));
  }
  return result;
}

/// The best plan, in the signatures of the whole problem.
std::optional<Plan> Searcher::search(const Restricted &restricted) const {
  bool isTandem = restricted.problem.accounting == Accounting::Tandem;
  SearchOptions options;
  unsigned steps = 0, exactSteps = 0;
  options.progress = [&](double done, double, double) {
    if (!end.proceeds())
      return false;
    return !isTandem ||
           (done < 0.9 ? ++steps < kMaxSteps : ++exactSteps < kMaxExactSteps);
  };
  SearchResult found =
      (isTandem ? searchTandem : searchHidup)(restricted.problem, options);
  if (!found.plan)
    return std::nullopt;
  for (unsigned op = 0; op < restricted.kept.size(); ++op)
    if (!restricted.kept[op].empty())
      found.plan->signatures[op] =
          restricted.kept[op][found.plan->signatures[op]];
  return found.plan;
}

void Searcher::addLayouts(const FormEntry &entry, const Plan &plan,
                          Layouts &layouts) const {
  for (size_t i = 0; i < entry.tensors.size(); ++i) {
    unsigned tensor = entry.tensors[i], op = facts.producers[tensor];
    layouts[i].insert(facts.problem.getSignatures(op)[plan.signatures[op]]
                          .results[getResultIndex(facts.problem, op, tensor)]);
  }
}

bool Searcher::find(const FormEntry &entry, Effort, MetPlans &plans) {
  if (!end.proceeds())
    return false;
  Layouts forbidden(entry.tensors.size());
  addLayouts(entry, facts.plan, forbidden);
  for (unsigned round = 0; round < 2 && end.proceeds(); ++round) {
    std::optional<Restricted> restricted = forbid(entry, forbidden);
    if (!restricted)
      break;
    std::optional<Plan> plan = search(*restricted);
    if (!plan) {
      // What it would take.
      restricted->problem.memoryLimit = std::numeric_limits<int64_t>::max();
      plan = search(*restricted);
    }
    if (!plan)
      break;
    Choice totals = describePlan(facts, *plan, table);
    totals.isSearched = !end.isOver();
    plans.add(plan->signatures, totals, entry);
    addLayouts(entry, *plan, forbidden);
  }
  return true;
}

std::unique_ptr<ChoiceFinder>
tandem::search::makeSearcher(const PlanFacts &facts, SearchEnd &end) {
  return std::make_unique<Searcher>(facts, end);
}
