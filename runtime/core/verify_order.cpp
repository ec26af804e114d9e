//===- verify_order.cpp - one order of collectives ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "core/verify.h"

namespace tandem::rt {

namespace {
std::vector<const Command *> collectivesOf(const RankProgram &rankProgram) {
  std::vector<const Command *> list;
  for (const Command &command : rankProgram.commands)
    if (std::holds_alternative<Collective>(command.operation))
      list.push_back(&command);
  return list;
}

bool agree(const Command &one, const Command &other) {
  const auto &a = std::get<Collective>(one.operation);
  const auto &b = std::get<Collective>(other.operation);
  return one.queue == other.queue && a.kind == b.kind && a.axes == b.axes &&
         a.type == b.type && a.shape == b.shape && a.splitDim == b.splitDim &&
         a.concatDim == b.concatDim;
}

/// The order is that of the listing, over both queues: as both queues of
/// every rank can follow it, no two ranks can wait for each other in a circle.
Status compare(const Program &program, uint32_t first, uint32_t other) {
  auto a = collectivesOf(program.rankPrograms[first]);
  auto b = collectivesOf(program.rankPrograms[other]);
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!agree(*a[i], *b[i]))
      return errorOf("collective ", i, " of rank program ", other, " is ",
                     Program::kindName(b[i]->operation), " of ",
                     commandText(*b[i]), ", expected ",
                     Program::kindName(a[i]->operation), " of ",
                     commandText(*a[i]), " as in rank program ", first);
  if (a.size() != b.size())
    return errorOf("rank program ", other, " has ", b.size(),
                   " collectives, expected ", a.size(), " as in rank program ",
                   first);
  return Status::success();
}
} // namespace

Status verifyCollectiveOrder(const Program &program) {
  std::vector<bool> done(program.rankPrograms.size());
  uint32_t first = program.rankToProgram.front();
  done[first] = true;
  for (uint32_t other : program.rankToProgram) {
    if (done[other])
      continue;
    done[other] = true;
    if (Status status = compare(program, first, other); !status.ok())
      return status;
  }
  return Status::success();
}

} // namespace tandem::rt
