//===- Line.h - time line, extended by stages -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The time of a plan (Cost.h, *Strands*, *Slots*, *Waiting*; HiDup, equation 5,
// is the case of two strands without waiting) as a state that is carried from
// stage to stage: `cost` lays out plans so, and searches extend them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_LINE_H
#define TANDEM_COST_LINE_H

#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Slots.h"

namespace tandem::cost {

/// What a stage does, in seconds, before it is divided into steps.
struct StageWork {
  bool joins = false, dependsOnStrand = false;
  std::array<double, kMaxAxes> collectivePerStrand{}, collectiveOnce{};
  double computationPerStrand = 0, computationOnce = 0, sums = 0;
  /// Of the only strand, beside the stage's collectives (Cost.h, *Ahead*).
  double ahead = 0;

  /// Adds an operator, or a change; with -1 as `sign` takes its seconds away.
  void add(const Signature &signature, bool isOverTime, int sign = 1) {
    dependsOnStrand |= isOverTime;
    (isOverTime ? computationPerStrand : computationOnce) +=
        sign * signature.seconds;
  }
  /// Adds an operator that runs ahead.
  void addAhead(const Signature &signature, bool isOverTime,
                int64_t numStrands) {
    dependsOnStrand |= isOverTime;
    ahead +=
        static_cast<double>(isOverTime ? numStrands : 1) * signature.seconds;
  }
  void add(const ChangeCost &change, int sign = 1) {
    joins |= change.joins;
    computationOnce += sign * change.local;
    for (unsigned q = 0; q < kMaxAxes; ++q) {
      collectivePerStrand[q] += sign * change.collectivePerStrand[q];
      collectiveOnce[q] += sign * change.collectiveOnce[q];
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

/// Hears of what a line is made of: each step, without its stage, each slot,
/// and what is taken from the queue, enters it and is left when updates begin.
/// This one has no use for it.
struct NoListener {
  void addStep(const Step &) {}
  void addSlot(const Slot &) {}
  void take(LineState &, double, bool) {}
  void arrive(LineState &) {}
  void expose(const LineState &) {}
};

/// The queue itself: first in, first out.
struct WaitQueue : NoListener {
  struct Waiter {
    double seconds;
    /// Stages in whose slots its first and last piece are taken.
    int first = -1, last = -1;
  };
  std::vector<Waiter> waiters;
  /// Those before `begin` are gone, those from `end` on arrive later.
  size_t begin = 0, end = 0;
  /// The one that is added to the line.
  int stage = 0;

  /// What empties the queue takes all of it, whatever the rounding.
  void take(LineState &, double taken, bool takesAll);
  void arrive(LineState &) { end = waiters.size(); }
  void expose(const LineState &) {
    for (; begin < end; ++begin)
      mark(waiters[begin]);
  }

private:
  void mark(Waiter &waiter) const {
    waiter.first = waiter.first < 0 ? stage : waiter.first;
    waiter.last = stage;
  }
};

class Line {
public:
  explicit Line(const SearchProblem &problem)
      : interference(problem), numStrands(problem.getNumStrands()),
        pieceLatency(problem.pieceLatency) {}

  /// Of the stage.
  int64_t getNumSteps(const StageWork &work) const {
    return work.dependsOnStrand && !work.joins ? numStrands : 1;
  }

  /// Adds a stage whose gradients wait for `leaving` seconds.
  template <typename Listener = NoListener>
  void close(LineState &line, const StageWork &work, double leaving,
             bool isFirstUpdate, Listener &&listener = {}) const;

  /// Adds the last slot: computation only.
  template <typename Listener = NoListener>
  void finish(LineState &line, Listener &&listener = {}) const {
    addSlot(line, 0, 0, false, listener);
    arrive(line, listener);
    expose(line, listener);
    line.previous = 0;
  }

private:
  template <typename Listener>
  void addSlot(LineState &line, double collective, double ahead, bool isSerial,
               Listener &listener) const;
  template <typename Listener>
  void arrive(LineState &line, Listener &listener) const {
    line.waiting += line.arriving;
    line.arriving = 0;
    listener.arrive(line);
  }
  template <typename Listener>
  void expose(LineState &line, Listener &listener) const {
    listener.expose(line);
    line.seconds += line.waiting;
    line.waiting = 0;
  }

  Interference interference;
  int64_t numStrands;
  double pieceLatency;
};

template <typename Listener>
void Line::addSlot(LineState &line, double collective, double ahead,
                   bool isSerial, Listener &listener) const {
  double room =
      interference.getRoom(line.previous, collective, isSerial) - pieceLatency;
  double taken = std::min(line.waiting, std::max(0.0, room));
  Slot slot{0, taken, isSerial};
  slot.seconds =
      isSerial
          ? line.previous + interference.getSlot(ahead, collective, false) +
                interference.beta * taken
          : interference.getSlot(line.previous, collective + taken, false);
  line.seconds += slot.seconds;
  listener.addSlot(slot);
  if (taken <= 0)
    return;
  bool takesAll = taken == line.waiting;
  line.waiting = takesAll ? 0 : line.waiting - taken;
  listener.take(line, taken, takesAll);
}

template <typename Listener>
void Line::close(LineState &line, const StageWork &work, double leaving,
                 bool isFirstUpdate, Listener &&listener) const {
  int64_t numSteps = getNumSteps(work);
  bool isInStrands = numSteps > 1;
  // One strand does the work of all.
  double share = static_cast<double>(isInStrands ? 1 : numStrands);
  for (int64_t strand = 0; strand < numSteps; ++strand) {
    bool isFirst = strand == 0;
    double collective = 0;
    for (unsigned q = 0; q < kMaxAxes; ++q)
      collective =
          std::max(collective, share * work.collectivePerStrand[q] +
                                   (isFirst ? work.collectiveOnce[q] : 0));
    addSlot(line, collective, work.ahead,
            !isInStrands || (isFirst && line.previousIsOne), listener);
    if (isFirst) {
      arrive(line, listener);
      // The first update is computed in the next slot.
      if (isFirstUpdate)
        expose(line, listener);
    }
    line.previous = share * work.computationPerStrand +
                    (isFirst ? work.computationOnce : 0) +
                    (strand + 1 == numSteps ? work.sums : 0);
    listener.addStep({0, static_cast<unsigned>(strand), collective,
                      line.previous, work.ahead});
  }
  line.previousIsOne = !isInStrands;
  line.arriving = leaving;
}

} // namespace tandem::cost

#endif // TANDEM_COST_LINE_H
