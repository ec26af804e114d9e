//===- Chain.h - copies of a tensor, user after user ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the copies of a tensor with several users cost, without a table of all
// combinations: the users come one after the other, and all that one has to
// know of those before it is the set of layouts that they left. The last one
// takes the cheapest of these, so that what it adds is a minimum over layouts.
// A tensor with six users that accept nine layouts each has 2 million
// combinations, and 16 thousand steps from a set and a user's choice to the
// next set.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_SUMS_CHAIN_H
#define TANDEM_LIB_SEARCH_TANDEM_SUMS_CHAIN_H

#include "Tandem/Limits.h"
#include <compare>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace tandem::search {

/// Counts the steps in which tables are made, and asks now and then whether to
/// go on.
class FillWork {
public:
  /// `proceeds` may be empty.
  explicit FillWork(std::function<bool()> proceeds = {})
      : proceeds(std::move(proceeds)) {}

  /// False if the making has to end; then it stays so.
  bool add(uint64_t number);
  bool isEnded() const { return ended; }
  uint64_t getNumSteps() const { return numSteps; }

private:
  std::function<bool()> proceeds;
  uint64_t numSteps = 0, nextQuestion = kFillWork;
  bool ended = false;
};

/// Layouts are numbers below `kMaxLayouts`, of which a word is a set.
struct SumChain {
  static constexpr size_t kMaxLayouts = 64;

  /// The choices of a slot: what its user wants; and for each of a choice's
  /// layouts whether the copy may wait, and whether it begins a stage: it may
  /// be made of what those before left, not of what its own stage makes.
  struct Slot {
    std::vector<std::vector<unsigned>> roles;
    std::vector<bool> mayWait, beginsStage;
  };
  /// From each set with each role, the roles of one set side by side, to a set
  /// before the next slot.
  struct Steps {
    std::vector<unsigned> next;
    std::vector<double> made, waiting;
  };

  std::vector<unsigned> sizes; // roles per slot
  /// Of all slots but the last one.
  std::vector<Steps> steps;
  std::vector<unsigned> numSets; // before each slot
  /// Before the last slot: the sets' layouts (those that its own stage made
  /// are counted behind all others), and where each one begins.
  std::vector<unsigned> members, firstMembers;
  /// From a layout to the last slot's role; side by side are the roles.
  std::vector<double> made, waiting;

  /// The first slot's first layout is the one that is produced; `distances` are
  /// seconds from each of `numLayouts` layouts to each. False if there would be
  /// more than `maxSteps` steps, if the last slot wants several layouts, or if
  /// `work` has to end.
  bool fill(const std::vector<Slot> &slots,
            const std::vector<double> &distances, unsigned numLayouts,
            double forbidden, uint64_t maxSteps, FillWork &work);
  /// Layouts that are there, and those of them that were before the stage.
  struct Set {
    uint64_t all, old;
    auto operator<=>(const Set &) const = default;
  };
  void fillLast(const Slot &slot, const std::vector<Set> &sets,
                const std::vector<double> &distances, unsigned numLayouts,
                double forbidden);
  /// The chain of some of the roles, per slot.
  SumChain restrict(const std::vector<std::vector<unsigned>> &kept) const;
  /// Numbers that are looked at on the way from one end to the other.
  uint64_t getNumSteps() const;
  /// Seconds that are made, and that wait.
  std::pair<double, double>
  getSeconds(const std::vector<unsigned> &roles) const;
};

/// The least cost of a chain with each role of a slot. What lies before and
/// behind a slot is kept until offers there change, so that going over all
/// slots, there or back, takes three times the chain.
class ChainMarginals {
public:
  ChainMarginals(const SumChain &chain, double waitingPrice);

  void setPrice(double waitingPrice);

  /// `offers` are what the slots' roles cost besides, slot after slot, those of
  /// the last call but for slots that were told to have changed since; not
  /// counted are the slot's own.
  void get(unsigned slot, const double *offers, double *result);
  /// The slot's offers are others.
  void change(unsigned slot);
  /// All are.
  void forget();

private:
  void getLast(double *result);
  void goOn(const double *offers);
  void goBack(const double *offers);
  void beginBack(const double *offers);

  const SumChain *chain;
  /// What the slots before each one cost, by its sets, of the first `numBefore`
  /// slots; and what it costs with those behind it, of slots from `firstBehind`
  /// on.
  std::vector<std::vector<double>> before, behind;
  unsigned numBefore = 1, firstBehind;
  std::vector<unsigned> firstOffers;      // per slot
  std::vector<std::vector<double>> costs; // like the steps
  std::vector<double> lastCosts;          // like `made`
  std::vector<double> ofLayouts;          // before or behind the last slot
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_SUMS_CHAIN_H
