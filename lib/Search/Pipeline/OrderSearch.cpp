//===- OrderSearch.cpp - searches the order of a pipeline -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Pipeline/OrderSearch.h"
#include "Noise.h"
#include "ScheduleAnneal.h"
#include "ScheduleBound.h"
#include "ScheduleList.h"
#include "SchedulePace.h"
#include "ScheduleRules.h"
#include "tandem/Orders/Schedules.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Orders/VerifyOrder.h"
#include <algorithm>
#include <limits>

using namespace tandem::orders;
using namespace tandem::pipeline;
using namespace tandem::pipeline::schedule;

namespace {
/// Shares of the effort up to which rules run, microbatches come at a pace, and
/// lists are made again.
constexpr double kRuleShare = 0.06, kPaceShare = 0.4, kRelistShare = 0.8;
constexpr size_t kPoolSize = 8;
constexpr double kNever = std::numeric_limits<double>::infinity();

class OrderSearcher {
public:
  OrderSearcher(const ScheduleProblem &problem,
                const OrderSearchOptions &options)
      : problem(problem), options(options), model(makeModel(problem)),
        mirrored(mirror(model)), lister(model), mirroredLister(mirrored),
        timer(model), mirroredTimer(mirrored), random(options.seed) {}
  OrderSearchResult run();

private:
  std::string findExcess() const;
  void addNamed();
  void addOrder(const Order &order);
  double add(Rows rows);
  void runRules();
  Rows list(bool isMirrored, const std::vector<double> &keys, double wait,
            double mostIdle, const std::vector<double> *releases = nullptr);
  void pace();
  void relist();
  std::vector<double> getLateStarts(const Rows &rows, bool isMirrored);
  void anneal();
  bool ends(double share);
  /// Without a wish it grows with the problem.
  uint64_t getEffort() const {
    constexpr uint64_t kLeast = 30'000'000, kPerOperation = 60'000,
                       kMost = 200'000'000;
    uint64_t grown = kLeast + kPerOperation * model.numOperations;
    return options.effort ? options.effort : std::min(grown, kMost);
  }
  /// By the timing of rows.
  uint64_t countVisited() const {
    return model.numOperations * std::max<size_t>(1, model.samples.size());
  }
  bool isBest() const {
    return !pool.empty() && pool[0].cost <= bound * (1 + kSlack);
  }
  void finish();

  const ScheduleProblem &problem;
  const OrderSearchOptions &options;
  Model model, mirrored;
  ListScheduler lister, mirroredLister;
  Timer timer, mirroredTimer;
  Random random;
  /// The best ones, no two of one cost.
  std::vector<Scored> pool;
  double bound = 0;
  uint64_t effort = getEffort();
  OrderSearchResult result;
};
} // namespace

/// What one microbatch alone needs more than there is.
std::string OrderSearcher::findExcess() const {
  for (unsigned point = 0; point < model.numPoints; ++point) {
    const Machine &machine = model.machines[point];
    if (fits(machine.alone, machine.limit))
      continue;
    unsigned largest = 0;
    double most = -1;
    for (unsigned i = 0; i < problem.partition.sections.size(); ++i) {
      const Section &section = problem.partition.sections[i];
      double held = std::max(section.activations, section.kept.value_or(0));
      if (section.point == point && held > most) {
        most = held;
        largest = i;
      }
    }
    return "no order fits: point " + std::to_string(point) + " holds " +
           printQuantity(machine.alone) +
           " for one microbatch alone, which is " +
           printQuantity(machine.alone - machine.limit) +
           " above its limit of " + printQuantity(machine.limit) +
           "; section " + std::to_string(largest) + " holds " +
           printQuantity(most) + " of it";
  }
  return "";
}

/// The cost; infinity if the rows do not fit.
double OrderSearcher::add(Rows rows) {
  result.numVisited += countVisited();
  if (!fitsLimits(model, rows) || !timer.run(rows))
    return kNever;
  double cost = timer.getCost();
  Scored scored{std::move(rows), cost};
  auto place = std::lower_bound(
      pool.begin(), pool.end(), scored,
      [](const Scored &a, const Scored &b) { return a.cost < b.cost; });
  if (place != pool.end() && place->cost == cost)
    return cost;
  pool.insert(place, std::move(scored));
  if (pool.size() > kPoolSize)
    pool.pop_back();
  return cost;
}

void OrderSearcher::addOrder(const Order &order) {
  std::string error;
  OrderLimits limits;
  limits.numMicrobatches = problem.numMicrobatches;
  if (verifyOrder(problem.partition, order, limits, "", error))
    add(makeRows(model, order));
}

