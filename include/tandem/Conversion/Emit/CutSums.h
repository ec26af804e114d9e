//===- CutSums.h - gradient sums in pieces ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gradient sums of a pipeline's sections have queues of their own. There
// collectives are cut into pieces, and let transfers go first
// (`rt::Queue::yields`), so that a transfer waits for one piece at most. Where
// no transfer of the rank program comes behind a collective, it is left whole.
//
// A piece is a range of bytes in both operands: so an all-reduce is cut
// anywhere, and what changes a dimension along those before it. A
// reduce-scatter of the outermost dimension has blocks of members, one behind
// the other: a piece is a part of each block, which copies put side by side
// into room behind the arena. Other collectives of that dimension are left
// whole. An element is added in the same order in any piece.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_EMIT_CUTSUMS_H
#define TANDEM_CONVERSION_EMIT_CUTSUMS_H

#include "tandem_rt/program.h"
#include "llvm/ADT/StringRef.h"

namespace tandem {

/// Of the names of the queues of sums.
inline constexpr llvm::StringLiteral kSumQueuePrefix = "sums of ";

/// Whether a Program has such queues.
bool hasSums(const rt::Program &program);

/// The largest operand of a collective that can be cut, in bytes; 0: there is
/// none.
int64_t getLargestSum(const rt::Program &program);

/// `program`, in which each piece has at most about `bytes` of its larger
/// operand; with 0 it stays as it is, with whole sums, which let nothing go
/// first. A piece is listed in front of each collective or transfer of another
/// queue that follows: where all run in the order of the listing, none waits
/// for more than a piece.
rt::Program cutSums(const rt::Program &program, int64_t bytes);

} // namespace tandem

#endif // TANDEM_CONVERSION_EMIT_CUTSUMS_H
