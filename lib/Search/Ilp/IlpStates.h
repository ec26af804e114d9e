//===- IlpStates.h - states of a tensor between uses ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that the later uses of a tensor can see of the earlier ones is which
// layouts exist: a state. A use that wants a layout takes one of a few ways to
// it, each with a source, and leads to the next state. Layouts that make
// nothing better any more are forgotten, so that states stay few. The
// producer's layout is forgotten likewise: a use that wants it then comes to it
// from the copy that serves as well, for nothing, and the plan makes no copy.
//
// Rules are those of Cost.h. A copy is made from the cheapest of the producer's
// layout and the copies of its pass. Those of an earlier pass are kept or not,
// each for itself: one that is passed over for a dearer source was not. (That
// it may have been the source of an earlier use of the pass is forgotten: a
// relaxation.)
//
// Where memory matters a state says which copies are held as well: behind the
// last use of a pass there is one for each set of copies that may be kept, and
// forgotten is only what no use wants and no smaller layout is a worse source
// than.
//
// Under the accountings of HiDup a tensor has one copy at most, which is never
// a source: a state in which there is one has no way to a third layout.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPSTATES_H
#define TANDEM_LIB_SEARCH_ILPSTATES_H

#include "IlpForms.h"
#include <algorithm>
#include <deque>

namespace tandem::search {

/// A copy that exists.
struct IlpMember {
  /// Index into `TensorStates::nodes`.
  unsigned node;
  /// Made in the stage of the next use: no source there.
  bool isFresh = false;
  /// Made in a pass before that of the next use.
  bool isEarlier = false;
  auto operator<=>(const IlpMember &) const = default;
};

struct IlpState {
  /// Index of the layout produced; -1 where nothing needs it any more.
  int produced = -1;
  /// The sum over time has been made.
  bool isSummed = false;
  /// Sorted.
  std::vector<IlpMember> copies;
  auto operator<=>(const IlpState &) const = default;
};

/// How a use comes to the layout that it wants.
struct IlpWay {
  /// The node from which a copy is made; -1: the layout exists.
  int from = -1;
  bool waits = false;
  /// The first use of the gradient's sum.
  bool sums = false;
  const cost::ChangeCost *change = nullptr;
};

class TensorStates {
public:
  TensorStates(const IlpForms &forms, cost::ChangeTable &table, unsigned index);

  std::vector<cost::Layout> nodes;

  IlpState getFirst(unsigned produced) const;
  /// The ways of the use to the layout with this index among `use.wanted`;
  /// empty if none leads there. The first costs least in all.
  std::vector<IlpWay> getWays(const IlpState &state, unsigned use,
                              unsigned wanted) const;
  /// Whether the way takes the producer's layout, or its sum over time, or may
  /// make a copy of it (Cost.h, *Copies*).
  bool needsProduced(const IlpState &state, unsigned use, unsigned wanted,
                     const IlpWay &way) const;
  bool isSum(const IlpState &state, unsigned use, unsigned wanted) const;
  /// The states before the next use: of several the first keeps all copies.
  std::vector<IlpState> getNext(const IlpState &state, unsigned use,
                                unsigned wanted, const IlpWay &way) const;
  unsigned getWanted(unsigned use, unsigned wanted) const {
    return wantedNodes[use][wanted];
  }
  unsigned getProduced(unsigned produced) const {
    return producedNodes[produced];
  }
  /// Whether something of the tensor may be absent.
  bool hasAbsent() const {
    return std::any_of(nodes.begin(), nodes.end(),
                       [](const auto &layout) { return layout.isAbsent(); });
  }
  /// Only the sum of all seconds of a change matters.
  bool isScalar;
  bool knowsMemory;
  /// Some gradient's copy must not wait, as another copy is nearer; with other
  /// stages it might be none.
  mutable bool hasSourcesOfWaiting = false;

private:
  unsigned addNode(const cost::Layout &layout);
  const cost::ChangeCost &findChange(cost::ChangeTable &table, unsigned from,
                                     unsigned to);
  const cost::ChangeCost &getChange(unsigned from, unsigned to) const {
    return *changes[from * nodes.size() + to];
  }
  int64_t getBytes(unsigned node) const {
    return forms.problem.getBytes(index, nodes[node]);
  }
  double getTotal(unsigned from, unsigned to) const {
    return totals[from * nodes.size() + to];
  }
  /// The producer's layout for this use; -1 if it is forgotten.
  int getBase(const IlpState &state, unsigned use, unsigned wanted) const;
  bool isNoWorse(unsigned from, unsigned than, unsigned to) const;
  bool mayBeMadeAgain(const IlpMember &copy, unsigned use) const;
  /// Whether a copy of the state, seen before use `next`, can be a source at
  /// `use`.
  bool isThere(const IlpMember &copy, unsigned use, unsigned next) const;
  bool canServe(const IlpState &state, size_t without, unsigned from,
                unsigned to, unsigned use, unsigned next) const;
  bool isUsefulCopy(const IlpState &state, size_t which, unsigned next) const;
  bool isUsefulCopyFor(const IlpState &state, size_t which, unsigned use,
                       unsigned wanted, unsigned next) const;
  bool isProducedUseful(const IlpState &state, unsigned next) const;
  bool isProducedUsefulFor(const IlpState &state, unsigned use, unsigned wanted,
                           unsigned next) const;
  void forget(IlpState &state, unsigned next) const;

  const IlpForms &forms;
  const IlpTensor &tensor;
  unsigned index;
  std::vector<unsigned> producedNodes;
  /// Of layouts produced, summed over time.
  std::vector<unsigned> summedNodes;
  std::vector<std::vector<unsigned>> wantedNodes;
  std::vector<const cost::ChangeCost *> changes;
  /// Where those of HiDup lie.
  std::deque<cost::ChangeCost> changesOfPasses;
  std::vector<double> totals;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPSTATES_H
