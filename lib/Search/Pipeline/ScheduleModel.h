//===- ScheduleModel.h - a schedule as letters on machines ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEMODEL_H
#define TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEMODEL_H

#include "tandem/Orders/Order.h"
#include "tandem/Search/Pipeline/OrderSearch.h"

namespace tandem::pipeline::schedule {

struct Arc {
  unsigned letter = 0;
  /// Seconds that a value travels.
  double seconds = 0;
};

/// An action of a section, whatever the microbatch. Microbatches are alike: the
/// k-th action of a letter needs the k-th of others, and any order becomes one
/// in which they follow each other without ending later.
struct Letter {
  unsigned machine = 0;
  /// Microbatches; 1 for the sum of a section's gradients.
  unsigned count = 0;
  /// The number of its first operation.
  unsigned first = 0;
  double seconds = 0;
  orders::HeldChange held;
  std::vector<Arc> needs, feeds;
  unsigned section = 0;
  /// None for the sum of a section's gradients.
  std::optional<orders::ActionKind> kind;
};

/// A point, or the queue of its sums.
struct Machine {
  /// The earliest begin, and what is added to the end.
  double head = 0, tail = 0;
  double limit = 0;
  /// The most that one microbatch alone holds.
  double alone = 0;
  /// In the sequence of the model.
  std::vector<unsigned> letters;
};

struct Model {
  std::vector<Letter> letters;
  std::vector<Machine> machines;
  unsigned numPoints = 0, numMicrobatches = 0, numOperations = 0;
  /// Letters, each behind what it needs: a microbatch that runs alone in this
  /// order holds the least.
  std::vector<unsigned> sequence;
  /// What is taken from the cost of a model for that of the problem.
  double offset = 0;
  /// Whether a bound of the model is one of the problem.
  bool isExact = true;
  /// With noise: of each sample the seconds of all operations.
  std::vector<std::vector<double>> samples;

  std::optional<unsigned> find(unsigned section,
                               std::optional<orders::ActionKind> kind) const;
  /// The operation that operation `index` of `letter` waits for.
  unsigned getNeeded(const Letter &letter, unsigned index,
                     const Arc &need) const {
    const Letter &other = letters[need.letter];
    return other.first +
           (other.count == letter.count ? index : other.count - 1);
  }
};

/// Slack for sums of floating point.
inline constexpr double kSlack = 1e-9;

inline bool fits(double held, double limit) {
  return held <= limit * (1 + kSlack);
}

Model makeModel(const ScheduleProblem &problem);
/// The same in reverse: it has the same costs but for noise, which it lacks.
Model mirror(const Model &model);

/// The letters of each machine in their order. Without microbatches, as letter
/// by letter these follow each other.
using Rows = std::vector<std::vector<unsigned>>;

Rows mirror(Rows rows);
orders::Order makeOrder(const Model &model, const Rows &rows);
/// Sums come in the order in which sections have their last backward action. B
/// of a section that has I and W is these.
Rows makeRows(const Model &model, const orders::Order &order);

} // namespace tandem::pipeline::schedule

#endif // TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEMODEL_H
