//===- ExplainSearch.cpp - other forms, each by a search of its own -------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainForms.h"
#include <numeric>
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
  /// Per group of tied operators, named by its first one.
  std::vector<std::vector<unsigned>> kept;
};

class Searcher : public ChoiceFinder {
public:
  Searcher(PlanFacts &facts, SearchEnd &end) : facts(facts), end(end) {}
  bool find(const FormEntry &entry, Effort effort, MetPlans &plans) override;

private:
  using Layouts = std::vector<std::set<Layout>>;
  std::optional<Restricted> forbid(const FormEntry &entry,
                                   const Layouts &forbidden) const;
  std::optional<Plan> search(const Restricted &restricted) const;
  void addLayouts(const FormEntry &entry, const Plan &plan,
                  Layouts &layouts) const;

  PlanFacts &facts;
  SearchEnd &end;
};
} // namespace

/// Takes the forbidden layouts, one set per tensor of the entry, from the
/// tensors' producers and what is tied to them. Nothing if none is left.
std::optional<Restricted> Searcher::forbid(const FormEntry &entry,
                                           const Layouts &forbidden) const {
  const SearchProblem &problem = facts.problem;
  const std::vector<unsigned> &groupOf = facts.facts.groupOf;
  Restricted result{problem, {}};
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    std::vector<unsigned> &all = result.kept.emplace_back();
    all.resize(problem.getSignatures(op).size());
    std::iota(all.begin(), all.end(), 0);
  }
  for (size_t i = 0; i < entry.tensors.size(); ++i) {
    const TensorFacts &tensor = facts.facts.tensors[entry.tensors[i]];
    const SignatureSet &all = problem.getSignatures(tensor.producer);
    std::vector<unsigned> &kept = result.kept[groupOf[tensor.producer]];
    std::erase_if(kept, [&](unsigned index) {
      return forbidden[i].count(all[index].results[tensor.result]) > 0;
    });
    if (kept.empty())
      return std::nullopt;
  }
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const SignatureSet &all = problem.getSignatures(op);
    const std::vector<unsigned> &kept = result.kept[groupOf[op]];
    if (kept.size() == all.size())
      continue;
    SignatureSet set;
    for (unsigned index : kept)
      set.push_back(all[index]);
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
  for (unsigned op = 0; op < restricted.kept.size(); ++op) {
    unsigned &signature = found.plan->signatures[op];
    signature = restricted.kept[facts.facts.groupOf[op]][signature];
  }
  return found.plan;
}

void Searcher::addLayouts(const FormEntry &entry, const Plan &plan,
                          Layouts &layouts) const {
  for (size_t i = 0; i < entry.tensors.size(); ++i)
    layouts[i].insert(
        facts.facts.getProduced(plan.signatures, entry.tensors[i]));
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
    Choice totals = describePlan(facts, *plan);
    totals.isSearched = !end.isOver();
    plans.add(plan->signatures, totals, entry);
    addLayouts(entry, *plan, forbidden);
  }
  return true;
}

std::unique_ptr<ChoiceFinder> tandem::search::makeSearcher(PlanFacts &facts,
                                                           SearchEnd &end) {
  return std::make_unique<Searcher>(facts, end);
}
