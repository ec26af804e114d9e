//===- Tree.cpp - exact minima of sums, by elimination --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Sums/Tree.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

SumTree::SumTree(const SumModel &model) : model(model) {
  for (SumBucket &bucket : makeBuckets(model, size))
    buckets.push_back({std::move(bucket), {}, {}, {}});
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

namespace {
/// Eliminates on the graph of which variable meets which in a factor.
class Eliminator {
public:
  explicit Eliminator(const SumModel &model);

  std::vector<SumBucket> run(double &size);

private:
  void connect(unsigned a, unsigned b);
  double getBits(unsigned variable) const;
  void link();

  const SumModel &model;
  unsigned count;
  std::vector<std::vector<bool>> isNear;
  std::vector<std::vector<unsigned>> near;
  std::vector<double> bits;
  std::vector<SumBucket> buckets;
  std::vector<unsigned> bucketOf;
};
} // namespace

Eliminator::Eliminator(const SumModel &model)
    : model(model), count(model.variables.size()),
      isNear(count, std::vector<bool>(count)), near(count), bucketOf(count) {
  for (const SumFactor &factor : model.factors)
    for (unsigned a : factor.variables)
      for (unsigned b : factor.variables)
        connect(a, b);
  for (unsigned i = 0; i < count; ++i)
    bits.push_back(getBits(i));
}

void Eliminator::connect(unsigned a, unsigned b) {
  // A variable without a choice is in nobody's way.
  if (a == b || isNear[a][b] || model.variables[a].values.size() == 1 ||
      model.variables[b].values.size() == 1)
    return;
  isNear[a][b] = isNear[b][a] = true;
  near[a].push_back(b);
  near[b].push_back(a);
}

double Eliminator::getBits(unsigned variable) const {
  double sum = 0;
  for (unsigned other : near[variable])
    sum += std::log2(static_cast<double>(model.variables[other].values.size()));
  return sum;
}

std::vector<SumBucket> Eliminator::run(double &size) {
  std::vector<bool> isDone(count);
  for (unsigned round = 0; round < count; ++round) {
    unsigned best = count;
    for (unsigned i = 0; i < count; ++i)
      if (!isDone[i] && (best == count || bits[i] < bits[best] - 1e-9))
        best = i;
    isDone[best] = true;
    bucketOf[best] = round;
    SumBucket &bucket = buckets.emplace_back();
    bucket.variable = best;
    bucket.others = near[best];
    size += std::exp2(bits[best]) *
            static_cast<double>(model.variables[best].values.size());
    for (unsigned a : bucket.others) {
      std::erase(near[a], best);
      for (unsigned b : bucket.others)
        connect(a, b);
    }
    for (unsigned a : bucket.others)
      bits[a] = getBits(a);
  }
  link();
  return std::move(buckets);
}

/// Factors and buckets belong to the first bucket that eliminates one of their
/// variables; variables without a choice do not count.
void Eliminator::link() {
  auto getFirst = [&](const std::vector<unsigned> &variables) {
    unsigned first = ~0u;
    for (unsigned variable : variables)
      if (model.variables[variable].values.size() > 1)
        first = std::min(first, bucketOf[variable]);
    return first == ~0u ? bucketOf[variables.front()] : first;
  };
  for (unsigned i = 0; i < model.factors.size(); ++i)
    buckets[getFirst(model.factors[i].variables)].factors.push_back(i);
  for (unsigned i = 0; i < buckets.size(); ++i)
    if (!buckets[i].others.empty()) {
      buckets[i].parent = static_cast<int>(getFirst(buckets[i].others));
      buckets[buckets[i].parent].children.push_back(i);
    }
}

std::vector<SumBucket> tandem::search::makeBuckets(const SumModel &model,
                                                   double &size) {
  return Eliminator(model).run(size);
}

//===----------------------------------------------------------------------===//
// Up
//===----------------------------------------------------------------------===//

/// Of a table by the variables in its slots, the last one's roles side by side:
/// slot `i` has `getSize(i)` of them, and a value the one of `getRole(i,
/// value)`.
template <typename Sizes, typename Roles>
SumTree::Term SumTree::makeTerm(const Bucket &bucket,
                                const std::vector<double> &table,
                                const std::vector<unsigned> &variables,
                                Sizes getSize, Roles getRole) const {
  Term term{table.data(), {}};
  term.offsets.resize(bucket.others.size() + 1);
  for (size_t i = 0; i <= bucket.others.size(); ++i) {
    unsigned variable =
        i < bucket.others.size() ? bucket.others[i] : bucket.variable;
    term.offsets[i].assign(getCount(variable), 0);
    size_t stride = 1;
    for (size_t slot = variables.size(); slot-- > 0;) {
      if (variables[slot] == variable)
        for (size_t value = 0; value < getCount(variable); ++value)
          term.offsets[i][value] = stride * getRole(slot, value);
      stride *= getSize(slot);
    }
  }
  return term;
}

SumTree::Term SumTree::getTerm(const Bucket &bucket, unsigned index) const {
  const SumFactor &factor = model.factors[index];
  const std::vector<unsigned> &sizes = model.tables[factor.table].sizes;
  return makeTerm(
      bucket, entries[index], factor.variables,
      [&](size_t slot) { return sizes[slot]; },
      [&](size_t slot, size_t value) { return factor.roleOf[slot][value]; });
}

SumTree::Term SumTree::getTerm(const Bucket &bucket,
                               const Bucket &child) const {
  return makeTerm(
      bucket, child.up, child.others,
      [&](size_t slot) { return getCount(child.others[slot]); },
      [](size_t, size_t value) { return value; });
}

/// To the neighbours' next values, the last one's first.
void SumTree::advance(const Bucket &bucket,
                      std::vector<unsigned> &place) const {
  for (size_t other = place.size(); other-- > 0;) {
    if (++place[other] < getCount(bucket.others[other]))
      return;
    place[other] = 0;
  }
}

/// The sum of the bucket's terms, but for what its parent tells it.
void SumTree::fill(Bucket &bucket) {
  std::vector<Term> terms;
  for (unsigned factor : bucket.factors)
    terms.push_back(getTerm(bucket, factor));
  for (unsigned child : bucket.children)
    terms.push_back(getTerm(bucket, buckets[child]));
  size_t numOthers = bucket.others.size(), width = getCount(bucket.variable);
  size_t count = 1;
  for (unsigned other : bucket.others)
    count *= getCount(other);
  bucket.table.resize(count * width);
  std::vector<unsigned> place(numOthers);
  for (size_t i = 0; i < count; ++i) {
    double *row = bucket.table.data() + i * width;
    std::copy_n(unaries[bucket.variable].begin(), width, row);
    for (const Term &term : terms) {
      size_t base = 0;
      for (size_t other = 0; other < numOthers; ++other)
        base += term.offsets[other][place[other]];
      const size_t *offsets = term.offsets[numOthers].data();
      for (size_t value = 0; value < width; ++value)
        row[value] += term.entries[base + offsets[value]];
    }
    advance(bucket, place);
  }
}

void SumTree::minimize(Bucket &bucket) const {
  size_t width = getCount(bucket.variable);
  bucket.up.resize(bucket.table.size() / width);
  for (size_t i = 0; i < bucket.up.size(); ++i)
    bucket.up[i] = *std::min_element(bucket.table.begin() + i * width,
                                     bucket.table.begin() + (i + 1) * width);
}

double SumTree::solve(const SumPrices &prices, std::vector<unsigned> &choice) {
  entries.clear();
  for (unsigned i = 0; i < model.factors.size(); ++i)
    entries.push_back(model.getEntries(prices, i));
  unaries.assign(model.variables.size(), {});
  for (unsigned i = 0; i < model.variables.size(); ++i)
    for (unsigned value = 0; value < getCount(i); ++value)
      unaries[i].push_back(model.getUnary(prices, i, value));
  double sum = 0;
  for (Bucket &bucket : buckets) {
    fill(bucket);
    minimize(bucket);
    if (bucket.parent < 0)
      sum += bucket.up.front();
  }
  choice.assign(model.variables.size(), 0);
  for (size_t i = buckets.size(); i-- > 0;) {
    const Bucket &bucket = buckets[i];
    size_t place = 0, width = getCount(bucket.variable);
    for (unsigned other : bucket.others)
      place = place * getCount(other) + choice[other];
    auto row = bucket.table.begin() + place * width;
    choice[bucket.variable] = std::min_element(row, row + width) - row;
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Down
//===----------------------------------------------------------------------===//

/// The bucket's table has what its parent tells it; what it had from the child
/// is taken off again.
void SumTree::tellChild(const Bucket &bucket, Bucket &child) const {
  Term term = getTerm(bucket, child);
  size_t numOthers = bucket.others.size(), width = getCount(bucket.variable);
  child.down.assign(child.up.size(), kInfinity);
  std::vector<unsigned> place(numOthers);
  for (size_t i = 0; i < bucket.table.size() / width; ++i) {
    size_t base = 0;
    for (size_t other = 0; other < numOthers; ++other)
      base += term.offsets[other][place[other]];
    for (size_t value = 0; value < width; ++value) {
      double &least = child.down[base + term.offsets[numOthers][value]];
      least = std::min(least, bucket.table[i * width + value]);
    }
    advance(bucket, place);
  }
  for (size_t i = 0; i < child.down.size(); ++i)
    child.down[i] -= child.up[i];
}

std::vector<std::vector<double>> SumTree::getLeast() {
  std::vector<std::vector<double>> result(model.variables.size());
  double roots = 0;
  for (const Bucket &bucket : buckets)
    if (bucket.parent < 0)
      roots += bucket.up.front();
  for (size_t i = buckets.size(); i-- > 0;) {
    Bucket &bucket = buckets[i];
    size_t width = getCount(bucket.variable);
    // A root is told what the other roots cost.
    if (bucket.parent < 0)
      bucket.down.assign(1, roots - bucket.up.front());
    std::vector<double> &least = result[bucket.variable];
    least.assign(width, kInfinity);
    for (size_t j = 0; j < bucket.table.size(); ++j) {
      bucket.table[j] += bucket.down[j / width];
      least[j % width] = std::min(least[j % width], bucket.table[j]);
    }
    for (unsigned child : bucket.children)
      tellChild(bucket, buckets[child]);
  }
  return result;
}
