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
// What runs ahead of a stage in one strand is the computation of a slot of its
// own, with the stage's collectives.
//
// A slot with computation P, overlapped collectives C, others U and w seconds
// of waiting ones takes
//
//     z >= P + beta (C + w) + U
//     z >= C + w + (1 - beta) alpha a + gamma P + U,   w <= a (largest room)
//
// where the binary a says that a piece is taken. The largest room is beside
// choices that no good plan has, so that a part of a piece pays a part of the
// latency; its own room is what parts y <= x, y <= a of the choices x leave.
// There are as many y as choices, so rows that follow for any t, one t per
// group of choices with the seconds s, are added where a relaxation breaks them
// (*Cuts*):
//
//     w + alpha a <= (1 - gamma) / (1 - beta) sum over groups of
//                    (t a + sum over choices of max(0, s - t) x)
//
// Within the room that w has the first row decides; every second beyond it
// makes the slot longer by one, which is what it costs exposed, so no row for
// the room is needed. The objective counts what waits in full and w back, so
// that an optimum takes as much as the first-in first-out queue does.
//
// A stage that runs passes (Accounting.h) has two slots per pass: what it sends
// in the pass stands beside the computation of the stage before and beside its
// own, or behind each where the pass overlaps nothing.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPTIME_H
#define TANDEM_LIB_SEARCH_ILPTIME_H

#include "IlpWork.h"
#include "tandem/Cost/Slots.h"

namespace tandem::search {

/// A row for the piece of a slot, by its place: of each group of the slot's
/// computation the seconds up to which all is beside the piece (0 if missing).
struct IlpCut {
  unsigned slot;
  std::map<IlpGroup::Key, double> thresholds;
};

class IlpTime {
public:
  /// `scale`: units of the program per second.
  IlpTime(const IlpForms &forms, IntegerProgram &program, double scale);

  /// Adds rows, columns and the objective.
  void build();

  /// What the relaxation breaks; of each slot the row that it breaks by most.
  std::vector<IlpCut> findCuts(const IlpSolution &relaxation) const;
  /// Adds its row to the program. Nothing if the slot has no piece.
  void addCut(const IlpCut &cut);

private:
  /// A slot: computation, overlapped collectives (the largest sum over the
  /// queues), and collectives that nothing overlaps.
  struct Slot {
    IlpSum computation, other;
    std::vector<IlpSum> collectives;
    bool takesWaiting = false;
    /// Arrives at the queue before this slot.
    Expr arriving;
  };
  void addSlots(unsigned stage);
  void addSlotsOfPasses(unsigned stage);
  IlpSum addLargest(std::vector<IlpSum> queues);
  void addSlot(Slot slot);
  /// The most seconds that waiting collectives have beside this computation.
  double getRoom(double computation) const;
  /// Seconds of waiting collectives for which a second of computation has room.
  double getRoomShare() const;
  Expr addTaken(double room, Expr &latency);
  /// A slot that may take a piece.
  struct Taker {
    Expr taken, latency;
    IlpSum computation;
  };
  Expr getRow(const Taker &taker, const IlpCut &cut) const;

  const IlpStages &stages;
  IntegerProgram &program;
  cost::Interference interference;
  /// Of a further piece, in units of the program.
  double latencyOfPiece;
  int64_t numStrands;
  const cost::AccountingRules &rules;
  IlpWork work;
  /// Computation of the last strand of the stage before, and its queue.
  IlpSum previous;
  Expr arriving;
  /// Seconds in the queue.
  Expr level;
  std::map<unsigned, Taker> takers;
  unsigned numSlots = 0;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPTIME_H
