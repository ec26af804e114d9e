//===- ScheduleBound.cpp - what no schedule is below ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleBound.h"
#include <algorithm>
#include <cmath>
#include <queue>

using namespace tandem::pipeline;
using namespace tandem::pipeline::schedule;
using tandem::orders::ActionKind;

namespace {
/// Operation k of a letter begins behind the end of operation k - `distance` of
/// `other`.
struct Lag {
  unsigned other = 0;
  uint64_t distance = 1;
};

class BoundFinder {
public:
  explicit BoundFinder(const Model &model)
      : model(model), lags(model.letters.size()), heads(model.numOperations),
        tails(model.numOperations) {}
  double run();

private:
  void addLags();
  void addLimit(unsigned forward, unsigned input, unsigned weight);
  void addLag(unsigned letter, unsigned other, double number);
  template <typename Visit> void forEach(const Visit &visit) const;
  template <typename Visit>
  void forEachNeed(unsigned letter, unsigned index, const Visit &visit) const;
  void findHeads();
  void findTails();
  double schedule(const Machine &machine) const;

  const Model &model;
  std::vector<std::vector<Lag>> lags;
  /// Of operations: the earliest begin, and the least that follows their ends.
  std::vector<double> heads, tails;
};
} // namespace

void BoundFinder::addLag(unsigned letter, unsigned other, double number) {
  if (number < model.numMicrobatches)
    lags[letter].push_back({other, uint64_t(std::max(1.0, number))});
}

/// At most so many microbatches are between the begin of F and the end of W,
/// and at most so many wait for W as I runs.
void BoundFinder::addLimit(unsigned forward, unsigned input, unsigned weight) {
  double limit =
      model.machines[model.letters[forward].machine].limit * (1 + kSlack);
  const Letter &first = model.letters[forward];
  const Letter &second = model.letters[input];
  double activations = first.held.begin;
  double kept = -model.letters[weight].held.end;
  double least = std::min(activations, kept);
  if (least > 0)
    addLag(forward, weight, std::floor(limit / least));
  double most = activations + second.held.begin;
  if (kept > 0 && weight != input)
    addLag(input, weight, std::floor((limit - most) / kept) + 1);
}

void BoundFinder::addLags() {
  for (unsigned i = 0; i < model.letters.size(); ++i) {
    const Letter &letter = model.letters[i];
    if (letter.count > 1)
      lags[i].push_back({i, 1});
    if (letter.kind != ActionKind::Forward)
      continue;
    auto find = [&](ActionKind kind) {
      return model.find(letter.section, kind);
    };
    if (auto whole = find(ActionKind::Backward))
      addLimit(i, *whole, *whole);
    else if (auto weight = find(ActionKind::BackwardWeight))
      addLimit(i, *find(ActionKind::BackwardInput), *weight);
  }
}

/// Visits operations, each behind those that it waits for.
template <typename Visit> void BoundFinder::forEach(const Visit &visit) const {
  for (unsigned index = 0; index < model.numMicrobatches; ++index)
    for (unsigned letter : model.sequence) {
      unsigned count = model.letters[letter].count;
      // A sum comes with the last microbatch.
      if (count == model.numMicrobatches)
        visit(letter, index);
      else if (index + 1 == model.numMicrobatches)
        visit(letter, 0);
    }
}

/// Visits what an operation waits for, with the seconds in between.
template <typename Visit>
void BoundFinder::forEachNeed(unsigned number, unsigned index,
                              const Visit &visit) const {
  const Letter &letter = model.letters[number];
  for (const Arc &need : letter.needs)
    visit(need.letter, model.getNeeded(letter, index, need), need.seconds);
  for (const Lag &lag : lags[number])
    if (index >= lag.distance)
      visit(lag.other, model.letters[lag.other].first + index - lag.distance,
            0.0);
}

void BoundFinder::findHeads() {
  forEach([&](unsigned number, unsigned index) {
    const Letter &letter = model.letters[number];
    double &head = heads[letter.first + index];
    head = model.machines[letter.machine].head;
    forEachNeed(number, index,
                [&](unsigned other, unsigned needed, double seconds) {
                  head = std::max(head, heads[needed] + seconds +
                                            model.letters[other].seconds);
                });
  });
}

void BoundFinder::findTails() {
  std::vector<std::pair<unsigned, unsigned>> operations;
  forEach([&](unsigned number, unsigned index) {
    operations.emplace_back(number, index);
  });
  for (auto at = operations.rbegin(); at != operations.rend(); ++at) {
    const Letter &letter = model.letters[at->first];
    double &tail = tails[letter.first + at->second];
    tail = std::max(tail, model.machines[letter.machine].tail);
    forEachNeed(at->first, at->second,
                [&](unsigned, unsigned needed, double seconds) {
                  tails[needed] =
                      std::max(tails[needed], tail + letter.seconds + seconds);
                });
  }
}

/// At any time the operation with the longest tail runs of those that can.
double BoundFinder::schedule(const Machine &machine) const {
  struct Job {
    double head, seconds, tail;
  };
  std::vector<Job> jobs;
  for (unsigned number : machine.letters) {
    const Letter &letter = model.letters[number];
    for (unsigned i = 0; i < letter.count; ++i)
      jobs.push_back(
          {heads[letter.first + i], letter.seconds, tails[letter.first + i]});
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const Job &a, const Job &b) { return a.head < b.head; });
  std::priority_queue<std::pair<double, double>> open;
  double now = 0, bound = 0;
  for (size_t next = 0; next < jobs.size() || !open.empty();) {
    if (open.empty())
      now = std::max(now, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= now; ++next)
      open.emplace(jobs[next].tail, jobs[next].seconds);
    auto [tail, seconds] = open.top();
    open.pop();
    double end = now + seconds;
    if (next < jobs.size() && jobs[next].head < end) {
      open.emplace(tail, end - jobs[next].head);
      now = jobs[next].head;
      continue;
    }
    now = end;
    bound = std::max(bound, now + tail);
  }
  return bound;
}

double BoundFinder::run() {
  addLags();
  findHeads();
  findTails();
  double bound = 0;
  for (const Machine &machine : model.machines)
    bound = std::max(bound, schedule(machine));
  return bound;
}

double tandem::pipeline::schedule::findBound(const Model &model) {
  return BoundFinder(model).run();
}
