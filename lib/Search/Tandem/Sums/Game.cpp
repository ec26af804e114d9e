//===- Game.cpp - best mean as a matrix game ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A matrix game as a linear program (Dantzig 1951): maximise sum v_i subject to
// sum_i rows[i][j] v_i <= 1 and v >= 0, by the simplex method with Bland's
// rule. There are few columns and some ten rows.
//
//===----------------------------------------------------------------------===//

#include "Tandem/Limits.h"
#include "Tandem/Sums/SumMean.h"
#include <algorithm>

using namespace tandem::search;

namespace {
class Simplex {
public:
  explicit Simplex(const std::vector<std::vector<double>> &rows);

  void run();
  std::vector<double> getColumnWeights() const;
  std::vector<double> getRowWeights() const;

private:
  bool pivot();

  size_t numRows, numColumns;
  /// A line per column of the game, and the objective; right-hand sides last.
  std::vector<std::vector<double>> table;
  std::vector<size_t> basis;
};
} // namespace

/// Numbers are divided by the largest one.
Simplex::Simplex(const std::vector<std::vector<double>> &rows)
    : numRows(rows.size()), numColumns(rows.front().size()) {
  double scale = 0;
  for (const std::vector<double> &row : rows)
    scale = std::max(scale, *std::max_element(row.begin(), row.end()));
  for (size_t j = 0; j <= numColumns; ++j) {
    std::vector<double> &line = table.emplace_back();
    for (size_t i = 0; i < numRows; ++i)
      line.push_back(j < numColumns ? rows[i][j] / scale : -1);
    for (size_t k = 0; k < numColumns; ++k)
      line.push_back(j == k ? 1 : 0);
    line.push_back(j < numColumns ? 1 : 0);
    if (j < numColumns)
      basis.push_back(numRows + j);
  }
}

bool Simplex::pivot() {
  const std::vector<double> &objective = table.back();
  size_t enters = 0;
  while (enters + 1 < objective.size() && objective[enters] >= -kPivotTolerance)
    ++enters;
  if (enters + 1 == objective.size())
    return false;
  size_t leaves = numColumns;
  double least = 0;
  for (size_t j = 0; j < numColumns; ++j) {
    if (table[j][enters] <= kPivotTolerance)
      continue;
    double ratio = table[j].back() / table[j][enters];
    if (leaves == numColumns || ratio < least ||
        (ratio == least && basis[j] < basis[leaves])) {
      leaves = j;
      least = ratio;
    }
  }
  if (leaves == numColumns)
    return false;
  double by = table[leaves][enters];
  for (double &entry : table[leaves])
    entry /= by;
  for (size_t j = 0; j < table.size(); ++j) {
    double factor = table[j][enters];
    if (j == leaves || factor == 0)
      continue;
    for (size_t k = 0; k < table[j].size(); ++k)
      table[j][k] -= factor * table[leaves][k];
  }
  basis[leaves] = enters;
  return true;
}

void Simplex::run() {
  for (unsigned i = 0; i < kMaxPivots && pivot(); ++i)
    continue;
}

static std::vector<double> normalize(std::vector<double> weights) {
  double sum = 0;
  for (double &weight : weights)
    sum += weight = std::max(weight, 0.0);
  for (double &weight : weights)
    weight = sum > 0 ? weight / sum : 1.0 / static_cast<double>(weights.size());
  return weights;
}

std::vector<double> Simplex::getColumnWeights() const {
  return normalize({table.back().begin() + numRows, table.back().end() - 1});
}

std::vector<double> Simplex::getRowWeights() const {
  std::vector<double> weights(numRows);
  for (size_t j = 0; j < numColumns; ++j)
    if (basis[j] < numRows)
      weights[basis[j]] = table[j].back();
  return normalize(std::move(weights));
}

std::vector<double>
tandem::search::solveGame(const std::vector<std::vector<double>> &rows,
                          std::vector<double> &rowWeights) {
  Simplex simplex(rows);
  simplex.run();
  rowWeights = simplex.getRowWeights();
  return simplex.getColumnWeights();
}
