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
// cannot beat a known cut is dropped. Equation 2 adds the longest sum of
// gradients: the cut is sought again with all sums shorter than the longest one
// of the cut before, until the rest alone costs more than the best cut.
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Pipeline/Cuts.h"
#include <algorithm>
#include <map>
#include <tuple>

using namespace tandem;
using namespace tandem::pipeline;

static constexpr double kNever = kUnlimited;
/// As many are all simulated, whatever the effort.
static constexpr double kFewCuts = 200;

namespace {
/// Costs of sections, in constant time.
class Sections {
public:
  Sections(const CutProblem &problem,
           const std::optional<orders::Order> &order);
  unsigned getNumLayers() const { return numLayers; }
  double getSeconds(unsigned section, unsigned begin, unsigned end) const {
    const auto &of = before[kinds[section]];
    return of[end] - of[begin];
  }
  /// Of the transfer in front of a section that begins with layer `begin`.
  double getTransfer(unsigned section, unsigned begin) const {
    return section ? problem.getTransfer(begin - 1, section) : 0;
  }
  /// What its point would hold above its memory, were the section there alone:
  /// with one section of each point, what it does.
  double getExcess(unsigned section, unsigned begin, unsigned end) const;
  /// Whether there is none, and the sum is below the limit.
  bool fits(unsigned section, unsigned begin, unsigned end) const;
  void limitSums(double seconds);

private:
  const CutProblem &problem;
  double limit = kNever;
  /// By the ring of a point, begin and end: seconds of the sum of gradients.
  std::map<std::pair<double, double>, std::vector<double>> sums;
  unsigned numLayers;
  /// By section: the kind of its point, and its microbatches in flight.
  std::vector<unsigned> kinds, inFlight;
  /// By kind: seconds of all layers before one; weights and activations.
  std::vector<std::vector<double>> before;
  std::vector<double> weights, activations;
  /// Layers that have parameters of others.
  std::vector<unsigned> tied;
};

/// The exact cut by equation 4 of those with sums below a limit, with as many
/// microbatches as a point has sections of them.
class Chooser {
public:
  Chooser(const CutProblem &problem, const std::optional<orders::Order> &order,
          const Deadline &deadline)
      : sections(problem, order),
        factor(double(problem.numMicrobatches) * problem.sectionsPerPoint - 1),
        deadline(deadline), number(problem.getNumSections()) {}
  /// Empty if no cut fits, or none was found before the deadline.
  Cut run(double limit);
  /// The cut in which the most that a section is too much is least.
  Cut findNearest() const;
  /// Of the last cut.
  double cost = 0;
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

/// Moves borders under the price.
class Mover {
public:
  Mover(const CutProblem &problem, const std::optional<orders::Order> &order,
        const Deadline &deadline)
      : problem(problem), order(order), deadline(deadline) {}
  /// Whether it is better than the best one, which it is then.
  bool attempt(const Cut &cut);
  /// All that begin with `cut`, with so many layers behind it. False once time
  /// is over.
  bool tryAll(Cut &cut, unsigned layers);
  /// Until no move is better, or a cut fits.
  void improve(bool isEnough);
  bool fits() const { return !best.empty() && price.excess == 0; }

  unsigned numTried = 0;
  Cut best;
  CutPrice price;

private:
  bool moveOne();
  bool isLight(unsigned point) const {
    return price.held[point] <= problem.points[point].memory;
  }

