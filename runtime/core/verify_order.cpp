//===- verify_order.cpp - order of collectives ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "core/text.h"
#include "core/verify.h"

#include <algorithm>

namespace tandem::rt {

namespace {
/// Collectives and checks, and the Repeats that hold some: what all ranks must
/// come to together. A check that only some have would refuse a step there and
/// let the others update.
bool isShared(const Command &command) {
  if (const auto *repeat = std::get_if<Repeat>(&command.operation))
    return std::any_of(repeat->body.begin(), repeat->body.end(), isShared);
  return std::holds_alternative<Collective>(command.operation) ||
         std::holds_alternative<Check>(command.operation);
}

std::vector<const Command *> meetingsOf(const RankProgram &rankProgram) {
  std::vector<const Command *> list;
  for (const Command *command : rankProgram.listing())
    if (isShared(*command))
      list.push_back(command);
  return list;
}

struct Agree {
  bool operator()(const Collective &a, const Collective &b) const {
    return a.kind == b.kind && a.axes == b.axes && a.type == b.type &&
           a.shape == b.shape && a.splitDim == b.splitDim &&
           a.concatDim == b.concatDim;
  }
  bool operator()(const Check &a, const Check &b) const {
    return a.kind == b.kind && a.axes == b.axes && a.message == b.message;
  }
  bool operator()(const Repeat &a, const Repeat &b) const {
    return a.count == b.count &&
           std::count_if(a.body.begin(), a.body.end(), isShared) ==
               std::count_if(b.body.begin(), b.body.end(), isShared);
  }
  template <typename A, typename B>
  bool operator()(const A &, const B &) const {
    return false;
  }
};

/// The order is that of the listing, over all queues: as all queues of every
/// rank can follow it, no two ranks can wait for each other in a circle.
Status compare(const Program &program, uint32_t first, uint32_t other) {
  auto a = meetingsOf(program.rankPrograms[first]);
  auto b = meetingsOf(program.rankPrograms[other]);
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i]->queue != b[i]->queue ||
        !std::visit(Agree(), a[i]->operation, b[i]->operation))
      return errorOf("collective or check ", i, " of rank program ", other,
                     " is ", Program::kindName(b[i]->operation), " of ",
                     commandText(*b[i]), ", expected ",
                     Program::kindName(a[i]->operation), " of ",
                     commandText(*a[i]), " as in rank program ", first);
  if (a.size() != b.size())
    return errorOf("rank program ", other, " has ", b.size(),
                   " collectives and checks, expected ", a.size(),
                   " as in rank program ", first);
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
