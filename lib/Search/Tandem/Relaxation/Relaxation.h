//===- Relaxation.h - message passing: bound and forms ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dual coordinate ascent on the factor graph: sequential reweighted message
// passing (Kolmogorov, PAMI 2015; TRW-S for pairs). Whatever the messages are,
// the sum of the minima of variables and factors bounds every plan from below;
// sweeps never lower it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_RELAXATION_RELAXATION_H
#define TANDEM_LIB_SEARCH_TANDEM_RELAXATION_RELAXATION_H

#include "Tandem/Relaxation/Levels.h"
#include <array>
#include <optional>

namespace tandem::search {

/// Another value for a variable, and what that adds to the relaxed cost.
struct Move {
  unsigned variable, value;
  double added;
};

class Relaxation {
public:
  /// `representatives` folds the graph: only these variables are looked at, the
  /// others have their messages and values (Tandem/Relaxation/Fold.h). A bound
  /// is one in any case.
  Relaxation(const FactorGraph &graph, std::vector<unsigned> representatives);

  /// Forgets all messages.
  void reset();
  /// Takes over the messages of another folding of the graph.
  void adopt(const Relaxation &other);

  /// One pass over the variables; there and back.
  void pass(bool isForward);
  void sweep() {
    pass(true);
    pass(false);
  }
  /// About how many numbers a sweep looks at.
  uint64_t getWork() const;
  /// The bound that the messages give, of plans that have what is decided.
  double getBound();
  /// Decides a variable for `getBound`, and leaves it open again. Not while
  /// messages are sent, and not of a folded graph.
  void decide(unsigned variable, unsigned value);
  void leaveOpen(unsigned variable);
  /// What a variable's value costs with the messages of its factors.
  double getBelief(unsigned variable, unsigned value) const;
  /// What a variable takes over from a factor for each layout of its slot.
  const double *getTaken(unsigned factor, unsigned slot) const {
    return messages.data() + getMessages(factor, slot);
  }
  /// A value per variable: each is chosen after those before it, by what the
  /// messages say of those behind it.
  std::vector<unsigned> round();
  /// Changes single values, but not those of `fixed` variables, as long as that
  /// lowers the relaxed cost.
  void descend(std::vector<unsigned> &values, unsigned maxRounds,
               const std::vector<bool> &fixed = {});
  /// Gives a variable a value, and those next to it the values that suit it
  /// best.
  void force(std::vector<unsigned> &values, unsigned variable, unsigned value);
  /// About how many numbers `descend` and `force` have looked at so far.
  uint64_t getSettleWork() const { return settleWork; }
  /// Changes of single values, the cheapest one first.
  std::vector<Move> getMoves(std::vector<unsigned> values) const;
  /// The relaxed cost of values, with every copy that they imply.
  double getCost(const std::vector<unsigned> &values) const;

private:
  /// A slot of a factor, with what sweeps ask of it in one place.
  struct Slot {
    unsigned factor, slot;
    /// Its messages: the first one, and how many layouts have one.
    unsigned first, size;
    /// Of the factor's other slot, where it has two.
    unsigned otherFirst = 0, otherSize = 0;
    /// Per value of the variable.
    const uint16_t *layoutOf;
    const FactorKind *kind;
    /// 1 / slots of the factor that the variable stands for.
    double part = 1;
    /// Whether the factor has a variable that comes earlier, and a later one.
    std::array<bool, 2> hasPartner = {};
  };

  Slot getSlot(unsigned factor, unsigned slot) const;
  void addSlots(unsigned variable);
  void update(unsigned variable, bool isForward);
  /// Min-marginals of a factor for a slot, without that slot's own message.
  void getMarginals(const Slot &slot, double *result);
  void getPairMarginals(const Slot &slot, double *result) const;
  void getPricedMarginals(const Slot &slot, double *result);
  void addUsers(const Slot &without, unsigned first, unsigned last,
                std::vector<double> &sums);
  void takeMarginals(unsigned variable);
  void countRepeated();
  void notePrices();
  double getLeast(unsigned variable);
  bool settle(std::vector<unsigned> &values, unsigned variable);
  void spread(std::vector<unsigned> &values) const;
  /// Of a factor's slots, under values of the representatives.
  std::vector<uint16_t> getLayouts(unsigned factor,
                                   const std::vector<unsigned> &values) const;
  double getFactorCost(unsigned factor,
                       const std::vector<unsigned> &values) const;
  std::vector<double> getLocalCosts(unsigned variable,
                                    std::vector<unsigned> &values) const;

  unsigned getMessages(unsigned factor, unsigned slot) const {
    return places[graph.factors[factor].messages[slot]];
  }

  const FactorGraph &graph;
  std::vector<unsigned> representatives, active;
  /// From the first message of a slot to that of the slot that it repeats.
  std::vector<unsigned> places;
  /// What variables take over from factors.
  std::vector<double> messages;
  /// What a factor's slots cost it: `-messages`, or a decided layout.
  std::vector<double> costs;
  /// Per variable its value, if it is decided.
  std::vector<std::optional<unsigned>> decided;
  /// What users cost per level; and the weights that it is for.
  LevelCosts levels;
  unsigned numPriced = 0;
  uint64_t settleWork = 0;
  /// Variables and factors (by their producers' slots) that differ in bound,
  /// and how many are like them.
  std::vector<std::pair<unsigned, double>> boundVariables;
  std::vector<std::pair<Slot, double>> boundFactors;
  /// Per variable: 1 / max(factors before, factors behind).
  std::vector<double> shares;
  /// Of active variables.
  std::vector<std::vector<Slot>> slots;
  std::vector<double> levelSums, lateSums, levelBest, belief, marginals;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_RELAXATION_RELAXATION_H
