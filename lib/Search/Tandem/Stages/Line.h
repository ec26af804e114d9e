//===- Line.h - a time line that grows stage by stage -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The time of a plan (Cost.h, *Strands*, *Slots*, *Waiting*) as a state that
// is carried from stage to stage, for searches that extend plans. Adding the
// same stages gives the seconds that `cost` gives.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_STAGES_LINE_H
#define TANDEM_LIB_SEARCH_TANDEM_STAGES_LINE_H

#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Slots.h"

namespace tandem::search {

/// What a stage does, in seconds, before it is divided into steps.
struct StageWork {
  bool joins = false, dependsOnStrand = false;
  std::array<double, cost::kMaxAxes> collectivePerStrand{}, collectiveOnce{};
  double computationPerStrand = 0, computationOnce = 0, sums = 0;

  void add(const cost::ChangeCost &change) {
    joins |= change.joins;
    computationOnce += change.local;
    for (unsigned q = 0; q < cost::kMaxAxes; ++q) {
      collectivePerStrand[q] += change.collectivePerStrand[q];
      collectiveOnce[q] += change.collectiveOnce[q];
    }
  }
};

/// The time line up to the last closed stage.
struct LineState {
  double seconds = 0;
  /// Computation of the last step; it lies in the slot that comes.
  double previous = 0;
  /// Waiting seconds in the queue, and those that enter it behind the next
  /// slot.
  double waiting = 0, arriving = 0;
  /// Whether there is a closed stage, and has one strand.
  bool previousIsOne = false;
};

/// At most this many seconds can the time line `a`, with its open stage, lose
/// on `b` from now on, if both go on in the same way: the cost is Lipschitz in
/// each number, as a second more of a step's computation or communication costs
/// at most one, and never gains.
double getMostLost(const LineState &a, const StageWork &aWork, double aLeaving,
                   const LineState &b, const StageWork &bWork, double bLeaving,
                   int64_t numStrands);

/// Nothing to be told about the queue.
struct NoQueue {
  void take(double, bool) {}
  void arrive() {}
  void expose() {}
};

class Line {
public:
  explicit Line(const cost::SearchProblem &problem)
      : interference(problem), numStrands(problem.getNumStrands()),
        pieceLatency(problem.pieceLatency) {}

  bool isSplit(const StageWork &work) const {
    return numStrands > 1 && work.dependsOnStrand && !work.joins;
  }

  /// Adds a stage whose gradients wait for `leaving` seconds. `queue` hears of
  /// what is taken from the queue, enters it and is left when updates begin.
  template <typename Queue = NoQueue>
  void close(LineState &line, const StageWork &work, double leaving,
             bool isFirstUpdate, Queue &&queue = {}) const;

  /// Adds the last slot: computation only.
  template <typename Queue = NoQueue>
  void finish(LineState &line, Queue &&queue = {}) const {
    addSlot(line, 0, false, queue);
    arrive(line, queue);
    expose(line, queue);
    line.previous = 0;
  }

private:
  template <typename Queue>
  void addSlot(LineState &line, double collective, bool isSerial,
               Queue &queue) const;
  template <typename Queue> void arrive(LineState &line, Queue &queue) const {
    line.waiting += line.arriving;
    line.arriving = 0;
    queue.arrive();
  }
  template <typename Queue> void expose(LineState &line, Queue &queue) const {
    line.seconds += line.waiting;
    line.waiting = 0;
    queue.expose();
  }

  cost::Interference interference;
  int64_t numStrands;
  double pieceLatency;
};

template <typename Queue>
void Line::addSlot(LineState &line, double collective, bool isSerial,
                   Queue &queue) const {
  double room =
      interference.getRoom(line.previous, collective, isSerial) - pieceLatency;
  double taken = std::min(line.waiting, std::max(0.0, room));
  if (taken <= 0) {
    line.seconds += interference.getSlot(line.previous, collective, isSerial);
    return;
  }
  line.seconds +=
      isSerial ? line.previous + collective + interference.beta * taken
               : interference.getSlot(line.previous, collective + taken, false);
  bool takesAll = taken == line.waiting;
  line.waiting = takesAll ? 0 : line.waiting - taken;
  queue.take(taken, takesAll);
}

template <typename Queue>
void Line::close(LineState &line, const StageWork &work, double leaving,
                 bool isFirstUpdate, Queue &&queue) const {
  bool isInStrands = isSplit(work);
  int64_t numSteps = isInStrands ? numStrands : 1;
  double share = static_cast<double>(isInStrands ? 1 : numStrands);
  for (int64_t strand = 0; strand < numSteps; ++strand) {
    bool isFirst = strand == 0;
    double collective = 0;
    for (unsigned q = 0; q < cost::kMaxAxes; ++q)
      collective =
          std::max(collective, share * work.collectivePerStrand[q] +
                                   (isFirst ? work.collectiveOnce[q] : 0));
    addSlot(line, collective, !isInStrands || (isFirst && line.previousIsOne),
            queue);
    if (isFirst) {
      arrive(line, queue);
      if (isFirstUpdate)
        expose(line, queue);
    }
    line.previous = share * work.computationPerStrand +
                    (isFirst ? work.computationOnce : 0) +
                    (strand + 1 == numSteps ? work.sums : 0);
  }
  line.previousIsOne = !isInStrands;
  line.arriving = leaving;
}

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_STAGES_LINE_H
