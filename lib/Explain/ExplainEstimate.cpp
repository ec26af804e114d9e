//===- ExplainEstimate.cpp - local estimates of other forms ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainForms.h"
#include "tandem/Search/PlanVariants.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::explain;
using namespace tandem::search;

/// Forms of an entry, the best first, for which stages are chosen anew.
constexpr size_t kMaxRefinedForms = 2;
/// Operators times forms that `cost` is asked about for one entry: of large
/// problems those that the relaxed cost likes best.
constexpr size_t kMaxWork = 60'000, kMinForms = 3;
/// Forms of an entry that is asked about briefly: as many as are shown.
constexpr size_t kBriefForms = 2;
/// Problems of more operators keep their stages: new ones take as long as a
/// search for two dozen entries.
constexpr size_t kMaxDivided = 2000;
/// Numbers that may be looked at behind the end of the search (about 10^9 in a
/// second); and so many are, per operator, for what a plan costs.
constexpr uint64_t kLateWork = 200'000'000, kCostedWork = 400;

namespace {
/// Signatures that give an entry another form.
struct Candidate {
  std::vector<unsigned> signatures;
  Choice totals;
};

/// Asks for variants of the plan; `cost` has the last word.
class Estimator {
public:
  Estimator(PlanFacts &facts, SearchEnd &end)
      : facts(facts), end(end),
        variants(facts.problem, facts.plan, facts.table) {}
  bool find(const FormEntry &entry, Effort effort, MetPlans &plans);

private:
  bool proceeds();
  void addCandidate(const FormEntry &entry, std::vector<unsigned> signatures,
                    std::vector<Candidate> &candidates);
  void refine(const FormEntry &entry, Candidate &candidate, MetPlans &plans);

  PlanFacts &facts;
  SearchEnd &end;
  PlanVariants variants;
  /// Numbers that were looked at for what plans cost; and for all together
  /// before the end.
  uint64_t costWork = 0, workBefore = 0;
};
} // namespace

/// Whether another form may be tried.
bool Estimator::proceeds() {
  uint64_t work = costWork + variants.getWork();
  if (end.proceeds())
    workBefore = work;
  return work - workBefore <= kLateWork;
}

/// New stages and copies, which may cost less, or fit.
void Estimator::refine(const FormEntry &entry, Candidate &candidate,
                       MetPlans &plans) {
  PlanVariants::Divided divided = variants.divide(candidate.signatures);
  if (divided.plan)
    plans.add(divided.plan->signatures, describePlan(facts, *divided.plan),
              entry);
  else
    candidate.totals.peak = std::min(candidate.totals.peak, divided.leastPeak);
}

/// The plan with other signatures, if there is one with its own stages. Where
/// it is too large, copies of the entry's tensors are made again in each pass,
/// if that is enough.
void Estimator::addCandidate(const FormEntry &entry,
                             std::vector<unsigned> signatures,
                             std::vector<Candidate> &candidates) {
  costWork += kCostedWork * facts.problem.operators.size();
  std::optional<Plan> plan = variants.keepStages(signatures);
  if (!plan)
    return;
  Choice totals = describePlan(facts, *plan);
  auto isOfEntry = [&](const Copy &copy) {
    return std::ranges::count(entry.tensors, copy.tensor) > 0;
  };
  if (!totals.fits && std::erase_if(plan->kept, isOfEntry) > 0)
    if (Choice again = describePlan(facts, *plan); again.fits)
      totals = std::move(again);
  candidates.push_back({std::move(signatures), std::move(totals)});
}

bool Estimator::find(const FormEntry &entry, Effort effort, MetPlans &plans) {
  if (!proceeds())
    return false;
  size_t most = kBriefForms;
  if (effort == Effort::Full && !end.isOver())
    most = std::max(kMinForms, kMaxWork / facts.problem.operators.size());
  std::vector<Candidate> candidates;
  for (const Layout &layout : variants.listLayouts(entry.tensors.front())) {
    if (candidates.size() == most || !proceeds())
      break;
    addCandidate(entry, variants.force(entry.tensors, layout), candidates);
  }
  std::ranges::stable_sort(candidates, {}, [](const Candidate &candidate) {
    return getRank(candidate.totals);
  });
  bool isDivided =
      effort == Effort::Full && facts.problem.operators.size() <= kMaxDivided;
  size_t numRefined = isDivided ? kMaxRefinedForms : 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i < numRefined && end.proceeds())
      refine(entry, candidates[i], plans);
    plans.add(candidates[i].signatures, candidates[i].totals, entry);
  }
  return true;
}

ChoiceFinder tandem::explain::makeEstimator(PlanFacts &facts, SearchEnd &end) {
  return [estimator = std::make_shared<Estimator>(facts, end)](
             const FormEntry &entry, Effort effort, MetPlans &plans) {
    return estimator->find(entry, effort, plans);
  };
}
