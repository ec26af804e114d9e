//===- TandemSparse.cpp - exact minima below a limit ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemSparse.h"
#include "TandemTree.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>

using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Keys of combinations have 64 bits.
constexpr double kMaxBits = 62;

namespace {
using Table = std::unordered_map<uint64_t, double>;

/// Something that costs: a factor, or what another bucket tells. Its variables
/// come in the order in which the bucket decides them; per number of variables
/// that are decided, the least that it costs.
struct Term {
  /// Per variable that is decided: the number by value, and how many there are.
  std::vector<std::vector<uint64_t>> numbers;
  std::vector<uint64_t> radices;
  std::vector<std::vector<double>> dense;
  std::vector<Table> sparse;

  double get(size_t depth, uint64_t place) const {
    if (!dense.empty())
      return dense[depth][place];
    auto found = sparse[depth].find(place);
    return found == sparse[depth].end() ? kInfinity : found->second;
  }
};

struct Bucket : SumBucket {
  /// By the values of `others`: what it tells its parent, and the parent it.
  Table up, down;
};

class Sparse {
public:
  Sparse(const SumModel &model, const SumDual &dual, double limit,
         uint64_t maxSteps);

  SparseResult run();

private:
  void start(const Bucket &bucket, bool isDown);
  void addFactor(unsigned factor);
  void addTable(const std::vector<unsigned> &variables, const Table &table);
  std::vector<unsigned> getDepths(const std::vector<unsigned> &variables) const;
  void arrange(const Bucket &bucket);
  bool descend(size_t depth, double sum);
  bool listUp(Bucket &bucket);
  bool listDown(Bucket &bucket);
  void choose();
  uint64_t getKey(const std::vector<unsigned> &variables) const;
  double getBits(const std::vector<unsigned> &variables) const;
  size_t getCount(unsigned variable) const {
    return model.variables[variable].values.size();
  }

  const SumModel &model;
  const SumDual &dual;
  double limit, bound = 0;
  uint64_t maxSteps;
  SparseResult result;
  std::vector<Bucket> buckets;
  /// Per variable and value, beyond the least one.
  std::vector<std::vector<double>> unaries;
  std::vector<double> leastEntries; // per factor
  //--- Of the bucket at hand.
  /// Its variables, its own first.
  std::vector<unsigned> order;
  std::vector<Term> terms;
  /// Per depth: the terms that the variable is in.
  std::vector<std::vector<unsigned>> termsAt;
  /// Per term: variables decided, and where that is in its tables.
  std::vector<size_t> depths;
  std::vector<uint64_t> places;
  std::vector<unsigned> values; // per variable of the model
  /// Called with the sum of each combination.
  std::function<void(double)> visit;
};
} // namespace

Sparse::Sparse(const SumModel &model, const SumDual &dual, double limit,
               uint64_t maxSteps)
    : model(model), dual(dual), maxSteps(maxSteps),
      values(model.variables.size()) {
  double size = 0;
  for (SumBucket &bucket : makeBuckets(model, size))
    buckets.push_back({std::move(bucket), {}, {}});
  for (unsigned i = 0; i < model.variables.size(); ++i) {
    std::vector<double> &unary = unaries.emplace_back();
    for (unsigned value = 0; value < getCount(i); ++value)
      unary.push_back(dual.getUnary(i, value));
    double least = *std::min_element(unary.begin(), unary.end());
    for (double &entry : unary)
      entry -= least;
    bound += least;
  }
  for (unsigned i = 0; i < model.factors.size(); ++i) {
    std::vector<double> table = dual.getTable(i);
    leastEntries.push_back(*std::min_element(table.begin(), table.end()));
    bound += leastEntries.back();
  }
  // From here on all is what it is beyond the bound.
  this->limit = limit - bound;
}

uint64_t Sparse::getKey(const std::vector<unsigned> &variables) const {
  uint64_t key = 0;
  for (unsigned variable : variables)
    key = key * getCount(variable) + values[variable];
  return key;
}

//===----------------------------------------------------------------------===//
// A bucket's terms
//===----------------------------------------------------------------------===//

/// The bucket's own variable first, then always one that most terms have in
/// which something is decided.
void Sparse::arrange(const Bucket &bucket) {
  order.assign(1, bucket.variable);
  std::vector<std::vector<unsigned>> scopes;
  for (unsigned factor : bucket.factors)
    scopes.push_back(model.factors[factor].variables);
  for (unsigned child : bucket.children)
    scopes.push_back(buckets[child].others);
  std::vector<unsigned> left = bucket.others;
  auto isIn = [](unsigned variable, const std::vector<unsigned> &list) {
    return std::find(list.begin(), list.end(), variable) != list.end();
  };
  while (!left.empty()) {
    double most = -1;
    unsigned best = 0;
    for (unsigned variable : left) {
      double score = 0;
      for (const std::vector<unsigned> &scope : scopes) {
        if (!isIn(variable, scope))
          continue;
        size_t open = 0;
        for (unsigned other : scope)
          open += isIn(other, left);
        score += 1.0 / static_cast<double>(open);
      }
      if (score > most) {
        most = score;
        best = variable;
      }
    }
    order.push_back(best);
    std::erase(left, best);
  }
}

