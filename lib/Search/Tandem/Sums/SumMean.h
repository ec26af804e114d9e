//===- SumMean.h - the best mean of sums ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Any mean of the T_t (Tandem/Sums/Sum.h) bounds T. Which mean bounds it best
// is a game against the choices that were the least under means so far: its
// solution is the next mean to try, half way from the best one so far
// (Ben-Ameur and Neto 2007 on such cutting planes), until the game promises no
// more.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_SUMS_SUMMEAN_H
#define TANDEM_LIB_SEARCH_TANDEM_SUMS_SUMMEAN_H

#include "Tandem/Sums/Dual.h"
#include <functional>
#include <memory>

namespace tandem::search {

/// What is left to choose from, and what that costs at least.
struct SumNode {
  std::vector<std::vector<unsigned>> values;
  /// Per room of the model.
  std::vector<Takes> takes;
  double bound = 0;
  /// Under which the bound holds.
  SumMean mean;
  /// Choices of these values.
  std::vector<std::shared_ptr<const SumChoice>> choices;
  /// To begin with (Tandem/Sums/Dual.h); nothing: none.
  std::shared_ptr<const std::vector<double>> messages;

  size_t countValues() const;
  bool allows(const SumChoice &made) const;
};

class MeanSearch {
public:
  /// Asked for leave with the work since the last time, in numbers that were
  /// looked at.
  using Proceeds = std::function<bool(uint64_t work)>;
  /// Told of choices; returns what others must cost less than.
  using Receives = std::function<double(const SumModel &model,
                                        const std::vector<unsigned> &choice,
                                        const SumChoice &made)>;

  /// `goal` is the cost from which on bounds are high enough.
  MeanSearch(const SumModel &all, SumNode &node, double goal, Proceeds proceeds,
             Receives receives);

  /// Raises the node's bound, adds choices to it and drops values that cost the
  /// goal or more. The root is asked for the best mean; other nodes only as
  /// long as they may reach the goal. False if `proceeds` said so.
  bool run(bool isRoot);

  /// Per value of the node's at the time the least cost under the last mean.
  double getLeast(unsigned variable, unsigned value) const;
  /// Per variable by how much messages and last choice disagree about it.
  std::vector<double> getExcess() const;
  /// How the best mean's game mixes the node's choices.
  const std::vector<double> &getMixture() const { return mixture; }
  /// Seconds that the bound is below the mixture because the lines of the rooms
  /// are above them: of the room where that is most.
  std::pair<unsigned, double> getWorstRoom() const;
  std::shared_ptr<const std::vector<double>> getMessages() const;

private:
  void setUp();
  bool solve(const SumMean &mean, bool isRoot);
  bool isGood(double bound) const { return bound >= goal; }
  bool addChoice();
  std::vector<size_t> listPlayers() const;
  void playGame();
  SumMean getNext(double center) const;
  void dropValues();

  const SumModel &all;
  SumNode &node;
  double goal;
  Proceeds proceeds;
  Receives receives;
  /// Of the values that are left, or were when there were not many more.
  std::unique_ptr<SumModel> part;
  size_t numValues = 0;
  std::unique_ptr<SumDual> dual;
  /// Of the last mean; the offset is that of its sums, less what rounding may
  /// add.
  double bound = 0, offset = 0;
  std::vector<unsigned> choice;
  std::vector<std::vector<double>> least;
  /// The game's solution, and no mean bounds more than its value.
  SumMean game;
  std::vector<double> mixture;
  double value = 0;
};

/// The mean of the columns under which the least row is largest: `rows[i][j]`
/// are positive. Weights of the columns; `rowWeights` are those of the rows
/// that hold it there.
std::vector<double> solveGame(const std::vector<std::vector<double>> &rows,
                              std::vector<double> &rowWeights);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_SUMS_SUMMEAN_H