/// Orders with a name that can have the sections as they lie.
void OrderSearcher::addNamed() {
  std::vector<unsigned> places;
  for (const Section &section : problem.partition.sections)
    places.push_back(section.point);
  for (const Schedule &schedule : getSchedules()) {
    std::string error;
    std::optional<Order> order =
        schedule.place(places, model.numPoints, problem.numMicrobatches, error);
    if (order)
      addOrder(*order);
  }
}

bool OrderSearcher::ends(double share) {
  return result.numVisited > share * effort || isBest() ||
         options.deadline.isOver();
}

Rows OrderSearcher::list(bool isMirrored, const std::vector<double> &keys,
                         double wait, double mostIdle,
                         const std::vector<double> *releases) {
  ListScheduler &scheduler = isMirrored ? mirroredLister : lister;
  uint64_t before = scheduler.getNumVisited();
  Rows rows = scheduler.run(keys, wait, mostIdle, releases);
  result.numVisited += scheduler.getNumVisited() - before;
  return isMirrored ? schedule::mirror(std::move(rows)) : rows;
}

void OrderSearcher::runRules() {
  bool hasSeveral =
      problem.partition.sections.size() > problem.partition.numPoints;
  for (double wait : {0.0, 0.5, 1.0})
    for (const Rule &rule : getRules(hasSeveral))
      for (bool isMirrored : {false, true}) {
        if (ends(kRuleShare) && !pool.empty())
          return;
        add(list(isMirrored, makeKeys(model, rule), wait, kNever));
      }
}

/// Lists at any pace, and at paces near the best one.
void OrderSearcher::pace() {
  std::vector<Rule> rules = getRules(true);
  double period = getPeriod(model), least = kNever;
  Pace best;
  while (!ends(kPaceShare)) {
    bool isNew = least == kNever || random.below(2);
    Pace now = isNew ? Pace::make(model.numPoints, model.numMicrobatches,
                                  rules.size(), random)
                     : best.vary(random);
    std::vector<double> releases = makeReleases(model, now);
    double cost = add(
        list(false, now.isByTime ? releases : makeKeys(model, rules[now.rule]),
             now.wait, now.mostIdle * period, &releases));
    if (cost < least) {
      least = cost;
      best = now;
    }
  }
}

/// Of operations in a model or its mirror: the negative of the time from their
/// begin to the end of all, in these rows.
std::vector<double> OrderSearcher::getLateStarts(const Rows &rows,
                                                 bool isMirrored) {
  Timer &reverse = isMirrored ? timer : mirroredTimer;
  reverse.run(isMirrored ? rows : schedule::mirror(rows));
  std::vector<double> starts(model.numOperations);
  // Operation k of a letter is the last but k of the mirror.
  for (const Letter &letter : model.letters)
    for (unsigned i = 0; i < letter.count; ++i)
      starts[letter.first + i] =
          -reverse.getEnd(letter.first + letter.count - 1 - i);
  return starts;
}

/// Lists again by the latest begins that a schedule allows, forth and back,
/// with some noise.
void OrderSearcher::relist() {
  double mean = 0;
  for (const Letter &letter : model.letters)
    mean += letter.seconds * letter.count / model.numOperations;
  double period = getPeriod(model);
  while (!ends(kRelistShare)) {
    Rows rows = pool[random.below(pool.size())].rows;
    bool isMirrored = random.below(2);
    std::vector<double> keys = getLateStarts(rows, isMirrored);
    double noise = mean * 4 * random.share() * random.share();
    for (double &key : keys)
      key += noise * (random.share() - 0.5);
    result.numVisited += model.numOperations;
    bool isPatient = random.below(2);
    add(list(isMirrored, keys, isPatient ? 1 : random.share(),
             isPatient ? 3 * period * random.share() * random.share()
                       : kNever));
  }
}

/// Rounds of growing length, from one of the best each.
void OrderSearcher::anneal() {
  Annealer annealer(model, random.next());
  uint64_t moves = 2000;
  for (unsigned round = 0; !ends(1); ++round) {
    uint64_t left = effort - result.numVisited;
    uint64_t number = std::min<uint64_t>(moves, left / countVisited() + 1);
    size_t start = round % 2 ? random.below(pool.size()) : 0;
    double heat = 0.05 + 0.6 * random.share() * random.share();
    Scored found = annealer.run(pool[start], number, heat, bound * (1 + kSlack),
                                [&] { return ends(1); });
    result.numVisited += number * countVisited();
    add(std::move(found.rows));
    if (round % 4 == 3)
      moves *= 2;
  }
}

/// The end of a point's last action or sum.
static double getEnd(const Partition &partition, const Simulation &simulation,
                     unsigned point) {
  double end = simulation.points[point].span.end;
  for (unsigned i = 0; i < partition.sections.size(); ++i)
    if (partition.sections[i].point == point)
      end = std::max(end, simulation.sums[i].end);
  return end;
}

