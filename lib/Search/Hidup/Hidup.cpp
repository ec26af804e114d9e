//===- Hidup.cpp - HiDup's dynamic programming ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// HiDup (Zhang et al., SoCC 2022), section 4.2 and figure 4. The paper appends
// whole stages to strategies and keeps, per cut and forms of its tensors, those
// that no other dominates. Here the order is walked operator by operator, and
// the stage that is still open is part of the label: every way to compose a
// stage is then shared with all the others that lead to the same state, and
// there is no limit on a stage's size. docs/rationale/search.md says what each
// reduction rests on.
//
// Times are integers (fractions of a second, see `Units`), so that equal sums
// are equal in whatever order they are formed.
//
//===----------------------------------------------------------------------===//

#include "../SearchEnd.h"
#include "HidupLabels.h"
#include "HidupStates.h"
#include <tuple>

using namespace tandem::cost;
using namespace tandem::search;
using namespace tandem::search::hidup;

namespace {
/// What led to a label: a chain of decisions, newest first.
struct Node {
  uint32_t before;
  Decision decision;
};
/// In place of a signature: a stage begins at this operator.
constexpr unsigned kCut = ~0u;

/// A label that is not yet known to stay.
struct Candidate {
  Label label;
  uint32_t state;
  /// Its decisions, in the list of the step.
  uint32_t firstDecision, numDecisions;
};

/// The labels in front of an operator, by state, none dominated by another.
struct Front {
  StateTable states;
  /// State i has the labels begins[i] ... begins[i + 1] - 1.
  std::vector<uint32_t> begins;
  std::vector<Label> labels;

  std::span<const Label> getLabels(unsigned state) const {
    return {labels.data() + begins[state], begins[state + 1] - begins[state]};
  }
};

/// How thorough a walk is.
struct Effort {
  /// Labels in front of one operator: above the first number the worst ones are
  /// dropped, and the second are kept.
  size_t maxLabels, keptLabels;
  /// Labels of one state: the number of comparisons is its square.
  size_t maxLabelsOfState;
  /// Labels made in all; beyond it the walk gives up.
  uint64_t maxVisited;
};
/// The problems of the paper have some hundred labels per operator. A large
/// graph is first walked with some thousand.
constexpr Effort kQuick = {1 << 12, 1 << 11, 32, ~uint64_t(0)};
/// Some hundred MiB.
constexpr Effort kThorough = {1 << 20, 1 << 18, 1 << 11, 1 << 22};
/// Kept after an interruption, to find some plan quickly, at first.
constexpr size_t kHurriedLabels = 64;

constexpr Time kNever = std::numeric_limits<Time>::max();

class Walk {
public:
  /// Looks only for plans below `upper`; with a finite one there is a plan
  /// already, and an interrupted walk need not find another.
  Walk(const Model &model, SearchEnd &end, Effort effort, Time upper)
      : model(model), end(end), effort(effort), upper(upper) {}

  /// The decisions of the best plan; none if there is none, or if labels were
  /// dropped (`isExact`) and those left were dead ends.
  std::optional<Plan> run();
  bool isExact() const { return dropped == kNever && !isHurried; }
  bool wasInterrupted() const { return isHurried; }
  /// A plan can only cost less than the one found if it costs at least this.
  Time getBound() const { return dropped; }
  /// Of the plan that was found.
  Time getValueFound() const {
    return getValue(model.accounting, open.labels.front());
  }
  /// Number of labels that were made.
  uint64_t getNumVisited() const { return numVisited; }
  /// The operator that no label got past.
  unsigned getLastOperator() const { return lastOperator; }

private:
  void start();
  bool walk();
  bool isInterrupted(unsigned op);
  void keepBest(unsigned op, size_t number);
  void collectHistory();
  void close(unsigned op);
  void expand(unsigned op, const Front &from);
  void step(unsigned op);
  void add(const Label &label, const Transition &transition, unsigned state);
  void select(Front &into, Time rest);
  void selectState(std::span<uint32_t> candidates, Time rest, Front &into);
  uint32_t record(const Candidate &candidate);
  Plan trace(const Label &label) const;

