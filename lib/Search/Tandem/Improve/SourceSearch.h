//===- SourceSearch.h - search of what is made again ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For given forms, which values are saved and which are made again. A change
// of one operator does not get there: what is made again needs its clone, the
// operands of that, and all other readers of the value. Here a value changes
// its source for all readers, with the clones that this needs and as many of
// the values that these read as are held for them alone.
//
// Changes that free the most bytes per second come first, summed over all
// operators at which too much is held. What turns out not to be needed is given
// back. Costs and bytes are those of the editor.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_IMPROVE_SOURCESEARCH_H
#define TANDEM_LIB_SEARCH_TANDEM_IMPROVE_SOURCESEARCH_H

#include "Tandem/Improve/Editor.h"
#include "Tandem/Problem/Sources.h"
#include <functional>

namespace tandem::search {

class SourceSearch {
public:
  SourceSearch(const Facts &facts, cost::ChangeTable &table);

  bool hasChoices() const { return sources.hasChoices(); }

  /// A plan with the forms of `plan`, which `cost` accepts but for its memory,
  /// and other sources: the fastest one found that fits, or else the one that
  /// holds the least too much. `work` counts as in `PlanImprover`. Looks at
  /// less if `isBrief`.
  cost::Plan search(const cost::Plan &plan, uint64_t &work, bool isBrief,
                    const std::function<bool()> &proceeds);

private:
  /// Gives a value a source, with `depth` levels of what its clones read.
  struct Move {
    unsigned value;
    uint8_t source, depth;
    /// Whether what its clones read comes from clones of the same time.
    bool shares;
  };
  struct Ranked {
    double worth;
    Move move;
    bool operator<(const Ranked &other) const { return worth < other.worth; }
  };

  bool mayGoOn() const;
  void begin(const SourceChoice &from);
  void expand(const Move &move);
  void follow(unsigned value, const Move &move);
  bool isActive(unsigned value) const;
  std::optional<Score> evaluate(int64_t limit);
  bool apply(int64_t limit);
  void setBase();
  std::vector<unsigned> listNear(const SourceChoice &before, bool isWide) const;
  void addMoves(unsigned value, std::vector<Move> &moves) const;
  void rankFreeing(unsigned value, int64_t limit, std::vector<Ranked> &ranked);
  bool lower(int64_t limit);
  void giveBack(const std::vector<unsigned> &values);
  void giveBack();
  void record();
  SourceChoice getAll(uint8_t source) const;
  void searchFromHere(bool isBrief);
  void sink();

  const cost::SearchProblem &problem;
  Sources sources;
  PlanEditor editor;
  SourceChoice choice, changed;
  std::vector<unsigned> numSaved, level, next;
  Sources::Changes signatures;
  Score now, best;
  std::optional<cost::Plan> found;
  uint64_t limitOfWork = 0, numMoves = 0;
  const std::function<bool()> *proceeds = nullptr;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_IMPROVE_SOURCESEARCH_H
