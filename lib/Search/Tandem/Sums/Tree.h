//===- Tree.h - exact minima of sums, by elimination ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bucket elimination (Dechter 1999): variables are minimised out one after the
// other, in an order that makes small tables (the next one is always that whose
// neighbours have the fewest choices together). The tables form a tree. Going
// up it gives the least sum and a choice that has it; going down again, for
// each value the least sum of a choice with it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_SUMS_TREE_H
#define TANDEM_LIB_SEARCH_TANDEM_SUMS_TREE_H

#include "Tandem/Sums/Sum.h"

namespace tandem::search {

/// Where a variable is minimised out: a table over it and its neighbours at the
/// time.
struct SumBucket {
  unsigned variable;
  std::vector<unsigned> others;
  std::vector<unsigned> factors, children;
  int parent = -1;
};

/// In the order of elimination; `size` counts the entries of all tables.
std::vector<SumBucket> makeBuckets(const SumModel &model, double &size);

class SumTree {
public:
  explicit SumTree(const SumModel &model);

  /// Entries of all tables.
  double getSize() const { return size; }

  /// The least cost, and a choice that has it.
  double solve(const SumPrices &prices, std::vector<unsigned> &choice);
  /// Behind `solve`: per variable and value the least cost of a choice with it.
  std::vector<std::vector<double>> getLeast();

private:
  /// The variable's values lie side by side in the table.
  struct Bucket : SumBucket {
    /// What it tells its parent, and the parent it: by the neighbours' values.
    std::vector<double> up, down;
    std::vector<double> table;
  };
  /// A term of a bucket's table: where its entry moves with each variable.
  struct Term {
    const double *entries;
    /// Per variable of the bucket (neighbours, then its own) and value.
    std::vector<std::vector<size_t>> offsets;
  };

  template <typename Sizes, typename Roles>
  Term makeTerm(const Bucket &bucket, const std::vector<double> &table,
                const std::vector<unsigned> &variables, Sizes getSize,
                Roles getRole) const;
  Term getTerm(const Bucket &bucket, unsigned factor) const;
  Term getTerm(const Bucket &bucket, const Bucket &child) const;
  void advance(const Bucket &bucket, std::vector<unsigned> &place) const;
  void fill(Bucket &bucket);
  void minimize(Bucket &bucket) const;
  void tellChild(const Bucket &bucket, Bucket &child) const;
  size_t getCount(unsigned variable) const {
    return model.variables[variable].values.size();
  }

  const SumModel &model;
  double size = 0;
  std::vector<Bucket> buckets;
  /// Of the prices at hand.
  std::vector<std::vector<double>> entries; // per factor
  std::vector<std::vector<double>> unaries; // per variable
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_SUMS_TREE_H
