//===- verify.h - the parts of verifyProgram() ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_VERIFY_H
#define TANDEM_RT_CORE_VERIFY_H

#include "tandem_rt/program.h"

namespace tandem::rt {

class CoordinateUses;

/// Bounds of what one process can hold; they keep products in 64 bits.
inline constexpr int64_t kMaxRanks = int64_t(1) << 20;
inline constexpr int64_t kMaxBytes = int64_t(1) << 50;
inline constexpr int64_t kMaxExtent = int64_t(1) << 40;

/// Mesh, queues, spaces, forms, shapes, updates and places: what does not need
/// commands.
Status verifyDeclarations(const Program &program);

/// Every extent is 0 to kMaxExtent, and the whole at most kMaxBytes.
Status verifyShape(const Shape &shape);

/// Each command by itself, for the rank that runs it. With `only`, of a rank
/// whose program was verified for another one, what depends on coordinates.
Status verifyCommands(const Program &program, int64_t rank,
                      const CoordinateUses *only = nullptr);

/// Ranks that meet do so in one order, with one meaning, and none waits for
/// itself through others: in the order of the listings, all come to their ends.
Status verifyMeetings(const Program &program);

/// Each check's verdict is made by a rank that has the value, and reaches all
/// rank programs, which list the same checks.
Status verifyVerdicts(const Program &program);

/// Events, hazards between queues and between iterations, reads before writes,
/// and checks before updates. `only` as in verifyCommands().
Status verifyHazards(const Program &program, int64_t rank,
                     const CoordinateUses *only = nullptr);

/// In each body, what moves from one iteration to the next is an iteration's
/// own.
Status verifyMovement(const Program &program, int64_t rank);

/// Bytes of the space that a reference points into; -1 if there is none.
int64_t spaceBytes(const Program &program, const RankProgram &rankProgram,
                   const BufferRef &ref);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_VERIFY_H
