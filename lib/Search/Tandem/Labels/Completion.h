//===- Completion.h - what labels cost at least -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What plans cost at least that begin as a label does. Closed slots cost what
// they cost, all else at least what the relaxation says
// (Tandem/Relaxation/Relaxation.h): of operators that are left the least with
// the messages that they take over, of tensors that are left, or there and used
// again, the least without them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_LABELS_COMPLETION_H
#define TANDEM_LIB_SEARCH_TANDEM_LABELS_COMPLETION_H

#include "Tandem/Labels/Label.h"
#include "Tandem/Labels/Walk.h"
#include "Tandem/Relaxation/Relaxation.h"
#include <functional>
#include <unordered_map>

namespace tandem::search {

/// The relaxation under several weights, each with messages that have met: made
/// once for all searches of a problem.
class PricedRelaxations {
public:
  /// `proceeds` is asked after each entry; false ends it, and what is there is
  /// of no use.
  PricedRelaxations(const FactorGraph &graph,
                    const std::function<bool()> &proceeds);

  class Entry {
  public:
    Entry(const FactorGraph &graph, const Weights &weights);

    /// `FactorGraph::getDistances`, which are asked for again and again.
    using Distances = std::vector<std::vector<double>>;
    /// Adds numbers that it looks at to `work`.
    const Distances &getDistances(const Factor &factor,
                                  const cost::Layout &from, uint64_t &work);

    FactorGraph graph;
    Relaxation relaxation;

  private:
    /// By kind and layout.
    std::unordered_map<uint64_t, Distances> distances;
  };
  /// At least one.
  std::vector<std::unique_ptr<Entry>> entries;
};

class Completion {
public:
  Completion(const Facts &facts, const LabelWalk &walk,
             const PricedRelaxations &priced);

  /// For a label of which the first `place` operators of the walk are decided,
  /// in s.
  double getLeast(const Label &label, unsigned place);

  /// Numbers that were looked at so far, but for what all labels take.
  uint64_t work = 0;

private:
  /// Seconds per entry of the relaxations.
  using Seconds = std::vector<double>;
  /// A user's layout that is decided.
  struct Decided {
    unsigned tensor, slot, layout;
  };
  /// What is known of a tensor: layouts that are there, if it is made; the
  /// first use that is left; and layouts of its users.
  struct Known {
    unsigned tensor;
    const LiveTensor *live = nullptr;
    std::vector<Decided> decided = {};
  };
  /// What a user's layout costs: its change, and itself.
  struct Choice {
    double change, own;
  };
  using Choices = std::vector<Choice>;

  const Factor &getFactor(unsigned tensor) const;
  void addRest();
  Choices getChoices(const Known &known, unsigned slot, unsigned entry,
                     unsigned produced);
  double getLeast(const Known &known, unsigned entry, unsigned produced);
  Seconds compute(const Known &known);
  const Seconds &getTensor(const Known &known);
  void addDecided(const Label &label, unsigned place);
  double getOpen(const Label &label, const Weights &weights) const;

  const Facts &facts;
  const LabelWalk &walk;
  const PricedRelaxations &priced;
  /// Per tensor its factor; negative if it has no users.
  std::vector<int> factorOf;
  /// What operators cost from a place on, and tensors that they make.
  std::vector<Seconds> rest;
  /// What tensors cost of which so much is known.
  std::unordered_map<std::string, Seconds> known;
  //--- Of the label at hand.
  std::vector<Decided> decided;
  //--- Of the tensor at hand.
  /// Choices of all users.
  struct Level {
    double change, own;
    unsigned user;
  };
  std::vector<Level> levels;
  std::vector<double> best;
  std::string key;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_LABELS_COMPLETION_H
