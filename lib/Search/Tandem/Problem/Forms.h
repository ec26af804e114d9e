//===- Forms.h - forms needed by given signatures ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With the signatures, the kept and the waiting copies decided, the work of a
// stage follows from where it begins. `FixedForms` lists, per operator, the
// copies that it is the first to want, each with the layouts that it may be
// made from and since which operator they exist (Cost.h, *Copies*).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PROBLEM_FORMS_H
#define TANDEM_LIB_SEARCH_TANDEM_PROBLEM_FORMS_H

#include "Tandem/Problem/Facts.h"
#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Plan.h"

namespace tandem::search {

/// A layout that a copy may be made from, in stages that begin behind
/// `position` (-1: in any).
struct CopySource {
  int position;
  const cost::ChangeCost *change;
};

/// A copy, to be made in the stage of operator `op`.
struct CopyNeed {
  cost::Copy copy;
  unsigned op;
  /// In the order in which equal ones are preferred.
  std::vector<CopySource> sources;
  bool waits = false;

  /// The source in a stage that begins with operator `begin`; null if a cut is
  /// missing.
  const cost::ChangeCost *getChange(unsigned begin, int64_t numStrands) const;
};

/// Bytes by operator, whatever the stages are.
struct HeldBytes {
  /// Of one strand: alive while the operator runs, copies from their first use
  /// on; of copies that it is the first to use; of terms that it makes, which
  /// are summed up at the end of its stage; and alive before the operator that
  /// were made before.
  std::vector<int64_t> alive, copies, terms, between;
  /// Of one strand, of what the operator makes: alive from it on, or terms.
  std::vector<int64_t> made;
  /// Of all strands: made by the operator; copies that it is the first to use;
  /// and alive before it, also as a copy that was used.
  std::vector<int64_t> onceMade, onceCopies, onceAlive;
  int64_t arguments = 0;

  void clear(unsigned numOperators);
  void sumUp();
};

class FixedForms {
public:
  FixedForms(const Facts &facts, cost::ChangeTable &table)
      : facts(facts), table(table) {}

  const cost::SearchProblem &getProblem() const { return facts.problem; }

  /// Replaces the plan's kept copies by all that the next pass wants again,
  /// and, if `waits`, its waiting copies by all that take time.
  bool choose(cost::Plan &plan, bool waits);
  /// False if some operand cannot be brought into its layout. `holdsLeast`: of
  /// what waits, and of inputs that nothing uses, no more memory counts than
  /// the stages that make and use it need.
  bool analyse(const cost::Plan &plan, bool holdsLeast = false);

  /// Sorted by operator.
  std::vector<CopyNeed> needs;
  /// First one of each operator; one more than operators.
  std::vector<unsigned> firstNeed;
  /// Local seconds of sums over time, and seconds of copies that wait, of the
  /// tensors that each operator makes.
  std::vector<double> sums, leaving;
  /// Per operator, the first one with which a stage can begin that runs it
  /// ahead; empty if nothing is made again.
  std::vector<unsigned> aheadFrom;
  /// Bytes that plans with these forms hold (Cost.h, *Memory*), by operator.
  /// What waits is taken to be alive as long as its gradient or it may be.
  HeldBytes held;

private:
  struct Live {
    cost::Layout layout;
    cost::Pass madeIn;
    /// The operators that made it, and to which its memory is accounted.
    int position, heldTo;
    /// By the stage that makes it.
    bool isCounted = false;
  };
  bool placeTensor(const cost::Plan &plan, unsigned tensor);
  bool placeUse(const cost::Plan &plan, unsigned tensor,
                const cost::TensorUse &use);
  bool makeNeed(const cost::Plan &plan, unsigned tensor, unsigned op,
                const cost::Layout &base, const cost::Layout &layout);
  bool isCopyInPlace(const cost::Plan &plan, unsigned tensor,
                     const cost::Layout &layout) const;
  void endPass(const cost::Plan &plan, unsigned tensor, cost::Pass pass,
               unsigned last);
  void chooseTensor(const cost::Plan &plan, unsigned tensor, bool waits,
                    cost::Plan &chosen);
  /// Of a tensor that is placed.
  struct Placed {
    cost::Layout produced;
    unsigned lastOp = 0;
    bool isSummed = false, keepsTerms = false, isInPlace = false;
  };
  void holdOnce(int64_t bytes, int birth, unsigned death);
  void holdShare(int64_t bytes, unsigned first, unsigned last, bool isMade);
  void holdCopy(unsigned tensor, const Live &copy, unsigned last);
  void holdTensor(unsigned tensor, unsigned last);
  void holdTensors();

  const Facts &facts;
  cost::ChangeTable &table;
  bool holdsLeast = false;
  std::vector<Placed> placed;
  /// As `findAheadFrom` (Ahead.h) wants it.
  std::vector<unsigned> copiesFrom;
  //--- Of the tensor at hand.
  std::vector<Live> alive;
  Placed *made = nullptr;
  std::vector<cost::TensorUse> scratch;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PROBLEM_FORMS_H