  const Model &model;
  SearchEnd &end;
  Effort effort;
  Time upper;
  /// In front of the current operator: with the stage going on, and with a new
  /// one beginning.
  Front open, closed, next;
  std::vector<Candidate> candidates;
  std::vector<Decision> decisions;
  std::vector<uint32_t> sorted, starts;
  std::vector<Time> values;
  std::vector<Node> history;
  /// Size of the history at which it is worth looking for what is dead.
  size_t historyLimit = 1 << 20;
  bool isHurried = false;
  size_t numHurried = kHurriedLabels;
  /// Least value of a label that was dropped undominated.
  Time dropped = kNever;
  uint64_t numVisited = 0;
  unsigned lastOperator = 0;
};
} // namespace

void Walk::start() {
  history.assign(1, {});
  open.states.reset(0);
  TensorState none = TensorState::makeCount(0);
  open.states.insert({&none, 1});
  open.labels.assign(1, Label());
  open.begins = {0, 1};
}

void Walk::add(const Label &label, const Transition &transition,
               unsigned state) {
  Label added = label;
  added.open.forward += transition.forward;
  added.open.backward += transition.backward;
  added.open.computation += transition.computation;
  added.residentBytes += transition.residentBytes;
  added.hasChange |= transition.hasChange;
  candidates.push_back(
      {added, state,
       static_cast<uint32_t>(decisions.size() - transition.decisions.size()),
       static_cast<uint32_t>(transition.decisions.size())});
}

/// Ends the open stage in front of `op`. Only where something has been changed
/// in it: else it belongs to the stage before, which costs no more.
void Walk::close(unsigned op) {
  closed.states.reset(model.operators[op].slots.size());
  decisions.assign(1, {op, kCut});
  std::vector<TensorState> old;
  for (unsigned i = 0; i < open.states.size(); ++i) {
    old.assign(1, TensorState::makeCount(0));
    for (TensorState tensor : open.states[i].subspan(1))
      old.push_back(tensor.makeOld());
    std::optional<unsigned> state;
    for (const Label &label : open.getLabels(i)) {
      if (!label.hasChange && label.numStages > 1)
        continue;
      if (!state)
        state = closed.states.insert(old);
      Label ended{label.closed + getHidupTime(model.accounting, label.open),
                  {label.open.computation},
                  label.residentBytes,
                  label.history,
                  label.numStages + 1};
      candidates.push_back({ended, *state, 0, 1});
    }
  }
  select(closed, model.operators[op].rest);
}

void Walk::expand(unsigned op, const Front &from) {
  Expander expander(model, op);
  for (unsigned i = 0; i < from.states.size(); ++i)
    for (const Transition &transition : expander.expand(from.states[i])) {
      unsigned state = next.states.insert(transition.state);
      decisions.insert(decisions.end(), transition.decisions.begin(),
                       transition.decisions.end());
      for (const Label &label : from.getLabels(i))
        add(label, transition, state);
    }
}

void Walk::step(unsigned op) {
  bool mayClose = op > 0 && !model.operators[op].isDeferred;
  if (mayClose)
    close(op);
  decisions.clear();
  next.states.reset(model.operators[op + 1].slots.size());
  expand(op, open);
  if (mayClose)
    expand(op, closed);
  select(next, model.operators[op + 1].rest);
  std::swap(open, next);
}

//===----------------------------------------------------------------------===//
// Dominance
//===----------------------------------------------------------------------===//

uint32_t Walk::record(const Candidate &candidate) {
  uint32_t last = candidate.label.history;
  for (uint32_t i = 0; i < candidate.numDecisions; ++i) {
    history.push_back({last, decisions[candidate.firstDecision + i]});
    last = history.size() - 1;
  }
  return last;
}

/// Keeps of the candidates of one state those that may become better than
/// the best plan and that no other dominates. One with
/// a larger value never dominates.
void Walk::selectState(std::span<uint32_t> indices, Time rest, Front &into) {
  std::sort(indices.begin(), indices.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(values[a], getRank(candidates[a].label), a) <
           std::tuple(values[b], getRank(candidates[b].label), b);
  });
  size_t first = into.labels.size();
  for (uint32_t index : indices) {
    const Label &label = candidates[index].label;
    if (values[index] >= upper - rest)
      break;
    bool isDominated = false;
    for (size_t i = first; i < into.labels.size() && !isDominated; ++i)
      isDominated = dominates(model.accounting, into.labels[i], label);
    if (isDominated)
      continue;
    if (into.labels.size() - first == effort.maxLabelsOfState) {
      // Those that follow have no smaller values.
      dropped = std::min(dropped, values[index] + rest);
      break;
    }
    into.labels.push_back(label);
    into.labels.back().history = record(candidates[index]);
  }
}

