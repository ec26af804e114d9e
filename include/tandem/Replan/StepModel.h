//===- StepModel.h - a Program in another order, simulated ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a step of a Program would take, were the actions of its points listed in
// another order. Commands take what a trace of the Program shows. As in the
// Program, a point waits for what it sent so many actions later, and begins to
// receive so many actions before: there is room for no more.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAN_STEPMODEL_H
#define TANDEM_REPLAN_STEPMODEL_H

#include "tandem/Orders/Order.h"
#include "tandem_rt/action_times.h"
#include "tandem_rt/report.h"

namespace tandem::replan {

/// Durations that differ by less are those of one machine at rest.
inline constexpr double kLeastSpread = 0.005;

/// The first of several steps warms up, and does not count.
int64_t getFirstStep(const rt::Timeline &timeline);

/// A command that moves something between two points.
struct Moved {
  uint32_t place = 0; ///< In the listing of the point.
  int64_t tag = 0;
  /// Of what is sent: at the end of which block behind its own the point waits
  /// for it, at most the last one.
  size_t late = 0;
  /// Of what is received: the block that reads it. It begins in front of what
  /// that block waits for, or so many halves of blocks earlier: the second half
  /// of a block begins behind its waits.
  size_t reader = 0, early = 0;
};

/// An action with all that begins beside it.
struct Block {
  rt::ActionName name;
  std::vector<uint32_t> places;
  std::vector<Moved> sends;
};

/// The first block of a point stands for all in front of its actions, and the
/// last one for all behind them.
struct PointBlocks {
  std::vector<Block> blocks;
  std::vector<Moved> receives;
};

class StepModel {
public:
  /// `timeline` is a trace of `program` with events of all ranks; `ranks` has
  /// one of each point.
  StepModel(const rt::Program &program, const rt::Timeline &timeline,
            const std::vector<int64_t> &ranks);

  /// Seconds of a step of the trace, the mean.
  double getMeasured() const { return measured; }
  /// Seconds of a step whose points run their actions in `order`; with a seed
  /// the mean of steps whose commands differ as those of the trace do. Nothing
  /// if they would wait for what never comes.
  std::optional<double> getSeconds(const orders::Order &order,
                                   std::optional<uint64_t> seed) const;

private:
  void readComputation(const rt::Timeline &timeline);
  void readMovements(const rt::Program &program, const rt::Timeline &timeline);

  rt::TimelineHead head;
  /// By point: its rank program, and what that says.
  std::vector<uint32_t> numbers;
  std::vector<PointBlocks> points;
  rt::CommandTimes times;
  /// Of commands that compute: the standard deviation as a share of the mean.
  double spread = 0;
  double measured = 0;
};

} // namespace tandem::replan

#endif // TANDEM_REPLAN_STEPMODEL_H