/// What the objective says of a simulation.
static double getCost(const ScheduleProblem &problem,
                      const Simulation &simulation) {
  if (problem.objective == OrderObjective::Makespan)
    return simulation.end;
  double longest = 0;
  for (unsigned i = 0; i < simulation.points.size(); ++i)
    longest = std::max(longest, getEnd(problem.partition, simulation, i) -
                                    simulation.points[i].span.begin);
  return longest;
}

/// Over samples that the search does not have.
static double getMeanCost(const ScheduleProblem &problem, const Order &order) {
  constexpr unsigned kFirst = 1000, kNumSamples = 200;
  double sum = 0;
  for (unsigned sample = kFirst; sample < kFirst + kNumSamples; ++sample) {
    auto getNoisy = [&](Action action, ActionKind kind) {
      action.kind = kind;
      return getSeconds(problem.partition.sections[action.section], kind) *
             getNoiseFactor(*problem.noise, sample, action);
    };
    sum += getCost(problem,
                   simulate(problem.partition, order, [&](const Action &each) {
                     if (each.kind != ActionKind::Backward)
                       return getNoisy(each, each.kind);
                     // I and W have their own noise.
                     return getNoisy(each, ActionKind::BackwardInput) +
                            getNoisy(each, ActionKind::BackwardWeight);
                   }));
  }
  return sum / kNumSamples;
}

std::optional<OrderSearchResult>
tandem::pipeline::measureOrder(const ScheduleProblem &problem,
                               const Order &order, std::string_view name,
                               std::string &error) {
  OrderLimits limits{problem.numMicrobatches, problem.limits};
  if (!verifyOrder(problem.partition, order, limits, name, error))
    return std::nullopt;
  Simulation simulation = simulate(problem.partition, order);
  OrderSearchResult result;
  result.order = order;
  result.makespan = simulation.end;
  for (unsigned i = 0; i < simulation.points.size(); ++i) {
    const PointTime &point = simulation.points[i];
    result.peaks.push_back(point.peak);
    result.lowerBound = std::max(result.lowerBound, point.busy);
    result.longestSpan =
        std::max(result.longestSpan,
                 getEnd(problem.partition, simulation, i) - point.span.begin);
  }
  result.cost = problem.noise ? getMeanCost(problem, order)
                              : getCost(problem, simulation);
  return result;
}

/// Verifies and times the order by what knows nothing of the search.
void OrderSearcher::finish() {
  std::string error;
  auto measured =
      measureOrder(problem, makeOrder(model, pool[0].rows), "order", error);
  if (!measured) {
    result.error = "the order that was found is not legal, which is a mistake "
                   "of the search: " +
                   error;
    return;
  }
  measured->numVisited = result.numVisited;
  if (model.isExact)
    measured->lowerBound = std::max(measured->lowerBound, bound - model.offset);
  measured->lowerBound = std::min(measured->lowerBound, measured->cost);
  result = std::move(*measured);
}

OrderSearchResult OrderSearcher::run() {
  result.error = findExcess();
  if (!result.error.empty())
    return std::move(result);
  bound = findBound(model);
  addNamed();
  for (const Order &order : options.starts)
    addOrder(order);
  runRules();
  pace();
  relist();
  anneal();
  finish();
  return std::move(result);
}

/// The order without noise is a start, and the answer where it is the best in
/// the mean, too.
static OrderSearchResult searchNoisy(const ScheduleProblem &problem,
                                     OrderSearchOptions options) {
  ScheduleProblem plain = problem;
  plain.noise.reset();
  Deadline whole = std::exchange(options.deadline, options.deadline.getHalf());
  OrderSearchResult known = searchOrder(plain, options);
  options.deadline = std::move(whole);
  if (!known.order)
    return known;
  options.starts.push_back(*known.order);
  OrderSearchResult result = OrderSearcher(problem, options).run();
  std::string error;
  auto measured = measureOrder(problem, *known.order, "order", error);
  if (!measured || !result.order)
    return result;
  result.lowerBound = std::min(known.lowerBound, result.cost);
  if (measured->cost <= result.cost) {
    measured->lowerBound = std::min(known.lowerBound, measured->cost);
    measured->numVisited = result.numVisited;
    result = std::move(*measured);
    result.costOfPlain = result.cost;
  } else {
    result.costOfPlain = measured->cost;
  }
  result.numVisited += known.numVisited;
  return result;
}

ScheduleProblem tandem::pipeline::takeAim(ScheduleProblem problem,
                                          const OrderAim &aim) {
  problem.objective = aim.objective;
  for (orders::Edge &edge : problem.partition.edges)
    edge.seconds *= aim.slower;
  return problem;
}

OrderSearchResult
tandem::pipeline::searchOrder(const ScheduleProblem &problem,
                              const OrderSearchOptions &options) {
  return problem.noise ? searchNoisy(problem, options)
                       : OrderSearcher(problem, options).run();
}
