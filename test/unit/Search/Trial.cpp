//===- Trial.cpp - random problems with known optima ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trial.h"
#include "RandomProblem.h"
#include "TrialSeeds.h"
#include "tandem/Search/Exhaustive.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;

namespace {

/// Plans of one problem: larger ones are passed over, to keep the tests fast.
constexpr uint64_t kMaxVisited = 60'000;

/// What is remembered of a plan.
struct Record {
  double seconds;
  /// Seconds if everything ran one after the other.
  double serial;
  int64_t peak;
  /// Plans with the same signatures have the same number.
  unsigned signatures;
  bool isPinned, waits, joins;
};

/// The least of a record's numbers among those that pass a test.
template <typename Value, typename Test>
double getLeast(const std::vector<Record> &records, Value value, Test test) {
  double least = INFINITY;
  for (const Record &record : records)
    if (test(record))
      least = std::min(least, value(record));
  return least;
}

} // namespace

static double getSeconds(const Record &record) { return record.seconds; }
static double getSerial(const Record &record) { return record.serial; }

static bool isLess(double a, double b) { return a < b * (1 - 1e-9); }

/// Whether a stage of one strand lies between stages of several.
static bool joinsStrands(const std::vector<unsigned> &stageStrands) {
  unsigned numChanges = 0;
  bool wasSplit = false;
  for (unsigned strands : stageStrands) {
    numChanges += wasSplit != (strands > 1);
    wasSplit = strands > 1;
  }
  return numChanges >= 3;
}

static bool enumerate(const SearchProblem &problem,
                      const std::optional<Pin> &pin,
                      std::vector<Record> &records) {
  std::vector<unsigned> last;
  unsigned number = 0;
  auto visit = [&](const Plan &plan, const CostReport &report) {
    if (plan.signatures != last) {
      last = plan.signatures;
      ++number;
    }
    double serial = 0;
    for (const Step &step : report.steps)
      serial += step.collective + step.computation + step.ahead;
    bool isPinned =
        !pin || std::count(pin->signatures.begin(), pin->signatures.end(),
                           plan.signatures[pin->op]);
    records.push_back({report.seconds, serial, report.peak, number, isPinned,
                       !plan.waiting.empty(),
                       joinsStrands(report.stageStrands)});
    return true;
  };
  uint64_t numVisited;
  std::string error;
  return search::enumeratePlans(problem, kMaxVisited, visit, numVisited, error);
}

/// A limit that is mostly below the peak of the cheapest plan, and mostly not
/// below the smallest peak.
static int64_t drawLimit(const std::vector<Record> &records, Random &random) {
  int64_t least = std::numeric_limits<int64_t>::max(), peak = 0;
  double best = INFINITY;
  for (const Record &record : records) {
    if (!record.isPinned)
      continue;
    least = std::min(least, record.peak);
    if (record.seconds < best) {
      best = record.seconds;
      peak = record.peak;
    }
  }
  if (!random.chance(0.75))
    return std::numeric_limits<int64_t>::max();
  if (random.chance(0.03))
    return least - 1;
  return least + static_cast<int64_t>(random.real() *
                                      static_cast<double>(peak - least));
}

/// Whether the signatures of the optimum are not the best without overlap.
static bool changesForms(const std::vector<Record> &records, double optimum,
                         const std::function<bool(const Record &)> &isLegal) {
  auto isSerial = [&](const Record &record) {
    return isLegal(record) && !record.waits;
  };
  double best = getLeast(records, getSerial, isSerial);
  for (const Record &record : records) {
    if (!isLegal(record) || isLess(optimum, record.seconds))
      continue;
    double own = getLeast(records, getSerial, [&](const Record &other) {
      return isSerial(other) && other.signatures == record.signatures;
    });
    if (!isLess(best, own))
      return false;
  }
  return true;
}

/// Compares the optimum with those of the problem without one of its limits.
static void compare(const std::vector<Record> &records, Trial &trial) {
  int64_t limit = trial.problem.memoryLimit;
  auto fits = [&](const Record &record) { return record.peak <= limit; };
  auto isLegal = [&](const Record &record) {
    return record.isPinned && fits(record);
  };
  trial.optimum = getLeast(records, getSeconds, isLegal);
  if (std::isinf(trial.optimum))
    return;
  auto isPinned = [](const Record &record) { return record.isPinned; };
  trial.limitBinds =
      isLess(getLeast(records, getSeconds, isPinned), trial.optimum);
  trial.pinBinds = isLess(getLeast(records, getSeconds, fits), trial.optimum);
  trial.hasWaiting = isLess(
      trial.optimum, getLeast(records, getSeconds, [&](const Record &record) {
        return isLegal(record) && !record.waits;
      }));
  trial.joinsStrands =
      std::any_of(records.begin(), records.end(), [&](const Record &record) {
        return isLegal(record) && record.joins &&
               !isLess(trial.optimum, record.seconds);
      });
  trial.duplexChangesForms = trial.problem.getTimeAxis() >= 0 &&
                             changesForms(records, trial.optimum, isLegal);
}

static void describeGraph(Trial &trial) {
  unsigned numSpace = 0, numForward = 0;
  for (const Axis &axis : trial.problem.axes)
    numSpace += !axis.isTime;
  for (const Operator &op : trial.problem.operators) {
    bool isForward =
        op.pass == Pass::Forward && op.kind == Operator::Kind::Compute;
    numForward += isForward;
    trial.hasBranch |= isForward && op.name == "add";
  }
  trial.hasTwoAxes = numSpace == 2;
  trial.isLong = numForward > 3;
}

