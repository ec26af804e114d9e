//===- Fit.cpp - forms with which given stages are legal ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Stages/Fit.h"
#include "Tandem/Limits.h"
#include "Tandem/Problem/Forms.h"
#include "tandem/Cost/Cost.h"
#include "tandem/Cost/Hidup.h"
#include <algorithm>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::search;

StageFitter::StageFitter(const Facts &facts, ChangeTable &table,
                         const std::vector<unsigned> &stageEnds)
    : facts(facts), problem(facts.problem), table(table),
      isHidup(problem.accounting != Accounting::Tandem),
      linksOf(problem.tensors.size()), linksOfGroup(problem.operators.size()) {
  auto getStage = [&](unsigned op) {
    return std::upper_bound(stageEnds.begin(), stageEnds.end(), op);
  };
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor) {
    const TensorFacts &info = facts.tensors[tensor];
    // HiDup's arguments lie in stages as all operators do.
    bool isThereBefore = !isHidup && facts.isArgument(info.producer);
    for (const TensorUse &use : info.uses) {
      bool isWithin =
          !isThereBefore && getStage(use.op) == getStage(info.producer);
      linksOf[tensor].push_back(links.size());
      for (unsigned op : {info.producer, use.op})
        linksOfGroup[facts.groupOf[op]].push_back(links.size());
      links.push_back(
          {tensor, info.producer, info.result, use.op, use.operand, isWithin});
    }
  }
}

const Layout &StageFitter::getLayout(const Link &link, bool ofProducer,
                                     unsigned signature) const {
  if (ofProducer)
    return problem.getSignatures(link.producer)[signature].results[link.result];
  return problem.getSignatures(link.user)[signature].operands[link.operand];
}

/// Those that the producer, or the user, can still choose.
std::vector<Layout> StageFitter::listLayouts(const Link &link,
                                             bool ofProducer) const {
  std::vector<Layout> layouts;
  unsigned op = ofProducer ? link.producer : link.user;
  const std::vector<bool> &open = isOpen[facts.groupOf[op]];
  for (unsigned signature = 0; signature < open.size(); ++signature)
    if (open[signature])
      layouts.push_back(getLayout(link, ofProducer, signature));
  std::sort(layouts.begin(), layouts.end());
  layouts.erase(std::unique(layouts.begin(), layouts.end()), layouts.end());
  return layouts;
}

bool StageFitter::canRead(const Link &link, const Layout &produced,
                          const Layout &wanted) {
  if (produced == wanted || link.isWithin)
    return produced == wanted;
  if (isHidup)
    return getHidupChange(problem, link.tensor, produced[0], wanted[0])
        .has_value();
  Layout base = facts.getBase(link.user, produced, wanted);
  return table.getCost(link.tensor, base, wanted).isPossible;
}

//===----------------------------------------------------------------------===//
// What is left to choose from
//===----------------------------------------------------------------------===//

void StageFitter::remove(unsigned group, unsigned signature) {
  isOpen[group][signature] = false;
  --numOpen[group];
  removed.push_back({group, signature});
  for (unsigned link : linksOfGroup[group])
    if (!isQueued[link]) {
      isQueued[link] = true;
      queue.push_back(link);
    }
}

/// False if nothing is left.
bool StageFitter::keepOnly(
    const Link &link, bool ofProducer,
    const std::function<bool(const Layout &)> &isPossible) {
  std::vector<Layout> possible = listLayouts(link, ofProducer);
  std::erase_if(possible,
                [&](const Layout &layout) { return !isPossible(layout); });
  unsigned group = facts.groupOf[ofProducer ? link.producer : link.user];
  for (unsigned signature = 0; signature < isOpen[group].size(); ++signature)
    if (isOpen[group][signature] &&
        !std::binary_search(possible.begin(), possible.end(),
                            getLayout(link, ofProducer, signature)))
      remove(group, signature);
  return numOpen[group] > 0;
}

/// What one side can choose has to go with something of the other.
bool StageFitter::narrow(const Link &link) {
  std::vector<Layout> produced = listLayouts(link, true),
                      wanted = listLayouts(link, false);
  return keepOnly(link, true,
                  [&](const Layout &from) {
                    return std::any_of(wanted.begin(), wanted.end(),
                                       [&](const Layout &to) {
                                         return canRead(link, from, to);
                                       });
                  }) &&
         keepOnly(link, false, [&](const Layout &to) {
           return std::any_of(
               produced.begin(), produced.end(),
               [&](const Layout &from) { return canRead(link, from, to); });
         });
}

