//===- Cost.h - the cost of a plan ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one definition of what a plan costs: every algorithm minimises it, and
// `verifyPlan` and the exhaustive search call it on finished plans.
//
// Accounting `tandem`
//
//  Order. The problem's order is cut into stages. Arguments (operators without
//  operands) exist before the first stage. No stage holds both updates and
//  operators of another pass.
//
//  Copies. An operator that wants a tensor in a layout that its producer did
//  not give takes a copy (tensor, layout, pass). It is made in the stage of its
//  first user in that pass, from the layout with the cheapest change among
//  those that existed before that stage: the producer's, copies of this pass,
//  copies kept from an earlier one (ties: in that order, then the older). It
//  lives until the last use of the tensor, in any layout, in its pass; if kept,
//  in the next pass that uses the tensor. The producer's own layout lives until
//  the last operator that takes it as it is, or that is the first to take a
//  copy, unless a copy that was kept from an earlier pass is nearer than it.
//
//  Sums over time. A tensor that is `reduce` over time and is wanted `full`
//  over time in the update pass is a gradient: it is summed in the last
//  strand's computation of its producer's stage, and is from then on in the
//  producer's layout with `full` over time.
//
//  Strands. A stage has k strands if some operator in it has a form that is not
//  `full` over time and no change in it joins the strands (Changes.h; sums of
//  gradients do not); otherwise one. Its steps are (stage, strand), numbered
//  j = 1 ... n. What is `full` over time counts in strand 1; if there is one
//  strand, it does the work of all k.
//
//  Slots. While step j communicates (c_j, the largest sum over the queues),
//  step j - 1 computes (p_{j-1}):
//
//      T = sum over j = 1 ... n + 1 of max(p_{j-1} + beta c_j,
//                                          c_j + gamma p_{j-1}).
//
//  beta = gamma = 1 where the stage of step j has one strand, and for the first
//  step of a stage behind a stage of one strand. Elsewhere
//  beta = min(1, b (1 - 1/a)), gamma = min(1, a (1 - 1/b)) with the slow-downs
//  a and b of the problem.
//
//  Ahead. A plan may let a stage behind the first one, of one strand, run
//  ahead: operators that make values again (`Operator::isAgain`) of what was
//  there before the stage, or of what others of them make, are computed beside
//  the stage's collectives. A copy that is made in the stage was not there,
//  unless it is a free one of an argument. What stays inside of a kernel runs
//  ahead only with all its readers. Let a be the seconds of these operators:
//  they do not count in p_j, and the slot takes
//
//      p_{j-1} + max(a + beta c_j, c_j + gamma a)
//
//  with the beta and gamma of overlapped slots. All such operators of the stage
//  run ahead, or none.
//
//  Waiting. The changes between a gradient (a tensor made before the updates,
//  summed if it is a sum over time) and its updates may wait, if they start
//  from the gradient itself and join no strands. They enter a first-in
//  first-out queue at the end of the slot in which the gradient's computation
//  lies (order: that of the tensors' producers, then that of the copies' first
//  uses). A later slot takes w = min(W, max(0, s - alpha)) seconds from it, s
//  being the room, the longest communication beside which computation stays the
//  longer side: p (1 - gamma) / (1 - beta) - c in an overlapped slot, and p (1
//  - gamma) / (1 - beta), with the overlapped slots' beta and gamma, in a
//  serial one; the slot grows by beta w. What is left before the first update
//  is computed counts in full. With beta = 1 in overlapped slots there is no
//  room.
//
//  Memory. What is held while an operator i runs in its stage; the peak is the
//  largest of these sums:
//
//      arguments + A(i) + (k - 1) max(begin, end) + once + workspace(i)
//
//  Arguments are there for the whole step, in their stored layouts. A(i) is one
//  strand's share, bytes / k, of what is alive at i and not `full` over time,
//  of all that is alive if k = 1: from the operator that makes it to its last
//  use, and of copies from the beginning of their stage. The strands before
//  and behind hold what is alive at the end and at the beginning of the stage;
//  how many of each there are is linear in the strand, so that the most is
//  (k - 1) times the larger share. `once` are the bytes of what is `full` over
//  time with k > 1, and of sums over time: from the operator that makes it, or
//  from the beginning of the stage if that is a copy, to its last use. A stage
//  with an operator over time counts all that is there at some time in it.
//
//  The terms of a sum over time are there until the end of their stage, and the
//  sum from the next one on. A copy that waits lives from the stage in whose
//  slot its first piece is taken, and its source until the end of the one of
//  the last piece; both live in the stage of the first update if something was
//  left. A value that goes to an output tied to a parameter or state is written
//  in place and holds nothing of its own. A view (`Tensor::viewOf`) that has
//  the bytes of its root in their producers' layouts, and is no sum over time,
//  lies in the root's memory, which lives as long as it does. What lies inside
//  of a kernel holds nothing in its producer's layout, unless it is summed.
//  What runs ahead lies at the beginning of its stage: results are held from
//  there on, and workspaces up to the operator.
//  What a loop carries is held from the loop's first operator on
//  (`Tensor::heldFrom`).
//  A preset's schedule cuts each pass into pieces, by the bytes that are
//  gathered and those of gradients that wait (PieceLimit.h). If a plan says so
//  (`gathersAhead`), these cuts are stages here: what is gathered is held from
//  the piece before its reader's on; all gradients wait (lib/Cost/Memory.h).
//
// Accountings `hidup-*` are defined in docs/plan-files.md (HiDup, equation 5,
// with the backward pass as the published searcher has it).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_COST_H
#define TANDEM_COST_COST_H

#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Plan.h"
#include "tandem/Cost/Slots.h"

namespace tandem::cost {

/// A legal plan's cost with what it is made of.
struct CostReport {
  double seconds = 0;
  int64_t peak = 0;
  std::vector<Step> steps;
  /// One more than steps.
  std::vector<Slot> slots;
  /// Waiting collectives that no slot took.
  double exposedWait = 0;
  /// Of what the steps compute: sums and concatenations over time.
  double secondsOverTime = 0;
  std::vector<CopyChange> changes;
  /// Bytes at the peak of each stage (of all strands), and the strands it has.
  std::vector<int64_t> stageBytes;
  std::vector<unsigned> stageStrands;
};

/// The cost of the plan's decisions; derived and claimed fields are not looked
/// at, nor is the memory limit. Nothing, and one line in `error`, if the
/// decisions are not legal.
std::optional<CostReport> cost(const SearchProblem &problem, const Plan &plan,
                               ChangeTable &table, std::string &error);

/// First operators of the stages that may run ahead with the plan's other
/// decisions.
std::vector<unsigned> listAheadable(const SearchProblem &problem, Plan plan,
                                    ChangeTable &table);

/// Whether a plan has to hold the memory limit.
enum class LimitUse { Hold, Ignore };

/// Fills in the hash, the accounting and the derived fields of a legal plan.
/// False, with `error`, if it is none or exceeds the memory limit.
bool derive(const SearchProblem &problem, Plan &plan, std::string &error,
            LimitUse limit = LimitUse::Hold);

} // namespace tandem::cost

#endif // TANDEM_COST_COST_H