std::vector<unsigned>
Sparse::getDepths(const std::vector<unsigned> &variables) const {
  std::vector<unsigned> result;
  for (unsigned depth = 0; depth < order.size(); ++depth)
    if (std::find(variables.begin(), variables.end(), order[depth]) !=
        variables.end())
      result.push_back(depth);
  return result;
}

void Sparse::addFactor(unsigned index) {
  const SumFactor &factor = model.factors[index];
  const std::vector<unsigned> &sizes = model.tables[factor.table].sizes;
  Term term;
  std::vector<unsigned> slots;
  for (unsigned depth : getDepths(factor.variables)) {
    unsigned slot = std::find(factor.variables.begin(), factor.variables.end(),
                              order[depth]) -
                    factor.variables.begin();
    slots.push_back(slot);
    term.numbers.emplace_back(factor.roleOf[slot].begin(),
                              factor.roleOf[slot].end());
    term.radices.push_back(sizes[slot]);
    termsAt[depth].push_back(terms.size());
  }
  uint64_t size = 1;
  term.dense.emplace_back(1, kInfinity);
  for (uint64_t radix : term.radices)
    term.dense.emplace_back(size *= radix, kInfinity);
  // Slots without a choice have one role.
  std::vector<double> table = dual.getTable(index);
  std::vector<unsigned> place(sizes.size());
  for (double entry : table) {
    entry -= leastEntries[index];
    uint64_t at = 0;
    term.dense[0][0] = std::min(term.dense[0][0], entry);
    for (size_t i = 0; i < slots.size(); ++i) {
      at = at * sizes[slots[i]] + place[slots[i]];
      term.dense[i + 1][at] = std::min(term.dense[i + 1][at], entry);
    }
    for (unsigned slot = place.size(); slot-- > 0;) {
      if (++place[slot] < sizes[slot])
        break;
      place[slot] = 0;
    }
  }
  terms.push_back(std::move(term));
}

void Sparse::addTable(const std::vector<unsigned> &variables,
                      const Table &table) {
  Term term;
  std::vector<unsigned> depthsOf = getDepths(variables);
  std::vector<size_t> positions;
  for (unsigned depth : depthsOf) {
    unsigned variable = order[depth];
    positions.push_back(
        std::find(variables.begin(), variables.end(), variable) -
        variables.begin());
    std::vector<uint64_t> &numbers = term.numbers.emplace_back();
    for (uint64_t value = 0; value < getCount(variable); ++value)
      numbers.push_back(value);
    term.radices.push_back(getCount(variable));
    termsAt[depth].push_back(terms.size());
  }
  term.sparse.resize(positions.size() + 1);
  std::vector<uint64_t> digits(variables.size());
  for (auto [key, cost] : table) {
    uint64_t rest = key;
    for (size_t i = variables.size(); i-- > 0;) {
      digits[i] = rest % getCount(variables[i]);
      rest /= getCount(variables[i]);
    }
    uint64_t at = 0;
    for (size_t i = 0; i <= positions.size(); ++i) {
      if (i > 0)
        at = at * term.radices[i - 1] + digits[positions[i - 1]];
      auto [entry, isNew] = term.sparse[i].try_emplace(at, cost);
      entry->second = std::min(entry->second, cost);
    }
  }
  terms.push_back(std::move(term));
}

void Sparse::start(const Bucket &bucket, bool isDown) {
  arrange(bucket);
  terms.clear();
  termsAt.assign(order.size(), {});
  for (unsigned child : bucket.children)
    addTable(buckets[child].others, buckets[child].up);
  for (unsigned factor : bucket.factors)
    addFactor(factor);
  if (isDown)
    addTable(bucket.others, bucket.down);
  depths.assign(terms.size(), 0);
  places.assign(terms.size(), 0);
}

double Sparse::getBits(const std::vector<unsigned> &variables) const {
  double bits = 0;
  for (unsigned variable : variables)
    bits += std::log2(static_cast<double>(getCount(variable)));
  return bits;
}

