//===- Dual.h - bound of additive problems ----------------------*- C++ -*-===//
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

private:
  /// A slot of a factor.
  struct Slot {
    const SumSlot *part;
    unsigned factor, index;
    /// Its messages: where they are, and how many.
    unsigned first, size;
    /// Whether the factor has a variable that comes earlier, or later.
    bool hasEarlier, hasLater;
  };
  struct Factor {
    const SumTable *table;
    /// Where the messages of its slots begin and end.
    unsigned first, end;
    unsigned firstSlot;
    /// Its entries, or its chain.
    std::vector<double> entries;
    std::optional<ChainMarginals> chain;
  };
  struct Variable {
    std::vector<unsigned> slots;
    std::vector<double> unaries; // per value
    /// Of what it costs, for each factor that it shares with others.
    double share = 1;
  };

  void addFactor(const SumFactor &factor);
  void update(const Variable &variable, bool isForward);
  /// Per role of the slot the least entry, without the slot's own messages;
  /// `offers` are what all roles cost their factors, in the order of the
  /// messages. Chains are told of those that change.
  void getMarginals(const Slot &slot, const double *offers, double *result);
  /// Adds to what each value costs the least that it costs in the slot.
  void addMarginals(const Slot &slot, const double *offers,
                    std::vector<double> &sums);
  void forgetOffers();
  std::vector<double> getUnaries(const Variable &variable) const;
  double getLeastUnary(const Variable &variable) const;
  double getEntry(unsigned factor, const std::vector<unsigned> &choice) const;
  double getLeastEntry(unsigned factor);

  const SumModel &model;
  SumPrices prices;
  std::vector<Variable> variables;
  /// Those with several values: what is sent to the others is always 0.
  std::vector<unsigned> open;
  std::vector<Factor> factors;
  std::vector<Slot> slots;
  /// Per factor, slot and role: what went from the factor to the variable, with
  /// its sign turned.
  std::vector<double> costs;
  std::vector<double> table, before, marginals, belief, least;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_SUMS_DUAL_H