  const CutProblem &problem;
  const std::optional<orders::Order> &order;
  const Deadline &deadline;
};
} // namespace

//===----------------------------------------------------------------------===//
// Exact by equation 4
//===----------------------------------------------------------------------===//

static void addBefore(std::vector<double> &before, double value) {
  before.push_back(before.back() + value);
}

/// Of each section, the most microbatches between F and the end of W.
static std::vector<unsigned>
countInFlight(const CutProblem &problem,
              const std::optional<orders::Order> &order) {
  std::vector<unsigned> most(problem.getNumSections()), now(most.size());
  if (!order) { // Equation 4 stands for 1F1B.
    for (unsigned i = 0; i < most.size(); ++i)
      most[i] = std::min<unsigned>(problem.numMicrobatches, most.size() - i);
    return most;
  }
  for (const std::vector<orders::Action> &row : order->points)
    for (const orders::Action &action : row) {
      unsigned &own = now[action.section];
      if (action.kind == orders::ActionKind::Forward)
        most[action.section] = std::max(most[action.section], ++own);
      else
        own -= action.kind != orders::ActionKind::BackwardInput;
    }
  return most;
}

Sections::Sections(const CutProblem &problem,
                   const std::optional<orders::Order> &order)
    : problem(problem), numLayers(static_cast<unsigned>(problem.layers.size())),
      inFlight(countInFlight(problem, order)),
      before(problem.kinds.size(), {0}), weights{0}, activations{0} {
  for (unsigned i = 0; i < problem.getNumSections(); ++i)
    kinds.push_back(problem.points[problem.getPoint(i)].kind);
  for (unsigned i = 0; i < numLayers; ++i) {
    const Layer &layer = problem.layers[i];
    if (layer.tied >= 0)
      tied.push_back(i);
    for (unsigned kind = 0; kind < before.size(); ++kind)
      addBefore(before[kind], layer.costs[kind].getTotal());
    addBefore(weights, layer.weights);
    addBefore(activations, layer.activations);
  }
}

double Sections::getExcess(unsigned section, unsigned begin,
                           unsigned end) const {
  const CutPoint &point = problem.points[problem.getPoint(section)];
  double held = weights[end] - weights[begin] +
                inFlight[section] * (activations[end] - activations[begin]);
  for (unsigned layer : tied)
    if (layer < end && problem.repeats(layer, begin))
      held -= problem.layers[layer].weights;
  return std::max(0.0, held - point.memory * (1 + kRounding));
}

bool Sections::fits(unsigned section, unsigned begin, unsigned end) const {
  if (getExcess(section, begin, end) > 0)
    return false;
  const CutPoint &point = problem.points[problem.getPoint(section)];
  return limit == kNever ||
         sums.at({point.latency,
                  point.bandwidth})[begin * (numLayers + 1) + end] < limit;
}

void Sections::limitSums(double seconds) {
  limit = seconds;
  for (unsigned i = 0; limit < kNever && i < problem.getNumSections(); ++i) {
    const CutPoint &point = problem.points[problem.getPoint(i)];
    std::vector<double> &of = sums[{point.latency, point.bandwidth}];
    if (!of.empty())
      continue;
    for (unsigned begin = 0; begin <= numLayers; ++begin)
      for (unsigned end = 0; end <= numLayers; ++end)
        of.push_back(problem.getSum(i, begin, end));
  }
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

Cut Chooser::findNearest() const {
  unsigned layers = sections.getNumLayers();
  // By sections so far, and layers so far: the excess, and the last begin.
  using Pair = std::pair<double, unsigned>;
  std::vector<std::vector<Pair>> best(
      number + 1, std::vector<Pair>(layers + 1, {kNever, 0}));
  best[0][0].first = 0;
  for (unsigned section = 0; section < number; ++section)
    for (unsigned end = section + 1; end <= layers; ++end)
      for (unsigned begin = section; begin < end; ++begin) {
        double excess = std::max(best[section][begin].first,
                                 sections.getExcess(section, begin, end));
        best[section + 1][end] =
            std::min(best[section + 1][end], {excess, begin});
      }
  Cut cut(number);
  for (unsigned section = number, end = layers; section-- > 0;) {
    unsigned begin = best[section + 1][end].second;
    cut[section] = end - begin;
    end = begin;
  }
  return cut;
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

Cut Chooser::run(double limit) {
  unsigned layers = sections.getNumLayers();
  sections.limitSums(limit);
  findRests();
  // What rounds up must not drop the cut itself.
  known = findFirst() * (1 + 1e-12);
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
  cost = getCost(state);
  for (unsigned section = number, end = layers; section-- > 0;) {
    cut[section] = end - state.begin;
    end = state.begin;
    state = states[section][end][state.place];
  }
  return cut;
}

//===----------------------------------------------------------------------===//
// Under the price
//===----------------------------------------------------------------------===//

bool Mover::attempt(const Cut &cut) {
  if (cut.empty())
    return false;
  ++numTried;
  CutPrice own = priceCut(problem, cut, order);
  if (!best.empty() && !own.isBelow(price))
    return false;
  best = cut;
  price = std::move(own);
  return true;
}

bool Mover::tryAll(Cut &cut, unsigned layers) {
  unsigned left = problem.getNumSections() - static_cast<unsigned>(cut.size());
  if (left == 0) {
    attempt(cut);
    return !fits() || !deadline.isOver();
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
/// move together: neighbours first. While points hold too much, it is theirs:
/// in an order what a point holds depends on its own layers alone.
bool Mover::moveOne() {
  unsigned number = problem.getNumSections();
  for (unsigned distance = 1; distance < number; ++distance)
    for (unsigned first = 0; first + distance < number; ++first)
      for (bool isForth : {true, false})
        for (unsigned layers : {1, 2, 4}) {
          unsigned from = isForth ? first : first + distance;
          unsigned to = isForth ? first + distance : first;
          Cut cut = best;
          if (cut[from] <= layers ||
              (!fits() && isLight(problem.getPoint(from))))
            continue;
          cut[from] -= layers;
          cut[to] += layers;
          if (attempt(cut))
            return true;
          if (deadline.isOver())
            return false;
        }
  return false;
}

void Mover::improve(bool isEnough) {
  while (!(isEnough && fits()) && moveOne())
    ;
}

/// The cut by equation 4, and those with shorter sums, of which one is the best
/// by equation 2.
static void attemptByEquations(const CutProblem &problem, Chooser &chooser,
                               Mover &mover, Cut cut) {
  double best = kNever;
  while (!cut.empty() && chooser.cost < best) {
    double longest = 0;
    for (const orders::Section &section : makePartition(problem, cut).sections)
      longest = std::max(longest, section.sum);
    mover.attempt(cut);
    best = std::min(best, chooser.cost + longest);
    cut = longest > 0 ? chooser.run(longest) : Cut();
  }
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

CutResult tandem::pipeline::searchCut(const CutProblem &problem,
                                      const Deadline &deadline,
                                      CutEffort effort) {
  CutResult result;
  bool isSimulated = problem.accounting == CutAccounting::Tandem;
  std::optional<orders::Order> order;
  if (isSimulated && !(order = makeOrder(problem, result.error)))
    return result;
  Chooser chooser(problem, order, deadline);
  Mover mover(problem, order, deadline);
  Cut found = chooser.run(kNever);
  attemptByEquations(problem, chooser, mover, found);
  // Where it finds none, a section alone is too much in every cut.
  bool isProven = (!isSimulated || found.empty()) && !chooser.isLate;
  if (!isProven)
    mover.attempt(getEqual(problem));
  if (!mover.fits())
    mover.attempt(chooser.findNearest());
  // One that fits.
  bool isEnough = !isSimulated ||
                  (effort == CutEffort::Start && countCuts(problem) > kFewCuts);
  bool isDone = isProven || (isEnough && mover.fits());
  if (!isDone && countCuts(problem) <= kMostTried) {
    Cut none;
    isProven = mover.tryAll(none, static_cast<unsigned>(problem.layers.size()));
  } else if (!isDone) {
    mover.improve(isEnough);
  }
  result.numTried = mover.numTried;
  if (!mover.fits()) {
    result.error = (isProven         ? "no cut fits: "
                    : chooser.isLate ? "no cut was found in time: "
                                     : "no cut that was tried fits: ") +
                   describeExcess(problem, mover.best, mover.price);
    result.excess = mover.price.held[mover.price.worst] -
                    problem.points[mover.price.worst].memory;
    return result;
  }
  result.cut = std::move(mover.best);
  result.cost = mover.price.seconds;
  result.held = std::move(mover.price.held);
  result.isOptimal = isProven;
  result.lowerBound = isProven ? result.cost : getLowerBound(problem);
  return result;
}
