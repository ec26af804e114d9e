//===- Oases.h - the cost model of Oases ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The accounting `oases`: what a step of tensor parallelism with recomputation
// costs, in two sub-batches (Oases, section 4.2). A compute operator is a
// block: a computation, and the all-reduce of what it makes. Blocks are a
// chain. The form of a block says its degree.
//
// With d the forward computation of a block in one sub-batch and c its
// all-reduce, the time of the nodes of a pass is (equation 3)
//
//   T(d, c) = d0 + sum over i > 0 of max(d_i, c_{i-1})
//           + sum over all i of max(d_i, c_i) + c_k
//
// and a step takes T(d, c) + T(3 d, c): the backward pass computes everything
// again. Where the degree changes, an all-gather stands alone (equation 4): in
// the forward pass if it rises, in the backward pass if it falls. What would
// have overlapped there, the smaller one of c_v and d_u, adds to it.
//
// HiDup stages mean nothing. A device holds what is resident, what each block
// reads of both sub-batches, and the workspace of the last block (equation 6).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_OASES_H
#define TANDEM_COST_OASES_H

#include "tandem/Cost/SearchProblem.h"

namespace tandem::cost {

/// Computation of the backward pass, with what is made again, per second of the
/// forward pass.
constexpr double kOasesBackward = 3;
constexpr unsigned kOasesStrands = 2;

/// The compute operators of a chain in their order, then its output.
using OasesChain = std::vector<unsigned>;

/// Nothing, and one line in `error`, unless the accounting means something for
/// this problem: space axes, all operators forward, no ties, and each operator
/// but the first reads what the one before makes, besides arguments, which
/// nobody else reads.
std::optional<OasesChain> makeOasesChain(const SearchProblem &problem,
                                         std::string &error);

/// Which operand the operator before makes; -1 if none. `producers` are the
/// problem's.
int findOasesRead(const SearchProblem &problem, unsigned op,
                  const std::vector<unsigned> &producers);

/// What an operator of the chain takes from the one before. In s.
struct OasesChange {
  double allReduce = 0, forwardGather = 0, backwardGather = 0;
};

/// From the layout in which a tensor is made to that in which it is read;
/// nothing if there is no such change: `reduce` becomes `full`, and `gather`
/// and `full` each other. An all-reduce over several axes goes from the last
/// axis to the first, on a part of the tensor that the axes behind have split.
std::optional<OasesChange> getOasesChange(const SearchProblem &problem,
                                          unsigned tensor, const Layout &from,
                                          const Layout &to);

/// What a step takes between two blocks that compute for `before` and `after`
/// seconds: their terms of equations 3 and 4 that have this change.
double getOasesTime(double before, const OasesChange &change, double after);
/// The same in front of the first block, and behind the last one.
double getOasesBegin(double after);
double getOasesEnd(double before, const OasesChange &change);

/// Bytes of a device that a block adds: its arguments, and what it reads.
int64_t getOasesBytes(const SearchProblem &problem, unsigned op,
                      const Signature &signature);

} // namespace tandem::cost

#endif // TANDEM_COST_OASES_H
