//===- IlpTime.h - seconds of a plan with given stages ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The time line of Cost.h, *Steps*, *Slots* and *Waiting*, as an objective.
//
// A stage that could have one strand or k has a binary column for that, and
// stands as k steps either way. What it does in one strand communicates in the
// slot of its first step and computes in a slot of its own: that costs the sum,
// and nothing overlaps.
//
// A slot with computation P, overlapped collectives C, others U and w seconds
// of waiting ones takes
//
//     z >= P + beta (C + w) + U
//     z >= C + w + (1 - beta) alpha a + gamma P + U,   w <= a (largest room)
//
// where the binary a says that a piece is taken. Within the room that w has the
// first row decides; every second beyond it makes the slot longer by one, which
// is what it costs exposed, so no row for the room is needed. The objective
// counts what waits in full and w back, so that an optimum takes as much as the
// first-in first-out queue does.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPTIME_H
#define TANDEM_LIB_SEARCH_ILPTIME_H

#include "IlpForms.h"
#include "tandem/Cost/Slots.h"
#include <array>

namespace tandem::search {

class IlpTime {
public:
  /// `scale`: units of the program per second.
  IlpTime(const IlpForms &forms, IntegerProgram &program, double scale);

  /// Adds rows, columns and the objective.
  void build();

private:
  /// Terms, and the most that they can sum up to.
  struct Sum {
    Expr expr;
    double largest = 0;
    void add(const Expr &what, double factor) {
      search::add(expr, what, factor);
    }
  };
  /// What a stage does; per strand, once, and in its last strand.
  struct Work {
    std::array<Sum, cost::kMaxAxes> collectivePerStrand, collectiveOnce;
    Sum computationPerStrand, computationOnce, sums;
    std::vector<Expr> joins, overTime;
    /// Some operator is over time whatever is chosen.
    bool isOverTime = false;
    /// Waiting copies that the stage's gradients send to the queue.
    Expr waiting;
  };
  /// A slot: computation, overlapped collectives (the largest sum over the
  /// queues), and collectives that nothing overlaps.
  struct Slot {
    Sum computation, other;
    std::vector<Sum> collectives;
    bool takesWaiting = false;
    /// Arrives at the queue before this slot.
    Expr arriving;
  };
  void addOperators();
  void addSums();
  void addChanges();
  /// Bounds of the stage's binary for k strands; nothing if it is known.
  std::optional<int> addStrands(Work &work, bool &isSplit);
  Sum takeSplit(const Sum &all, std::optional<int> strands, bool isSplit);
  Sum getRest(const Sum &all, const Sum &split, double share,
              bool isSplit) const;
  static Sum join(Sum a, const Sum &b);
  void addSlots(unsigned stage);
  Sum addLargest(std::vector<Sum> queues);
  void addSlot(Slot slot);
  int addTaken(const Sum &computation, Expr &pieces);

  const IlpForms &forms;
  const cost::SearchProblem &problem;
  const IlpStages &stages;
  IntegerProgram &program;
  double scale;
  cost::Interference interference;
  int64_t numStrands;
  std::vector<Work> work;
  /// Computation of the last strand of the stage before, and its queue.
  Sum previous;
  Expr arriving;
  /// Seconds in the queue.
  Expr level;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPTIME_H
