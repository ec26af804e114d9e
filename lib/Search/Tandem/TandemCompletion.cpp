//===- TandemCompletion.cpp - what labels cost at least -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemCompletion.h"
#include <algorithm>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::search;

/// Of what is impossible; products with nothing are nothing.
constexpr double kForbidden = 1e30; // s
/// Values of lambda that are tried, from 0 to 1.
constexpr int kSteps = 4;

Completion::Completion(const Facts &facts, ChangeTable &table,
                       const std::vector<std::vector<unsigned>> &signatures)
    : facts(facts), signatures(signatures), distances(facts.tensors.size()) {
  addPrices();
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor)
    addDistances(tensor, table);
  addRest();
}

/// Of the largest sum over the queues each one is an equal share.
void Completion::addPrices() {
  Interference interference(facts.problem);
  double share = 1.0 / std::max(1u, facts.problem.getNumQueues());
  for (int i = 0; i <= kSteps; ++i) {
    double lambda = static_cast<double>(i) / kSteps;
    Prices next;
    next.computation = lambda + (1 - lambda) * interference.gamma;
    next.collective = share * (1 - lambda + lambda * interference.beta);
    next.overTime = std::min(next.computation, next.collective);
    prices.push_back(next);
  }
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

unsigned Completion::Distances::find(const Layout &layout) const {
  return std::lower_bound(layouts.begin(), layouts.end(), layout) -
         layouts.begin();
}

void Completion::addDistances(unsigned tensor, ChangeTable &table) {
  const TensorFacts &info = facts.tensors[tensor];
  Distances &made = distances[tensor];
  for (const Signature &signature :
       facts.problem.getSignatures(info.producer)) {
    const Layout &layout = signature.results[info.result];
    made.layouts.insert(made.layouts.end(), {layout, facts.getSummed(layout)});
  }
  for (const TensorUse &use : info.uses)
    for (const Signature &signature : facts.problem.getSignatures(use.op))
      made.layouts.push_back(signature.operands[use.operand]);
  std::sort(made.layouts.begin(), made.layouts.end());
  made.layouts.erase(std::unique(made.layouts.begin(), made.layouts.end()),
                     made.layouts.end());
  for (const Layout &from : made.layouts)
    for (const Layout &to : made.layouts) {
      const ChangeCost &change = table.getCost(tensor, from, to);
      made.isOverTime |= change.local > 0;
      made.seconds.push_back(from == to ? 0
                             : change.isPossible
                                 ? change.getTotal(facts.numStrands)
                                 : kForbidden);
    }
  for (const TensorUse &use : info.uses) {
    made.least.emplace_back(made.layouts.size(), kForbidden);
    for (unsigned from = 0; from < made.layouts.size(); ++from)
      for (unsigned index : signatures[use.op]) {
        unsigned to = made.find(
            facts.problem.getSignatures(use.op)[index].operands[use.operand]);
        double &best = made.least.back()[from];
        best = std::min(best, made.get(from, to));
      }
  }
}

/// The dearest of the changes that users need.
double Completion::getLeastChange(unsigned tensor, const Layout &from) const {
  const Distances &made = distances[tensor];
  double dearest = 0;
  for (const std::vector<double> &toUse : made.least)
    dearest = std::max(dearest, toUse[made.find(from)]);
  return dearest;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// What an operator computes, for all strands, and what its results need.
Completion::Seconds Completion::getOwn(unsigned op, unsigned index) const {
  const Signature &signature = facts.problem.getSignatures(op)[index];
  Seconds seconds;
  if (!facts.isArgument(op))
    seconds.computation =
        signature.seconds * static_cast<double>(facts.isPerStrand(signature)
                                                    ? facts.numStrands
                                                    : 1);
  const std::vector<unsigned> &results = facts.problem.operators[op].results;
  for (unsigned i = 0; i < results.size(); ++i)
    getChanges(seconds, results[i]) +=
        getLeastChange(results[i], signature.results[i]);
  return seconds;
}

void Completion::addRest() {
  unsigned numOperators = facts.problem.operators.size();
  own.resize(numOperators);
  least.resize(numOperators);
  rest.assign(numOperators + 1, std::vector<double>(prices.size()));
  for (unsigned op = numOperators; op-- > 0;) {
    for (unsigned index : signatures[op])
      own[op].push_back(getOwn(op, index));
    for (unsigned i = 0; i < prices.size(); ++i) {
      double best = kForbidden;
      for (const Seconds &seconds : own[op])
        best = std::min(best, seconds.get(prices[i]));
      least[op].push_back(best);
      rest[op][i] = rest[op + 1][i] + best;
    }
  }
}

//===----------------------------------------------------------------------===//
// Labels
//===----------------------------------------------------------------------===//

/// Sums over time and copies that wait are paid for where the tensor is made.
/// The next user is asked together with its other operands, unless a later one
/// needs a dearer change.
void Completion::addNeed(const LiveTensor &live) {
  const Distances &made = distances[live.tensor];
  Need need;
  need.tensor = live.tensor;
  need.use = live.numUsed;
  need.op = facts.tensors[live.tensor].uses[need.use].op;
  need.firstSource = sources.size();
  sources.push_back(made.find(live.produced));
  if (live.isSummed)
    sources.push_back(made.find(facts.getSummed(live.produced)));
  for (const LiveCopy &copy : live.copies)
    sources.push_back(made.find(copy.layout));
  for (const WaitGuess &guess : live.waits)
    sources.push_back(made.find(guess.layout));
  need.endSource = sources.size();
  double dearest = 0, next = 0;
  for (size_t use = need.use; use < made.least.size(); ++use) {
    double best = kForbidden;
    for (size_t i = need.firstSource; i < need.endSource; ++i)
      best = std::min(best, made.least[use][sources[i]]);
    dearest = std::max(dearest, best);
    if (use == need.use)
      next = best;
  }
  if (dearest > next)
    getChanges(later, live.tensor) += dearest;
  else
    needs.push_back(need);
}

/// Outputs in the form of an argument, of tensors that are not made yet.
void Completion::addOutputs(const Label &label, unsigned op) {
  for (auto [group, signature] : label.groups)
    for (unsigned output = op + 1; output <= facts.lastOfGroup[group];
         ++output) {
      if (facts.groupOf[output] != group)
        continue;
      const std::vector<unsigned> &operands =
          facts.problem.operators[output].operands;
      for (unsigned i = 0; i < operands.size(); ++i) {
        unsigned producer = facts.tensors[operands[i]].producer;
        if (producer <= op)
          continue;
        Need need{producer, operands[i], 0, 0, 0};
        need.isResult = true;
        need.wanted = distances[operands[i]].find(
            facts.problem.getSignatures(output)[signature].operands[i]);
        needs.push_back(need);
      }
    }
}

/// What a signature of its operator, `index`, needs.
void Completion::addChange(Seconds &seconds, const Need &need,
                           unsigned index) const {
  const Distances &made = distances[need.tensor];
  const Signature &signature = facts.problem.getSignatures(need.op)[index];
  const TensorFacts &info = facts.tensors[need.tensor];
  double &sum = getChanges(seconds, need.tensor);
  if (need.isResult) {
    const Layout &from = signature.results[info.result];
    sum += std::max(0.0, made.get(made.find(from), need.wanted) -
                             getLeastChange(need.tensor, from));
    return;
  }
  unsigned to = made.find(signature.operands[info.uses[need.use].operand]);
  double best = kForbidden;
  for (size_t i = need.firstSource; i < need.endSource; ++i)
    best = std::min(best, made.get(sources[i], to));
  sum += best;
}

/// All that one operator needs.
void Completion::addNeeds(const Need *begin, const Need *end,
                          const Label &label) {
  unsigned op = begin->op;
  std::vector<double> best(prices.size(), kForbidden);
  for (size_t place = 0; place < signatures[op].size(); ++place) {
    unsigned index = signatures[op][place];
    bool isLeft = std::none_of(
        label.groups.begin(), label.groups.end(), [&](const auto &entry) {
          return entry.first == facts.groupOf[op] && entry.second != index;
        });
    if (!isLeft)
      continue;
    Seconds seconds = own[op][place];
    for (const Need *need = begin; need != end; ++need)
      addChange(seconds, *need, index);
    for (size_t i = 0; i < prices.size(); ++i)
      best[i] = std::min(best[i], seconds.get(prices[i]));
  }
  for (size_t i = 0; i < prices.size(); ++i)
    sums[i] += best[i] - least[op][i];
}

double Completion::getLeast(const Label &label, unsigned op) {
  const StageWork &work = label.work;
  double strands = static_cast<double>(facts.numStrands);
  auto sum = [](const auto &seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  };
  later = Seconds();
  later.computation = label.line.previous + work.computationOnce + work.sums +
                      strands * work.computationPerStrand;
  later.collective = sum(work.collectiveOnce) +
                     strands * sum(work.collectivePerStrand) +
                     label.line.waiting + label.line.arriving + label.leaving;
  needs.clear();
  sources.clear();
  for (const LiveTensor &live : label.tensors)
    addNeed(live);
  addOutputs(label, op);
  std::sort(needs.begin(), needs.end(),
            [](const Need &a, const Need &b) { return a.op < b.op; });
  sums = rest[op + 1];
  for (size_t begin = 0, end; begin < needs.size(); begin = end) {
    for (end = begin; end < needs.size() && needs[end].op == needs[begin].op;)
      ++end;
    addNeeds(&needs[begin], &needs[begin] + (end - begin), label);
  }
  double most = 0;
  for (size_t i = 0; i < prices.size(); ++i)
    most = std::max(most, sums[i] + later.get(prices[i]));
  return label.line.seconds + most;
}
