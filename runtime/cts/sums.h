//===- sums.h - a pipeline whose points sum in pieces -----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_SUMS_H
#define TANDEM_RT_CTS_SUMS_H

#include "cts/support.h"

namespace tandem::rt::cts {

/// Two points of two ranks each. Point 0 sends to point 1, behind the first
/// pieces of a sum over its ranks, and beside the others.
struct SumsBesideTransfers {
  int64_t transfers = 0;
  int64_t piecesBefore = 0, piecesBeside = 0;
  bool bothSum = false; ///< Point 1 has the pieces beside, too.
  bool yields = true;   ///< Whether the sum lets transfers go first.

  ProgramBuilder make() const {
    ProgramBuilder b({{"pipe", 2}, {"data", 2}});
    uint32_t to = b.transferQueue(0, 1), sums = b.commQueue("sums", yields);
    for (int64_t point : {0, 1}) {
      if (point)
        b.addRankProgram();
      b.setArena(128);
      for (int64_t rank : {0, 1})
        b.setRankProgram(2 * point + rank, uint32_t(point));
      b.add({.name = "zero"}, Fill{b.arena(0, 128), {0}});
      uint32_t filled = b.recordEvent(kCompute);
      b.waitEvent(to, filled);
      b.waitEvent(sums, filled);
      if (point == 0 && piecesBefore > 0) {
        addPieces(b, sums, piecesBefore);
        b.waitEvent(to, b.recordEvent(sums));
      }
      addTransfers(b, to, point);
      if (point == 0 || bothSum)
        addPieces(b, sums, piecesBeside);
    }
    return b;
  }

private:
  static void addPieces(ProgramBuilder &b, uint32_t queue, int64_t count) {
    BufferRef sum = b.arena(64, 16);
    for (int64_t i = 0; i < count; ++i)
      b.add({.name = "piece", .queue = queue},
            Collective{.kind = CollectiveKind::AllReduce,
                       .axes = {1},
                       .type = ElementType::F32,
                       .shape = {4},
                       .source = sum,
                       .destination = sum});
  }

  void addTransfers(ProgramBuilder &b, uint32_t queue, int64_t point) const {
    BufferRef value = b.arena(0, 16);
    for (int64_t i = 0; i < transfers; ++i) {
      Transfer transfer{
          .from = 0, .to = 1, .type = ElementType::F32, .shape = {4}, .tag = i};
      if (point == 0)
        b.send({.name = "send", .queue = queue}, transfer, value);
      else
        b.receive({.name = "receive", .queue = queue}, transfer, value);
    }
  }
};

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_SUMS_H
