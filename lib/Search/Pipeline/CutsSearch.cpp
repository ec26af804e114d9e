//===- CutsSearch.cpp - the best cut --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Equation 4 weighs the largest section against sums. Dynamic programming over
// the ends of sections keeps, for each end, all pairs of a largest section and
// a sum of which none is worse in both: one of them leads to the optimum. What
// cannot beat a known cut is dropped.
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Simulate.h"
#include "tandem/Search/Pipeline/Cuts.h"
#include <algorithm>
#include <tuple>

using namespace tandem;
using namespace tandem::pipeline;

static constexpr double kNever = kUnlimited;

namespace {
/// Costs of sections, in constant time.
class Sections {
public:
  explicit Sections(const CutProblem &problem);
  unsigned getNumLayers() const { return numLayers; }
  double getSeconds(unsigned section, unsigned begin, unsigned end) const {
    const auto &of = before[kinds[section]];
    return of[end] - of[begin];
  }
  /// Of the transfer in front of a section that begins with layer `begin`.
  double getTransfer(unsigned section, unsigned begin) const {
    return section ? problem.getTransfer(begin - 1, section) : 0;
  }
  /// Whether its point could hold it, were it there alone.
  bool fits(unsigned section, unsigned begin, unsigned end) const;

private:
  const CutProblem &problem;
  unsigned numLayers;
  /// By section.
  std::vector<unsigned> kinds;
  /// By kind: seconds of all layers before one; weights and activations.
  std::vector<std::vector<double>> before;
  std::vector<double> weights, activations;
};

/// The exact cut by (`factor` times the largest section) + (all sections and
/// transfers).
class Chooser {
public:
  Chooser(const CutProblem &problem, double factor, const Deadline &deadline)
      : sections(problem), factor(factor), deadline(deadline),
        number(problem.getNumSections()) {}
  /// Empty if no cut fits, or none was found before the deadline.
  Cut run();
  bool isLate = false;

private:
  struct State {
    double largest = 0, sum = 0;
    /// Where the section begins, and the state there.
    unsigned begin = 0, place = 0;
  };
  using States = std::vector<State>;

  void findRests();
  double findFirst();
  void extend(unsigned section, unsigned end);
  double getCost(const State &state) const {
    return factor * state.largest + state.sum;
  }

  Sections sections;
  double factor;
  const Deadline &deadline;
  unsigned number;
  /// By sections so far, and layers so far: the least that comes to the sum.
  std::vector<std::vector<double>> rests;
  std::vector<std::vector<States>> states;
  double known = kNever;
};

/// Moves borders under the simulation.
class Mover {
public:
  Mover(const CutProblem &problem, const orders::Order &order,
        const Deadline &deadline)
      : problem(problem), order(order), deadline(deadline) {}
  void start(const Cut &cut);
  /// All that begin with `cut`, with so many layers behind it. False once time
  /// is over.
  bool tryAll(Cut &cut, unsigned layers);
  void improve();

  unsigned numTried = 0;
  Cut best;
  double bestCost = kNever;
  /// Of the first cut that did not fit.
  std::string excess;

private:
  bool isOver() const { return bestCost < kNever && deadline.isOver(); }
  bool attempt(const Cut &cut);
  bool moveOne();

  const CutProblem &problem;
  const orders::Order &order;
  const Deadline &deadline;
};
} // namespace

//===----------------------------------------------------------------------===//
// Exact by equation 4
//===----------------------------------------------------------------------===//

static void addBefore(std::vector<double> &before, double value) {
  before.push_back(before.back() + value);
}

Sections::Sections(const CutProblem &problem)
    : problem(problem), numLayers(static_cast<unsigned>(problem.layers.size())),
      before(problem.kinds.size(), {0}), weights{0}, activations{0} {
  for (unsigned i = 0; i < problem.getNumSections(); ++i)
    kinds.push_back(problem.points[problem.getPoint(i)].kind);
  for (const Layer &layer : problem.layers) {
    for (unsigned kind = 0; kind < before.size(); ++kind)
      addBefore(before[kind], layer.costs[kind].getTotal());
    addBefore(weights, layer.weights);
    addBefore(activations, layer.activations);
  }
}

bool Sections::fits(unsigned section, unsigned begin, unsigned end) const {
  unsigned point = problem.getPoint(section);
  double memory = problem.points[point].memory;
  if (memory == kUnlimited)
    return true;
  double inFlight = 1;
  if (problem.accounting == CutAccounting::Amp)
    inFlight = std::min<double>(problem.numMicrobatches,
                                double(problem.points.size()) - point);
  return weights[end] - weights[begin] +
             inFlight * (activations[end] - activations[begin]) <=
         memory;
}