/// Decides the variable at `depth`; `sum` is the least that the terms and what
/// was decided cost. False if that takes too long.
bool Sparse::descend(size_t depth, double sum) {
  if (++result.numSteps > maxSteps)
    return false;
  if (depth == order.size()) {
    visit(sum);
    return true;
  }
  unsigned variable = order[depth];
  std::vector<std::pair<uint64_t, double>> before;
  for (unsigned term : termsAt[depth])
    before.emplace_back(places[term],
                        terms[term].get(depths[term], places[term]));
  bool isDone = true;
  for (unsigned value = 0; value < getCount(variable) && isDone; ++value) {
    double next = sum + (depth == 0 ? unaries[variable][value] : 0);
    for (size_t i = 0; i < before.size() && next < limit; ++i) {
      unsigned index = termsAt[depth][i];
      const Term &term = terms[index];
      size_t known = depths[index];
      places[index] =
          before[i].first * term.radices[known] + term.numbers[known][value];
      next += term.get(known + 1, places[index]) - before[i].second;
    }
    if (next >= limit)
      continue;
    values[variable] = value;
    for (unsigned index : termsAt[depth])
      ++depths[index];
    isDone = descend(depth + 1, next);
    for (unsigned index : termsAt[depth])
      --depths[index];
  }
  for (size_t i = 0; i < before.size(); ++i)
    places[termsAt[depth][i]] = before[i].first;
  return isDone;
}

//===----------------------------------------------------------------------===//
// Up and down
//===----------------------------------------------------------------------===//

static double getStart(const std::vector<Term> &terms) {
  double sum = 0;
  for (const Term &term : terms)
    sum += term.get(0, 0);
  return sum;
}

bool Sparse::listUp(Bucket &bucket) {
  start(bucket, false);
  visit = [&](double sum) {
    auto [entry, isNew] = bucket.up.try_emplace(getKey(bucket.others), sum);
    entry->second = std::min(entry->second, sum);
  };
  double least = getStart(terms);
  return least >= limit || descend(0, least);
}

bool Sparse::listDown(Bucket &bucket) {
  start(bucket, true);
  std::vector<double> &least = result.leastOf[bucket.variable];
  visit = [&](double sum) {
    double &own = least[values[bucket.variable]];
    own = std::min(own, bound + sum);
    for (unsigned index : bucket.children) {
      Bucket &child = buckets[index];
      uint64_t key = getKey(child.others);
      double rest = sum - child.up.find(key)->second;
      auto [entry, isNew] = child.down.try_emplace(key, rest);
      entry->second = std::min(entry->second, rest);
    }
  };
  double begin = getStart(terms);
  return begin >= limit || descend(0, begin);
}

/// Going down, each variable takes the value that is the least for what its
/// neighbours took.
void Sparse::choose() {
  result.choice.assign(model.variables.size(), 0);
  std::fill(values.begin(), values.end(), 0);
  for (size_t i = buckets.size(); i-- > 0;) {
    Bucket &bucket = buckets[i];
    double least = kInfinity;
    unsigned best = 0;
    std::vector<unsigned> &choice = result.choice;
    for (unsigned value = 0; value < getCount(bucket.variable); ++value) {
      choice[bucket.variable] = values[bucket.variable] = value;
      double sum = unaries[bucket.variable][value];
      for (unsigned child : bucket.children) {
        auto entry = buckets[child].up.find(getKey(buckets[child].others));
        sum += entry == buckets[child].up.end() ? kInfinity : entry->second;
      }
      for (unsigned factor : bucket.factors)
        sum += dual.getEntry(factor, choice) - leastEntries[factor];
      if (sum < least) {
        least = sum;
        best = value;
      }
    }
    choice[bucket.variable] = values[bucket.variable] = best;
  }
}

SparseResult Sparse::run() {
  result.least = kInfinity;
  for (unsigned i = 0; i < model.variables.size(); ++i)
    result.leastOf.emplace_back(getCount(i), kInfinity);
  if (limit <= 0) {
    result.isComplete = true;
    return std::move(result);
  }
  for (const Bucket &bucket : buckets)
    if (getBits(bucket.others) > kMaxBits)
      return std::move(result);
  double roots = 0;
  for (Bucket &bucket : buckets) {
    if (!listUp(bucket))
      return std::move(result);
    if (bucket.up.empty()) {
      result.isComplete = true;
      return std::move(result);
    }
    if (bucket.parent < 0)
      roots += bucket.up.begin()->second;
  }
  if (roots >= limit) {
    result.isComplete = true;
    return std::move(result);
  }
  choose();
  for (size_t i = buckets.size(); i-- > 0;) {
    Bucket &bucket = buckets[i];
    // A root is told what the other roots cost.
    if (bucket.parent < 0)
      bucket.down.emplace(0, roots - bucket.up.begin()->second);
    if (!listDown(bucket))
      return std::move(result);
  }
  result.least = bound + roots;
  result.isComplete = true;
  return std::move(result);
}

SparseResult tandem::search::minimizeBelow(const SumModel &model,
                                           const SumDual &dual, double limit,
                                           uint64_t maxSteps) {
  return Sparse(model, dual, limit, maxSteps).run();
}