/// Makes the labels of `into` of the candidates, and clears those. What is left
/// to do adds at least `rest`.
void Walk::select(Front &into, Time rest) {
  numVisited += candidates.size();
  unsigned numStates = into.states.size();
  starts.assign(numStates + 1, 0);
  values.clear();
  for (const Candidate &candidate : candidates) {
    ++starts[candidate.state + 1];
    values.push_back(getValue(model.accounting, candidate.label));
  }
  for (unsigned i = 0; i < numStates; ++i)
    starts[i + 1] += starts[i];
  sorted.resize(candidates.size());
  std::vector<uint32_t> places(starts.begin(), starts.end() - 1);
  for (uint32_t i = 0; i < candidates.size(); ++i)
    sorted[places[candidates[i].state]++] = i;
  into.labels.clear();
  into.begins.assign(1, 0);
  for (unsigned i = 0; i < numStates; ++i) {
    selectState(std::span(sorted).subspan(starts[i], starts[i + 1] - starts[i]),
                rest, into);
    into.begins.push_back(into.labels.size());
  }
  candidates.clear();
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

Plan Walk::trace(const Label &label) const {
  Plan plan;
  unsigned numOperators = model.operators.size() - 1;
  plan.signatures.assign(numOperators, 0);
  plan.stageEnds.push_back(numOperators);
  for (uint32_t i = label.history; i != 0; i = history[i].before) {
    const Decision &decision = history[i].decision;
    if (decision.signature == kCut)
      plan.stageEnds.push_back(decision.op);
    else
      plan.signatures[decision.op] = decision.signature;
  }
  std::reverse(plan.stageEnds.begin(), plan.stageEnds.end());
  return plan;
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

bool Walk::isInterrupted(unsigned op) {
  if (numVisited > effort.maxVisited)
    return true;
  Time bound = kNever;
  for (const Label &label : open.labels)
    bound = std::min(bound, getValue(model.accounting, label));
  return !end.proceeds(double(op + 1) / (model.operators.size() - 1),
                       std::numeric_limits<double>::infinity(),
                       bound * model.secondsPerUnit);
}

/// Drops all but the labels of the least values.
void Walk::keepBest(unsigned op, size_t number) {
  if (open.labels.size() <= number)
    return;
  std::vector<std::pair<Time, uint32_t>> ranks;
  for (const Label &label : open.labels)
    ranks.emplace_back(getValue(model.accounting, label), ranks.size());
  std::nth_element(ranks.begin(), ranks.begin() + number, ranks.end());
  std::pair<Time, uint32_t> first = ranks[number];
  dropped = std::min(dropped, first.first + model.operators[op + 1].rest);
  size_t kept = 0;
  for (unsigned state = 0, i = 0; state < open.states.size(); ++state) {
    unsigned end = open.begins[state + 1];
    for (; i < end; ++i)
      if (std::pair(getValue(model.accounting, open.labels[i]), i) < first)
        open.labels[kept++] = open.labels[i];
    open.begins[state + 1] = kept;
  }
  open.labels.resize(kept);
}

/// Forgets the decisions that no label rests on.
void Walk::collectHistory() {
  std::vector<uint32_t> places(history.size(), 0);
  for (const Label &label : open.labels)
    places[label.history] = 1;
  for (size_t i = history.size(); i-- > 1;)
    if (places[i])
      places[history[i].before] = 1;
  places[0] = 0;
  size_t numKept = 1;
  for (size_t i = 1; i < history.size(); ++i) {
    if (!places[i])
      continue;
    history[numKept] = {places[history[i].before], history[i].decision};
    places[i] = numKept++;
  }
  history.resize(numKept);
  for (Label &label : open.labels)
    label.history = places[label.history];
  historyLimit = std::max<size_t>(2 * numKept, 1 << 20);
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// One walk over all operators; false if it ends in a dead end.
bool Walk::walk() {
  start();
  for (unsigned op = 0; op + 1 < model.operators.size(); ++op) {
    step(op);
    lastOperator = op;
    if (open.labels.empty())
      return false;
    isHurried = isHurried || isInterrupted(op);
    if (isHurried && upper != kNever)
      return false;
    if (isHurried)
      keepBest(op, numHurried);
    else if (open.labels.size() > effort.maxLabels)
      keepBest(op, effort.keptLabels);
    if (history.size() > historyLimit)
      collectHistory();
  }
  return true;
}

std::optional<Plan> Walk::run() {
  while (!walk()) {
    // With few labels all of them may be dead ends: more are tried, up to what
    // memory holds.
    if (!isHurried || upper != kNever || numHurried >= effort.keptLabels)
      return std::nullopt;
    numHurried *= 16;
  }
  // Nothing is alive: one state, whose first label has the least value.
  return trace(open.labels.front());
}

/// What no plan undercuts: the computation of each operator counts at least
/// four times (in max(F, f), twice in the backward pass, and as the last F or
/// the next D).
static double getComputationBound(const SearchProblem &problem) {
  double bound = 0;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    double least = std::numeric_limits<double>::infinity();
    for (const Signature &signature : problem.getSignatures(op))
      least = std::min(least, signature.seconds);
    bound += 4 * least;
  }
  return bound;
}

/// The better of the plan found and those to start from.
static std::optional<Plan> chooseBest(const SearchProblem &problem,
                                      std::optional<Plan> found,
                                      const std::vector<Plan> &starts,
                                      std::string &error) {
  if (found && !derive(problem, *found, error))
    return std::nullopt;
  for (Plan start : starts) {
    std::string reason;
    if (derive(problem, start, reason) && (!found || start.cost < found->cost))
      found = std::move(start);
  }
  return found;
}

static std::string describeDeadEnd(const SearchProblem &problem,
                                   unsigned lastOperator, bool isExact) {
  std::string name = problem.operators[lastOperator].name;
  if (!isExact)
    return "no plan was found in the given time and memory: those that were "
           "not dropped do not get past operator " +
           name;
  return "there is no plan: whatever signatures are chosen, operator " + name +
         " or a reader of its results lacks a form that it wants (a tensor has "
         "at most one copy)";
}

namespace {
/// What the walks over a problem found.
struct Outcome {
  std::optional<Plan> plan;
  /// Of the plan, and of what was dropped.
  Time value = kNever, bound = kNever;
  bool isExact = true;
  unsigned lastOperator = 0;
  uint64_t numVisited = 0;
};
} // namespace

/// A second walk with more labels, that only looks for better plans.
static void searchOn(const Model &model, SearchEnd &end, Outcome &outcome) {
  Walk walk(model, end, kThorough, outcome.value);
  std::optional<Plan> plan = walk.run();
  outcome.numVisited += walk.getNumVisited();
  if (plan) {
    outcome.plan = std::move(plan);
    outcome.value = walk.getValueFound();
  } else if (walk.wasInterrupted()) {
    return;
  }
  outcome.isExact = walk.isExact();
  outcome.bound = walk.getBound();
  outcome.lastOperator = walk.getLastOperator();
}

static Outcome walkOver(const Model &model, const SearchOptions &options) {
  SearchEnd end(options);
  Walk walk(model, end, kQuick, kNever);
  Outcome outcome;
  outcome.plan = walk.run();
  if (outcome.plan)
    outcome.value = walk.getValueFound();
  outcome.bound = walk.getBound();
  outcome.isExact = walk.isExact();
  outcome.lastOperator = walk.getLastOperator();
  outcome.numVisited = walk.getNumVisited();
  double gap = double(outcome.value - std::min(outcome.bound, outcome.value)) /
               std::max<Time>(outcome.value, 1);
  if (!walk.isExact() && !walk.wasInterrupted() && gap > options.gap)
    searchOn(model, end, outcome);
  return outcome;
}

SearchResult tandem::search::searchHidup(const SearchProblem &problem,
                                         const SearchOptions &options) {
  SearchResult result;
  if (problem.accounting == Accounting::Tandem) {
    result.error = "the problem has the accounting tandem, the search hidup "
                   "expects hidup-serial or hidup-overlapped";
    return result;
  }
  std::optional<Model> model = makeModel(problem, result.error);
  if (!model)
    return result;
  Outcome outcome = walkOver(*model, options);
  result.numVisited = outcome.numVisited;
  result.isInfeasible = !outcome.plan && outcome.isExact;
  result.plan = chooseBest(problem, std::move(outcome.plan), options.starts,
                           result.error);
  if (!result.plan) {
    if (result.error.empty())
      result.error =
          describeDeadEnd(problem, outcome.lastOperator, outcome.isExact);
    return result;
  }
  double cost = result.plan->cost;
  double bound = outcome.isExact ? cost : outcome.bound * model->secondsPerUnit;
  bound = std::max(bound, getComputationBound(problem));
  result.plan->lowerBound = std::min(cost, bound);
  result.plan->isOptimal = isProven(cost, result.plan->lowerBound);
  return result;
}
