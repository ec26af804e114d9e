//===- TandemLabels.cpp - exact search, left to right ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemLabels.h"
#include "TandemLabel.h"
#include <algorithm>
#include <unordered_map>

using namespace tandem::cost;
using namespace tandem::search;

namespace {
class LabelSearch {
public:
  LabelSearch(const Facts &facts, ChangeTable &table, const LabelLimits &limits)
      : facts(facts), limits(limits), line(facts.problem),
        beta(Interference(facts.problem).beta), expander(facts, table, line),
        order(facts) {}

  LabelResult run();

private:
  using Front = std::vector<Label>;

  void setRest();
  double getLeast(const Label &label, unsigned op) const;
  bool advance(unsigned op);
  void insert(std::unordered_map<std::string, Front> &fronts, Label label,
              unsigned op);
  Plan makePlan(const Label &label) const;

  const Facts &facts;
  const LabelLimits &limits;
  Line line;
  double beta;
  LabelExpander expander;
  LabelOrder order;
  Front labels;
  /// Seconds that the operators from a position on compute at least.
  std::vector<double> rest;
  LabelResult result;
  uint64_t work = 0;
};
} // namespace

void LabelSearch::setRest() {
  const SearchProblem &problem = facts.problem;
  rest.assign(problem.operators.size() + 1, 0);
  for (unsigned op = problem.operators.size(); op-- > 0;) {
    double least = std::numeric_limits<double>::infinity();
    for (const Signature &signature : problem.getSignatures(op))
      least = std::min(
          least, signature.seconds *
                     static_cast<double>(
                         facts.isPerStrand(signature) ? facts.numStrands : 1));
    rest[op] = rest[op + 1] + (facts.isArgument(op) ? 0 : least);
  }
}

/// What plans with the label, which ends behind operator `op`, cost at least: a
/// slot never costs less than p + beta c, whether what it sends waited or not.
double LabelSearch::getLeast(const Label &label, unsigned op) const {
  const StageWork &work = label.work;
  double strands = static_cast<double>(facts.numStrands), collective = 0;
  for (unsigned q = 0; q < kMaxAxes; ++q)
    collective =
        std::max(collective, work.collectiveOnce[q] +
                                 strands * work.collectivePerStrand[q]);
  return label.line.seconds + label.line.previous + beta * collective +
         strands * work.computationPerStrand + work.computationOnce +
         work.sums +
         beta * (label.line.waiting + label.line.arriving + label.leaving) +
         rest[op + 1];
}

void LabelSearch::insert(std::unordered_map<std::string, Front> &fronts,
                         Label label, unsigned op) {
  if (getLeast(label, op) > limits.upperBound)
    return;
  std::string key = order.getKey(label);
  work += key.size();
  Front &front = fronts[std::move(key)];
  for (const Label &other : front)
    if (order.isNoWorse(other, label))
      return;
  std::erase_if(
      front, [&](const Label &other) { return order.isNoWorse(label, other); });
  front.push_back(std::move(label));
}

/// Decides operator `op` in all labels. False if that is too much.
bool LabelSearch::advance(unsigned op) {
  std::unordered_map<std::string, Front> fronts;
  // A table's order is not the same everywhere: positions of first insertion
  // keep the result reproducible.
  std::vector<std::string> keys;
  for (const Label &label : labels) {
    for (Label &next : expander.expand(label, op)) {
      ++result.numLabels;
      size_t before = fronts.size();
      std::string key = order.getKey(next);
      insert(fronts, std::move(next), op);
      if (fronts.size() > before)
        keys.push_back(std::move(key));
    }
    if (fronts.size() > limits.maxFront || work > limits.maxWork)
      return false;
    if (limits.proceeds && result.numLabels % 64 == 0 &&
        !limits.proceeds(double(op) / facts.problem.operators.size()))
      return false;
  }
  labels.clear();
  for (const std::string &key : keys)
    for (Label &label : fronts[key])
      labels.push_back(std::move(label));
  return labels.size() <= limits.maxFront;
}

Plan LabelSearch::makePlan(const Label &label) const {
  Plan plan;
  unsigned numOperators = facts.problem.operators.size();
  plan.signatures.resize(numOperators);
  plan.stageEnds = {numOperators};
  for (const Decision *at = label.decision.get(); at; at = at->previous.get()) {
    plan.signatures[at->op] = at->signature;
    if (at->cuts)
      plan.stageEnds.push_back(at->op);
    plan.kept.insert(plan.kept.end(), at->kept.begin(), at->kept.end());
    plan.waiting.insert(plan.waiting.end(), at->waiting.begin(),
                        at->waiting.end());
  }
  std::reverse(plan.stageEnds.begin(), plan.stageEnds.end());
  std::sort(plan.kept.begin(), plan.kept.end());
  std::sort(plan.waiting.begin(), plan.waiting.end());
  return plan;
}

LabelResult LabelSearch::run() {
  setRest();
  labels.emplace_back();
  for (unsigned op = 0; op < facts.problem.operators.size(); ++op)
    if (!advance(op))
      return std::move(result);
  result.isComplete = true;
  const Label *best = nullptr;
  for (Label &label : labels) {
    expander.finish(label);
    if (label.getPeak() <= facts.problem.memoryLimit &&
        (!best || label.line.seconds < best->line.seconds))
      best = &label;
  }
  if (best) {
    result.plan = makePlan(*best);
    result.seconds = best->line.seconds;
  }
  return std::move(result);
}

LabelResult tandem::search::searchLabels(const Facts &facts, ChangeTable &table,
                                         const LabelLimits &limits) {
  return LabelSearch(facts, table, limits).run();
}