/// Backwards, without a word on the largest section.
void Chooser::findRests() {
  unsigned layers = sections.getNumLayers();
  rests.assign(number + 1, std::vector<double>(layers + 1, kNever));
  rests[number][layers] = 0;
  for (unsigned section = number; section-- > 0;)
    for (unsigned begin = 0; begin < layers; ++begin)
      for (unsigned end = begin + 1; end <= layers; ++end) {
        if (rests[section + 1][end] == kNever || (section > 0 && begin == 0) ||
            !sections.fits(section, begin, end))
          continue;
        double sum = rests[section + 1][end] +
                     sections.getSeconds(section, begin, end) +
                     sections.getTransfer(section, begin);
        rests[section][begin] = std::min(rests[section][begin], sum);
      }
}

/// The cost of the cut whose largest section is smallest.
double Chooser::findFirst() {
  unsigned layers = sections.getNumLayers();
  using Pair = std::pair<double, double>;
  std::vector<Pair> best(layers + 1, {kNever, kNever});
  best[0] = {0, 0};
  for (unsigned section = 0; section < number; ++section) {
    std::vector<Pair> next(layers + 1, {kNever, kNever});
    for (unsigned end = section + 1; end <= layers; ++end)
      for (unsigned begin = section; begin < end; ++begin) {
        if (best[begin].first == kNever || !sections.fits(section, begin, end))
          continue;
        double own = sections.getSeconds(section, begin, end);
        next[end] =
            std::min(next[end], {std::max(best[begin].first, own),
                                 best[begin].second + own +
                                     sections.getTransfer(section, begin)});
      }
    best = std::move(next);
  }
  auto [largest, sum] = best[layers];
  return largest == kNever ? kNever : factor * largest + sum;
}

/// All states of the sections up to `section` that end in front of layer `end`.
void Chooser::extend(unsigned section, unsigned end) {
  States found;
  for (unsigned begin = section; begin < end; ++begin) {
    const States &from = states[section][begin];
    if (from.empty() || !sections.fits(section, begin, end))
      continue;
    double own = sections.getSeconds(section, begin, end);
    double more = own + sections.getTransfer(section, begin);
    for (unsigned place = 0; place < from.size(); ++place) {
      State state{std::max(from[place].largest, own), from[place].sum + more,
                  begin, place};
      if (getCost(state) + rests[section + 1][end] <= known)
        found.push_back(state);
    }
  }
  std::sort(found.begin(), found.end(), [](const State &a, const State &b) {
    return std::tie(a.largest, a.sum, a.begin) <
           std::tie(b.largest, b.sum, b.begin);
  });
  for (const State &state : found) {
    States &kept = states[section + 1][end];
    if (kept.empty() || state.sum < kept.back().sum)
      kept.push_back(state);
  }
}

Cut Chooser::run() {
  unsigned layers = sections.getNumLayers();
  findRests();
  // What rounds up must not drop the cut itself.
  constexpr double kRounding = 1 + 1e-12;
  known = findFirst() * kRounding;
  if (known == kNever)
    return {};
  states.assign(number + 1, std::vector<States>(layers + 1));
  states[0][0].push_back({});
  for (unsigned section = 0; section < number; ++section)
    for (unsigned end = section + 1; end <= layers; ++end) {
      isLate |= deadline.isOver();
      if (isLate)
        return {};
      extend(section, end);
    }
  const States &last = states[number][layers];
  auto best = std::min_element(
      last.begin(), last.end(),
      [&](const State &a, const State &b) { return getCost(a) < getCost(b); });
  Cut cut(number);
  State state = *best;
  for (unsigned section = number, end = layers; section-- > 0;) {
    cut[section] = end - state.begin;
    end = state.begin;
    state = states[section][end][state.place];
  }
  return cut;
}

//===----------------------------------------------------------------------===//
// Under the simulation
//===----------------------------------------------------------------------===//

/// Whether it is better than the best one.
bool Mover::attempt(const Cut &cut) {
  ++numTried;
  double cost = orders::simulate(makePartition(problem, cut), order).end;
  if (cost >= bestCost)
    return false;
  if (std::string more = findExcess(problem, cut, order); !more.empty()) {
    if (excess.empty())
      excess = more;
    return false;
  }
  best = cut;
  bestCost = cost;
  return true;
}