/// HiDup's tensors have one copy: who is decided to read it, decides for all.
bool StageFitter::narrowCopies(const Link &link) {
  std::vector<Layout> produced = listLayouts(link, true),
                      wanted = listLayouts(link, false);
  if (produced.size() != 1 || wanted.size() != 1 || produced == wanted)
    return true;
  return std::all_of(
      linksOf[link.tensor].begin(), linksOf[link.tensor].end(),
      [&](unsigned other) {
        return keepOnly(links[other], false, [&](const Layout &layout) {
          return layout == produced.front() || layout == wanted.front();
        });
      });
}

bool StageFitter::propagate() {
  bool isLegal = true;
  while (!queue.empty()) {
    unsigned link = queue.back();
    queue.pop_back();
    isQueued[link] = false;
    isLegal = isLegal && narrow(links[link]) &&
              (!isHidup || narrowCopies(links[link]));
  }
  return isLegal;
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

bool StageFitter::decide(unsigned group, unsigned signature) {
  decisions.push_back({group, signature, removed.size()});
  for (unsigned other = 0; other < isOpen[group].size(); ++other)
    if (other != signature && isOpen[group][other])
      remove(group, other);
  return propagate();
}

/// Takes decisions back until without the last of them there is a choice; false
/// if there is none.
bool StageFitter::retract() {
  while (!decisions.empty()) {
    Decision last = decisions.back();
    decisions.pop_back();
    for (; removed.size() > last.numRemoved; removed.pop_back()) {
      auto [group, signature] = removed.back();
      isOpen[group][signature] = true;
      ++numOpen[group];
    }
    remove(last.group, last.signature);
    if (numOpen[last.group] > 0 && propagate())
      return true;
  }
  return false;
}

void StageFitter::reset() {
  isOpen.clear();
  numOpen.clear();
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    numOpen.push_back(problem.getSignatures(op).size());
    isOpen.emplace_back(numOpen.back(), true);
  }
  removed.clear();
  decisions.clear();
  queue.resize(links.size());
  std::iota(queue.rbegin(), queue.rend(), 0);
  isQueued.assign(links.size(), true);
}

unsigned StageFitter::choose(unsigned group, const Dislike &dislike) const {
  const std::vector<bool> &open = isOpen[group];
  unsigned best = std::find(open.begin(), open.end(), true) - open.begin();
  for (unsigned i = best + 1; i < open.size(); ++i)
    if (open[i] && dislike(group, i) < dislike(group, best))
      best = i;
  return best;
}

std::optional<std::vector<unsigned>> StageFitter::fit(const Dislike &dislike) {
  reset();
  if (!propagate())
    return std::nullopt;
  unsigned numRetracted = 0, numOperators = problem.operators.size();
  for (unsigned op = 0; op < numOperators;) {
    unsigned group = facts.groupOf[op];
    if (numOpen[group] == 1 || decide(group, choose(group, dislike))) {
      ++op;
      continue;
    }
    if (++numRetracted > kMaxRetracted || !retract())
      return std::nullopt;
    op = 0;
  }
  std::vector<unsigned> signatures;
  for (unsigned op = 0; op < numOperators; ++op)
    signatures.push_back(choose(facts.groupOf[op], dislike));
  return signatures;
}

std::optional<Plan>
tandem::search::fitToStages(const SearchProblem &problem, const Plan &model,
                            const std::vector<unsigned> &stageEnds) {
  Facts facts(problem);
  ChangeTable table(problem);
  StageFitter fitter(facts, table, stageEnds);
  FixedForms forms(facts, table);
  std::optional<Plan> best;
  auto offer = [&](Plan plan) {
    std::string error;
    if (derive(problem, plan, error) && (!best || plan.cost < best->cost))
      best = std::move(plan);
  };
  auto tryFor = [&](const StageFitter::Dislike &dislike) {
    std::optional<std::vector<unsigned>> signatures = fitter.fit(dislike);
    if (!signatures)
      return;
    Plan plan;
    plan.signatures = std::move(*signatures);
    plan.stageEnds = stageEnds;
    offer(plan);
    if (problem.accounting == Accounting::Tandem &&
        forms.choose(plan, /*waits=*/true))
      offer(plan);
  };
  tryFor([&](unsigned op, unsigned signature) {
    return signature == model.signatures[op]
               ? -1
               : problem.getSignatures(op)[signature].seconds;
  });
  // What holds less, if that does not fit.
  if (!best)
    tryFor([&](unsigned op, unsigned signature) {
      const Operator &info = problem.operators[op];
      double bytes = 0;
      for (unsigned i = 0; i < info.results.size(); ++i)
        bytes += static_cast<double>(problem.getBytes(
            info.results[i], problem.getSignatures(op)[signature].results[i]));
      return bytes;
    });
  return best;
}
