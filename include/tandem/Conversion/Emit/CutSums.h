//===- CutSums.h - gradient sums in pieces ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives of queues that let transfers go first (`rt::Queue::yields`) are
// cut into pieces, so that a transfer waits for one piece at most. Where no
// transfer of the rank program comes behind a collective, it is left whole.
//
// A piece is a range of bytes in both operands: so an all-reduce is cut
// anywhere, and what changes a dimension along those before it. What changes
// the outermost dimension is left whole. An element is added in the same order
// in any piece.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_EMIT_CUTSUMS_H
#define TANDEM_CONVERSION_EMIT_CUTSUMS_H

#include "tandem_rt/program.h"

namespace tandem {

/// The largest operand of a collective that can be cut, in bytes; 0: there is
/// none.
int64_t getLargestSum(const rt::Program &program);

/// `program`, in which each piece has at most about `bytes` of its larger
/// operand; with 0 sums are whole, and their queues let nothing go first. A
/// piece is listed in front of each collective or transfer of another queue
/// that follows: where all run in the order of the listing, none waits for more
/// than a piece.
rt::Program cutSums(const rt::Program &program, int64_t bytes);

} // namespace tandem

#endif // TANDEM_CONVERSION_EMIT_CUTSUMS_H