void Mover::start(const Cut &cut) {
  if (!cut.empty())
    attempt(cut);
}

bool Mover::tryAll(Cut &cut, unsigned layers) {
  unsigned left = problem.getNumSections() - static_cast<unsigned>(cut.size());
  if (left == 0) {
    attempt(cut);
    return !isOver();
  }
  bool isComplete = true;
  for (unsigned count = left == 1 ? layers : 1;
       isComplete && count + left - 1 <= layers; ++count) {
    cut.push_back(count);
    isComplete = tryAll(cut, layers - count);
    cut.pop_back();
  }
  return isComplete;
}

/// Takes layers of one section to another, so that the borders between them
/// move together: neighbours first.
bool Mover::moveOne() {
  unsigned number = problem.getNumSections();
  for (unsigned distance = 1; distance < number; ++distance)
    for (unsigned first = 0; first + distance < number; ++first)
      for (bool isForth : {true, false})
        for (unsigned layers : {1, 2, 4}) {
          unsigned from = isForth ? first : first + distance;
          unsigned to = isForth ? first + distance : first;
          Cut cut = best;
          if (cut[from] <= layers)
            continue;
          cut[from] -= layers;
          cut[to] += layers;
          if (attempt(cut))
            return true;
          if (isOver())
            return false;
        }
  return false;
}

void Mover::improve() {
  while (bestCost < kNever && moveOne())
    ;
}

/// As equal numbers of layers as can be.
static Cut getEqual(const CutProblem &problem) {
  auto layers = static_cast<unsigned>(problem.layers.size());
  unsigned number = problem.getNumSections();
  Cut cut(number, layers / number);
  for (unsigned i = 0; i < layers % number; ++i)
    ++cut[i];
  return cut;
}

static double countCuts(const CutProblem &problem) {
  double count = 1;
  auto layers = static_cast<double>(problem.layers.size());
  for (unsigned i = 1; i < problem.getNumSections(); ++i)
    count = std::min(count * (layers - i) / i, 1e18);
  return count;
}

static CutResult searchExact(const CutProblem &problem,
                             const Deadline &deadline) {
  CutResult result;
  Chooser chooser(problem, problem.numMicrobatches - 1.0, deadline);
  result.cut = chooser.run();
  if (chooser.isLate)
    result.cut = getEqual(problem);
  if (result.cut.empty() || chooser.isLate)
    result.error = findExcess(problem, getEqual(problem), {});
  if (!result.error.empty()) {
    result.error =
        (chooser.isLate ? "no cut was found in time: " : "no cut fits: ") +
        result.error;
    return result;
  }
  orders::Partition partition = makePartition(problem, result.cut);
  double largest = 0, sum = 0;
  for (const orders::Section &section : partition.sections) {
    double seconds = section.forward + section.input + section.weight;
    largest = std::max(largest, seconds);
    sum += seconds;
  }
  for (const orders::Edge &edge : partition.edges)
    sum += edge.seconds;
  result.cost = (problem.numMicrobatches - 1) * largest + sum;
  result.isOptimal = !chooser.isLate;
  result.lowerBound = result.isOptimal ? result.cost : 0;
  return result;
}

CutResult tandem::pipeline::searchCut(const CutProblem &problem,
                                      const Deadline &deadline,
                                      CutEffort effort) {
  if (problem.accounting == CutAccounting::Amp)
    return searchExact(problem, deadline);
  CutResult result;
  std::optional<orders::Order> order = makeOrder(problem, result.error);
  if (!order)
    return result;
  Mover mover(problem, *order, deadline);
  double rounds = double(problem.numMicrobatches) * problem.sectionsPerPoint;
  mover.start(Chooser(problem, rounds - 1, deadline).run());
  mover.start(getEqual(problem));
  if (effort == CutEffort::Start && !mover.best.empty())
    result.isOptimal = false;
  else if (Cut none; countCuts(problem) <= kMostTried)
    result.isOptimal =
        mover.tryAll(none, static_cast<unsigned>(problem.layers.size()));
  else
    mover.improve();
  result.numTried = mover.numTried;
  result.cut = mover.best;
  result.cost = mover.bestCost;
  if (mover.best.empty())
    result.error = "no cut that was tried fits: " + mover.excess;
  result.lowerBound = result.isOptimal ? result.cost : getLowerBound(problem);
  return result;
}