/// The trial of a seed, or nothing if the problem is too large.
static std::optional<Trial> makeTrial(uint64_t seed, bool isHidup) {
  Random random(seed + 0x5eed);
  RandomOptions options;
  options.isHidup = isHidup;
  // Most graphs are small, with many signatures; a large one has many divisions
  // into stages.
  uint64_t size = random.below(32);
  options.minForward = options.maxForward = size < 24    ? 3
                                            : size < 30  ? 4
                                            : size == 30 ? 5
                                                         : 6;
  options.maxPlans = uint64_t(1) << random.choose(10, 12);
  uint64_t kind = random.below(20);
  if (!isHidup && kind < 11) {
    options.kind = RandomOptions::Kind::Duplex;
    options.minForward = options.maxForward = 3;
    options.maxPlans = uint64_t(1) << 13;
  } else if (!isHidup && kind < 18) {
    options.kind =
        kind < 16 ? RandomOptions::Kind::Wait : RandomOptions::Kind::Join;
  }
  // Three forward operators leave no room for branches.
  options.hasBranch = seed % 5 == 0;
  if (options.hasBranch)
    options.minForward = options.maxForward = std::max(4u, options.maxForward);
  SearchProblem base = makeRandomProblem(seed, options);
  std::optional<Pin> pin;
  if (random.chance(0.9))
    pin = makeRandomPin(base, random);
  std::vector<Record> records;
  if (!enumerate(base, pin, records) || records.empty())
    return std::nullopt;
  if (std::none_of(records.begin(), records.end(),
                   [](const Record &record) { return record.isPinned; }))
    return std::nullopt;
  Trial trial;
  trial.seed = seed;
  trial.problem = pin ? applyPin(base, *pin) : base;
  if (!isHidup)
    trial.problem.memoryLimit = drawLimit(records, random);
  compare(records, trial);
  describeGraph(trial);
  // The enumeration has said what the optimum is.
  constexpr uint64_t kSearchEvery = 8;
  if (seed % kSearchEvery == 0)
    trial.oracle = search::searchExhaustive(trial.problem, {});
  return trial;
}

void test::runParallel(unsigned count,
                       const std::function<void(unsigned)> &work) {
  std::atomic<unsigned> next = 0;
  auto run = [&] {
    for (unsigned i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i)
    threads.emplace_back(run);
  run();
  for (std::thread &thread : threads)
    thread.join();
}

static std::vector<Trial> makeTrials(const std::vector<uint64_t> &seeds,
                                     bool isHidup) {
  std::vector<std::optional<Trial>> made(seeds.size());
  runParallel(seeds.size(),
              [&](unsigned i) { made[i] = makeTrial(seeds[i], isHidup); });
  std::vector<Trial> trials;
  for (std::optional<Trial> &trial : made)
    if (trial)
      trials.push_back(std::move(*trial));
  return trials;
}

static std::vector<uint64_t> getFirst(uint64_t count) {
  std::vector<uint64_t> seeds(count);
  std::iota(seeds.begin(), seeds.end(), 0);
  return seeds;
}

const std::vector<Trial> &test::getTrials() {
  static const std::vector<Trial> trials =
      makeTrials({std::begin(kTrialSeeds), std::end(kTrialSeeds)}, false);
  return trials;
}

const std::vector<Trial> &test::getHidupTrials() {
  static const std::vector<Trial> trials = makeTrials(getFirst(450), true);
  return trials;
}

static std::optional<Trial> makeRichTrial(uint64_t seed) {
  Random random(seed * 7 + 3);
  RandomOptions options;
  options.isRich = true;
  options.kind = static_cast<RandomOptions::Kind>(random.below(4));
  options.minForward = options.maxForward = random.chance(0.8) ? 3 : 4;
  options.maxPlans = uint64_t(1) << random.choose(9, 12);
  Trial trial;
  trial.seed = seed;
  trial.problem = makeRandomProblem(seed + 50'000, options);
  std::vector<Record> records;
  if (!enumerate(trial.problem, std::nullopt, records) || records.empty())
    return std::nullopt;
  trial.problem.memoryLimit = drawLimit(records, random);
  compare(records, trial);
  return trial;
}

std::vector<Trial> test::makeRichTrials(unsigned count) {
  std::vector<std::optional<Trial>> made(count);
  runParallel(count, [&](unsigned i) { made[i] = makeRichTrial(i); });
  std::vector<Trial> trials;
  for (std::optional<Trial> &trial : made)
    if (trial)
      trials.push_back(std::move(*trial));
  return trials;
}

std::vector<uint64_t> test::chooseSeeds(uint64_t count, unsigned number) {
  std::vector<Trial> all = makeTrials(getFirst(count), false);
  std::set<uint64_t> chosen;
  auto takeUpTo = [&](size_t limit, auto isWanted) {
    size_t taken = std::count_if(all.begin(), all.end(), [&](const Trial &t) {
      return chosen.count(t.seed) && isWanted(t);
    });
    for (const Trial &trial : all)
      if (taken < limit && chosen.size() < number && isWanted(trial))
        taken += chosen.insert(trial.seed).second;
  };
  // The rarest first; a little more than a quarter of each.
  size_t share = number * 27 / 100;
  takeUpTo(share, [](const Trial &t) { return t.duplexChangesForms; });
  takeUpTo(share, [](const Trial &t) { return t.hasWaiting; });
  takeUpTo(share, [](const Trial &t) { return t.pinBinds; });
  takeUpTo(number, [](const Trial &) { return true; });
  return {chosen.begin(), chosen.end()};
}
