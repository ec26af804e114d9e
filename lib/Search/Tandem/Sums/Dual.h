//===- Dual.h - a bound for problems whose costs add up ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sequential reweighted message passing (Kolmogorov, PAMI 2015) on the tables
// of `SumModel`: what variables and factors cost is moved between them, so that
// the sum of their minima rises. It bounds all choices; what a choice costs
// beyond it is a sum of terms none of which is negative.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_SUMS_DUAL_H
#define TANDEM_LIB_SEARCH_TANDEM_SUMS_DUAL_H

#include "Tandem/Sums/Sum.h"

namespace tandem::search {

class SumDual {
public:
  SumDual(const SumModel &model, const SumPrices &prices);

  /// Other prices; messages stay.
  void setPrices(SumPrices others);
  /// One pass over the variables, there and back.
  void sweep();
  double getBound();
  /// About how many numbers a sweep looks at.
  uint64_t getWork() const;
  /// A choice: variables are decided in order, each by what the messages say.
  std::vector<unsigned> round();
  /// Per variable and value, no choice with it costs less.
  std::vector<std::vector<double>> getLeast();
  /// Messages by role of the model of all values, to begin from elsewhere.
  std::vector<double> getMessages() const;
  void setMessages(const std::vector<double> &messages);

  /// Per variable what the choice costs beyond the bound: by its own value, and
  /// in the factors that it takes part in.
  std::vector<double> getExcess(const std::vector<unsigned> &choice);

  /// What a value, or an entry of a factor's table, costs now.
  double getUnary(unsigned variable, unsigned value) const;
  double getEntry(unsigned factor, const std::vector<unsigned> &choice) const;

  const SumModel &model;

private:
  SumPrices prices;
  void update(unsigned variable, bool isForward);
  /// Per role of the slot the least entry, without the slot's own messages;
  /// `offers` are what the slots' roles cost the factor. Chains are told of
  /// those that change.
  void getMarginals(unsigned factor, unsigned slot,
                    const std::vector<std::vector<double>> &offers,
                    std::vector<double> &result);
  void forgetOffers();
  double getLeastUnary(unsigned variable) const;
  double getLeastEntry(unsigned factor);

  std::vector<std::vector<double>> unaries; // per variable
  /// Per factor: its entries, or its chain.
  std::vector<std::vector<double>> entries;
  std::vector<std::optional<ChainMarginals>> chains;
  /// Per factor, slot and role: what went from the factor to the variable, with
  /// its sign turned.
  std::vector<std::vector<std::vector<double>>> costs;
  mutable std::vector<double> table, before;
  std::vector<std::vector<double>> scratch;
  std::vector<double> belief, least;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_SUMS_DUAL_H
