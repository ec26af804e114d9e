//===- Stages.cpp - stages for given signatures ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Stages/Stages.h"
#include "Tandem/Limits.h"
#include <algorithm>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

StagePlanner::StagePlanner(const Facts &facts)
    : facts(facts), problem(facts.problem), line(facts.problem),
      waitPrice((1 + Interference(facts.problem).beta) / 2) {
  unsigned numOperators = problem.operators.size();
  firstWork = firstUpdate = numOperators;
  for (unsigned op = numOperators; op-- > 0;) {
    if (facts.isArgument(op))
      continue;
    firstWork = op;
    if (problem.operators[op].pass == Pass::Update)
      firstUpdate = op;
  }
}

void StagePlanner::prepare(const FixedForms &given, const Plan &plan) {
  forms = &given;
  current = &plan;
  nodes.clear();
  countAhead();
  pending.clear();
  lastWanted.resize(problem.operators.size());
  for (unsigned op = 0; op < lastWanted.size(); ++op)
    lastWanted[op] = op;
  lastChoice = lastWanted;
  for (const CopyNeed &need : given.needs)
    for (const CopySource &source : need.sources) {
      if (source.position < 0)
        continue;
      unsigned &last = lastWanted[source.position];
      last = std::max(last, need.op);
      if (need.sources.size() > 1) {
        unsigned &choice = lastChoice[source.position];
        choice = std::max(choice, need.op);
      }
    }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Adds what the operator holds. Its copies are there since the stage's begin,
/// and so is what it makes ahead, with its workspace.
void StagePlanner::hold(Front &front, unsigned op, bool isAhead) const {
  const HeldBytes &bytes = forms->held;
  StageBytes &held = front.held;
  held.copies += bytes.copies[op];
  held.terms += bytes.terms[op];
  int64_t made = bytes.onceMade[op] + bytes.onceCopies[op];
  held.once += made;
  int64_t workspace =
      problem.getSignatures(op)[current->signatures[op]].workspace;
  int64_t share = bytes.alive[op] + held.terms + workspace;
  if (isAhead) {
    held.copies += bytes.made[op];
    held.top += bytes.made[op] + workspace;
    held.topOfAll += bytes.made[op] + bytes.onceMade[op] + workspace;
  }
  held.top = std::max(held.top + bytes.copies[op], share);
  held.topOfAll =
      std::max(held.topOfAll + bytes.copies[op] + bytes.onceCopies[op],
               share + bytes.onceAlive[op] + made);
}

/// What a strand holds before the first operator.
int64_t StagePlanner::getAtBegin(const Front &front) const {
  return forms->held.between[front.begin] + front.held.copies;
}

/// What the stage holds at most, strands besides left out.
int64_t StagePlanner::getMost(const Front &front) const {
  if (!front.work.dependsOnStrand)
    return front.held.topOfAll;
  return front.held.top + forms->held.onceAlive[front.begin] + front.held.once;
}

/// Whether the stage does beside strands that hold so much each.
bool StagePlanner::fits(const Front &front, int64_t besides) const {
  return forms->held.arguments + getMost(front) +
             (facts.numStrands - 1) * besides <=
         limits.memory;
}

/// Whether it does so with strands that are done with it.
bool StagePlanner::canEnd(const Front &front, unsigned end) const {
  if (front.ahead == Ahead::Yes && line.getNumSteps(front.work) > 1)
    return false;
  return limits.memory == kNoLimit ||
         fits(front, forms->held.between[end] + front.held.terms);
}

bool StagePlanner::holdsNoMore(const Front &a, const Front &b) const {
  const std::vector<int64_t> &once = forms->held.onceAlive;
  return a.held.top <= b.held.top && a.held.terms <= b.held.terms &&
         a.held.topOfAll <= b.held.topOfAll &&
         once[a.begin] + a.held.once <= once[b.begin] + b.held.once &&
         (facts.numStrands == 1 || getAtBegin(a) <= getAtBegin(b));
}

//===----------------------------------------------------------------------===//
// Ahead
//===----------------------------------------------------------------------===//

void StagePlanner::countAhead() {
  if (!facts.hasAgain)
    return;
  std::vector<int> changes(problem.operators.size() + 1);
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    if (unsigned from = forms->aheadFrom[op]; from <= op) {
      ++changes[from];
      --changes[op + 1];
    }
  numAhead.clear();
  int count = 0;
  for (int change : changes)
    numAhead.push_back(count += change);
}

/// Where the operator is the first of its stage that may run ahead, both ways.
void StagePlanner::branchAhead(unsigned op) {
  for (size_t i = 0, count = fronts.size(); i < count; ++i) {
    if (fronts[i].ahead != Ahead::Open || !mayBeAhead(fronts[i], op))
      continue;
    fronts[i].ahead = Ahead::No;
    fronts.push_back(fronts[i]);
    fronts.back().ahead = Ahead::Yes;
  }
}

/// Whether the same operators will run ahead. Of stages that begin later it can
/// be no fewer: equal numbers are equal operators.
bool StagePlanner::aheadAgrees(const Front &a, const Front &b) const {
  if (a.ahead != b.ahead)
    return facts.numStrands == 1 && a.numAhead == 0 && b.numAhead == 0;
  return a.ahead == Ahead::No || a.numAhead == b.numAhead;
}

//===----------------------------------------------------------------------===//
// Divisions
//===----------------------------------------------------------------------===//

/// Adds operator `op` to the open stage. False if a cut is missing.
bool StagePlanner::extend(Front &front, unsigned op) const {
  for (unsigned i = forms->firstNeed[op]; i < forms->firstNeed[op + 1]; ++i) {
    const CopyNeed &need = forms->needs[i];
    const ChangeCost *change = need.getChange(front.begin, facts.numStrands);
    if (!change)
      return false;
    if (!need.waits)
      front.work.add(*change);
  }
  front.work.sums += forms->sums[op];
  front.leaving += forms->leaving[op];
  const Signature &signature =
      problem.getSignatures(op)[current->signatures[op]];
  bool mayAhead = mayBeAhead(front, op),
       isAhead = mayAhead && front.ahead == Ahead::Yes;
  front.numAhead -= mayAhead;
  if (isAhead)
    front.work.addAhead(signature, facts.isPerStrand(signature),
                        facts.numStrands);
  else if (!facts.isArgument(op))
    front.work.add(signature, facts.isPerStrand(signature));
  if (limits.memory == kNoLimit)
    return true;
  hold(front, op, isAhead);
  return fits(front, getAtBegin(front));
}

/// Whether copies that are still to be made can be made in the open stage that
/// begins with `a` as in one that begins with `b`: a later begin only adds
/// sources, which changes nothing for copies that have one.
bool StagePlanner::sourcesAgree(unsigned a, unsigned b) const {
  unsigned op = std::min(a, b), end = std::max(a, b);
  for (auto place = std::lower_bound(pending.begin(), pending.end(), op);
       place != pending.end() && *place < end; ++place)
    if (a < b || lastChoice[*place] > position)
      return false;
  return true;
}

static double getExcess(double a, double b) { return std::max(0.0, a - b); }

/// At most this many seconds can `a` lose on `b` from now on, if both go on in
/// the same way: the cost is Lipschitz in each number, as a second more of a
/// step's computation or communication costs at most one, and never gains.
double StagePlanner::getMostLost(const Front &a, const Front &b) const {
  double k = static_cast<double>(facts.numStrands);
  const LineState &aLine = a.line, &bLine = b.line;
  const StageWork &aWork = a.work, &bWork = b.work;
  double excess =
      getExcess(aLine.previous, bLine.previous) +
      getExcess(aLine.waiting, bLine.waiting) +
      getExcess(aLine.arriving, bLine.arriving) +
      getExcess(a.leaving, b.leaving) +
      k * getExcess(aWork.computationPerStrand, bWork.computationPerStrand) +
      getExcess(aWork.computationOnce, bWork.computationOnce) +
      getExcess(aWork.sums, bWork.sums) + getExcess(aWork.ahead, bWork.ahead);
  // A step's communication is the largest over the queues.
  double perStrand = 0, once = 0;
  for (unsigned q = 0; q < kMaxAxes; ++q) {
    perStrand = std::max(perStrand, getExcess(aWork.collectivePerStrand[q],
                                              bWork.collectivePerStrand[q]));
    once = std::max(
        once, getExcess(aWork.collectiveOnce[q], bWork.collectiveOnce[q]));
  }
  return excess + k * perStrand + once;
}

bool StagePlanner::isNoWorse(const Front &a, const Front &b) const {
  // The cheap questions first.
  double lead = b.line.seconds - a.line.seconds;
  if (lead < 0 || a.line.previous - b.line.previous > lead ||
      a.line.previousIsOne != b.line.previousIsOne ||
      a.work.joins != b.work.joins ||
      a.work.dependsOnStrand != b.work.dependsOnStrand)
    return false;
  if (!aheadAgrees(a, b) || (limits.memory != kNoLimit && !holdsNoMore(a, b)))
    return false;
  return a.line.seconds + getMostLost(a, b) <= b.line.seconds &&
         sourcesAgree(a.begin, b.begin);
}

/// A low rank is good. What waits costs beta where it is hidden and one where
/// it is not.
double StagePlanner::getRank(const Front &front) const {
  return front.line.seconds + front.line.previous +
         static_cast<double>(facts.numStrands) *
             front.work.computationPerStrand +
         front.work.computationOnce + front.work.ahead +
         waitPrice * (front.line.waiting + front.line.arriving + front.leaving);
}

/// What dominates a front has no higher rank, but for rounding.
void StagePlanner::prune() {
  // Good ones first, so that few comparisons are needed.
  order.clear();
  for (unsigned i = 0; i < fronts.size(); ++i)
    order.push_back({getRank(fronts[i]), fronts[i].begin, i});
  std::sort(order.begin(), order.end(), [](const Rank &a, const Rank &b) {
    return a.rank != b.rank     ? a.rank < b.rank
           : a.begin != b.begin ? a.begin > b.begin
                                : a.index < b.index;
  });
  keptFronts.clear();
  for (const Rank &rank : order) {
    if (keptFronts.size() >= limits.maxFront) {
      isComplete = false;
      break;
    }
    const Front &front = fronts[rank.index];
    numPairs += keptFronts.size();
    if (std::any_of(keptFronts.begin(), keptFronts.end(),
                    [&](const Rank &other) {
                      return isNoWorse(fronts[other.index], front);
                    }))
      continue;
    auto isTied = [&](const Rank &other) {
      return other.rank >= rank.rank * (1 - kEqualCost);
    };
    auto firstTied =
        std::find_if_not(keptFronts.rbegin(), keptFronts.rend(), isTied).base();
    keptFronts.erase(std::remove_if(firstTied, keptFronts.end(),
                                    [&](const Rank &other) {
                                      return isNoWorse(front,
                                                       fronts[other.index]);
                                    }),
                     keptFronts.end());
    keptFronts.push_back(rank);
  }
  scratch.clear();
  for (const Rank &kept : keptFronts)
    scratch.push_back(fronts[kept.index]);
  std::swap(fronts, scratch);
}

/// Closes all stages before operator `op` and begins a new one with it.
void StagePlanner::open(unsigned op) {
  opened.clear();
  for (const Front &front : fronts) {
    if (!canEnd(front, op))
      continue;
    Front &next = opened.emplace_back();
    next.line = front.line;
    line.close(next.line, front.work, front.leaving,
               front.begin <= firstUpdate && op > firstUpdate);
    next.begin = op;
    next.node = front.node;
    next.wasAhead = front.ahead == Ahead::Yes;
    next.numAhead = facts.hasAgain ? numAhead[op] : 0;
  }
  std::swap(opened, fronts);
  prune();
  for (Front &front : fronts) {
    nodes.push_back({front.node, op, front.wasAhead});
    front.node = static_cast<int>(nodes.size()) - 1;
  }
  if (op != firstUpdate)
    fronts.insert(fronts.end(), opened.begin(), opened.end());
}

void StagePlanner::advance(unsigned op) {
  position = op;
  if (op > firstWork && !facts.isArgument(op))
    open(op);
  branchAhead(op);
  std::erase_if(fronts, [&](Front &front) { return !extend(front, op); });
  std::erase_if(pending,
                [&](unsigned source) { return lastWanted[source] <= op; });
  if (lastWanted[op] > op)
    pending.push_back(op);
  if (fronts.size() > 1)
    prune();
}

void StagePlanner::setStages(const Front &front, Plan &plan) const {
  plan.stageEnds = {static_cast<unsigned>(problem.operators.size())};
  plan.ahead.clear();
  bool isAhead = front.ahead == Ahead::Yes;
  for (int node = front.node; node >= 0; node = nodes[node].previous) {
    plan.stageEnds.push_back(nodes[node].begin);
    if (std::exchange(isAhead, nodes[node].wasAhead))
      plan.ahead.push_back(nodes[node].begin);
  }
  std::reverse(plan.stageEnds.begin(), plan.stageEnds.end());
  std::reverse(plan.ahead.begin(), plan.ahead.end());
}

std::optional<double> StagePlanner::finish(Plan &plan) {
  const Front *best = nullptr;
  bool hasUpdates = firstUpdate < problem.operators.size();
  for (Front &front : fronts) {
    if (!canEnd(front, problem.operators.size()))
      continue;
    line.close(front.line, front.work, front.leaving,
               front.begin <= firstUpdate && hasUpdates);
    line.finish(front.line);
    if (!best || front.line.seconds < best->line.seconds)
      best = &front;
  }
  if (!best)
    return std::nullopt;
  setStages(*best, plan);
  return best->line.seconds;
}

std::optional<double> StagePlanner::plan(const FixedForms &given, Plan &plan,
                                         const StageLimits &given_limits) {
  limits = given_limits;
  prepare(given, plan);
  isComplete = true;
  numPairs = 0;
  fronts.assign(1, Front());
  for (unsigned op = 0; op < problem.operators.size() && !fronts.empty(); ++op)
    advance(op);
  return finish(plan);
}
