//===- IlpSearch.h - the cheapest plan with given stages --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program that knows nothing of memory comes first: it is much smaller and
// tighter, and its solution is an optimum if it fits.
//
// Both programs are relaxations in a few points: of copies that wait the larger
// one does not know how long the queue holds them, and both take some freedom
// among the sources of a copy. So each solution is costed by `cost`; one that
// is dearer or larger than the program thinks is forbidden, and the program
// solved again.
//
// With a plan to begin with, only cheaper ones are looked for: signatures that
// none of them can have, by the relaxation, are left out before the solver
// branches (IlpNarrow.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPSEARCH_H
#define TANDEM_LIB_SEARCH_ILPSEARCH_H

#include "IlpTime.h"
#include "tandem/Search/SearchEnd.h"

namespace tandem::search {

/// What the solver's tolerances can make of an objective, relative.
constexpr double kIlpTolerance = 1e-7;
/// Solutions that may turn out to be dearer or larger than the program thinks.
constexpr unsigned kMaxIlpRounds = 1000;

/// The integer program of plans with given stages and signatures.
struct IlpModel {
  IlpModel(const cost::SearchProblem &problem, const IlpStages &stages,
           IlpChoices allowed, cost::ChangeTable &table, IlpFreedom freedom,
           double scale, std::function<bool()> isStopped);

  IlpChoices allowed;
  IntegerProgram program;
  IlpForms forms;
  /// Nothing if the making of the forms was stopped.
  std::optional<IlpTime> time;
};

IlpChoices allowAll(const cost::SearchProblem &problem);

/// The cheapest of the plans that are legal.
std::optional<cost::Plan> findCheapest(const cost::SearchProblem &problem,
                                       const std::vector<cost::Plan> &plans);

/// The plan's cost, if the bound proves it within the tolerance; else the
/// bound.
double getProven(const cost::Plan &plan, double bound);

class IlpSearch {
public:
  /// `onlyBounds`: of all plans, whatever their memory.
  IlpSearch(const cost::SearchProblem &problem, const SearchOptions &options,
            bool onlyBounds = false);

  SearchResult run();

private:
  bool checkStages();
  double getScale() const;
  double getTimeLeft() const;
  bool isStopped();
  /// Of all plans with the given stages.
  double getBoundOfStages() const { return hasGivenStrands ? 0 : bound; }
  void search(const IlpStages &stages);
  void searchWithLimit(const IlpStages &stages);
  /// Whether plans with larger stages are no cheaper than those of the forms.
  bool isWhole(const IlpForms &forms) const;
  IlpFreedom getFreedom() const {
    return onlyBounds ? IlpFreedom::OfSources : IlpFreedom::OfMemory;
  }
  IlpOptions getOptions();
  /// False when no further solution is needed.
  bool takeSolution(const IlpForms &forms, const IlpSolution &solution);
  void takeBound(const IlpSolution &solution);
  void takeBound(double proven);
  bool takePlan(cost::Plan plan);
  bool isClosed() const;
  bool fail(std::string error);
  void explainInfeasible(const IlpForms &forms);
  void claim();

  //--- IlpNarrow.cpp
  /// Whether an optimum was found that fits, or the search has to end.
  bool searchWithoutLimit(const IlpStages &stages);
  IlpChoices getStrandsOfBest(const IlpStages &stages) const;
  /// First the plans that have strands where the best one has them: a program
  /// that is much smaller.
  void searchStrands(const IlpStages &stages);
  std::unique_ptr<IlpModel> makeModel(const IlpStages &stages,
                                      IlpFreedom freedom);
  unsigned forbidDear(const IlpForms &forms, const IlpSolution &relaxation);
  std::unique_ptr<IlpModel> narrow(const IlpStages &stages);
  IlpSolution relaxWithCuts(IlpModel &model);
  bool solve(IlpModel &model);

  const cost::SearchProblem &problem;
  const SearchOptions &options;
  bool onlyBounds;
  cost::ChangeTable table;
  SearchEnd end;
  double scale;
  SearchResult result;
  /// What a plan cheaper than the best one can have.
  IlpChoices allowed;
  /// Rows that programs with other choices left have, too.
  std::vector<IlpCut> cuts;
  /// For plans with the given stages, and strands if they are given.
  double bound = 0; // s
  /// What bounds the plans with the given stages bounds all plans.
  bool coversAll = false;
  /// For all plans. Forbidden solutions might be good with other stages.
  double boundOfAll = 0;
  bool failed = false;
  /// Only plans with given strands are looked at, so that no bound is one of
  /// all.
  bool hasGivenStrands = false;
  /// The last solution's plan exceeds the limit.
  bool isTooLarge = false;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPSEARCH_H
