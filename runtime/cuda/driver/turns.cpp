//===- turns.cpp - common order of joint operations -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/driver/turns.h"
#include "core/access.h"

#include <algorithm>
#include <map>

namespace tandem::rt::cuda {

std::vector<Listed> flatten(const RankProgram &program) {
  std::vector<Listed> listed;
  for (const Command &command : program.commands) {
    size_t own = listed.size();
    listed.push_back({&command, 1, own});
    if (const auto *repeat = std::get_if<Repeat>(&command.operation))
      for (const Command &inner : repeat->body)
        listed.push_back({&inner, repeat->count, own});
  }
  return listed;
}

std::vector<int64_t> partiesOf(const Program &program, const Operation &op,
                               int64_t rank) {
  if (const auto *transfer = std::get_if<Transfer>(&op)) {
    auto [from, to] = program.ends(*transfer, rank);
    return {from, to};
  }
  bool isOfGroup = std::holds_alternative<Collective>(op) ||
                   std::holds_alternative<Check>(op);
  return isOfGroup ? program.group(groupAxes(op), rank)
                   : std::vector<int64_t>();
}

namespace {
/// All ranks of the job, each in front of a command or waiting in one for the
/// others that take part.
class Walk {
public:
  Walk(const Program &program, const std::vector<int64_t> &processOf,
       const std::vector<int64_t> &ranks);
  std::vector<Turn> run();

private:
  struct Walker {
    std::vector<Listed> entries;
    size_t next = 0;
    int64_t iteration = 0;
    bool isWaiting = false;
  };
  bool advance(int64_t rank);
  bool meet(const std::vector<int64_t> &group, uint32_t queue);

  const Program &program;
  const std::vector<int64_t> &processOf, &ranks;
  std::vector<Walker> walkers;
  std::map<std::pair<std::vector<int64_t>, uint32_t>, size_t> present;
  std::vector<Turn> turns;
};

Walk::Walk(const Program &program, const std::vector<int64_t> &processOf,
           const std::vector<int64_t> &ranks)
    : program(program), processOf(processOf), ranks(ranks) {
  for (int64_t rank = 0; rank < program.numRanks(); ++rank)
    walkers.push_back(
        {flatten(program.rankPrograms[program.rankToProgram[size_t(rank)]])});
}

/// Whether it has gone on.
bool Walk::advance(int64_t rank) {
  Walker &walker = walkers[size_t(rank)];
  bool hasMoved = false;
  while (!walker.isWaiting && walker.next < walker.entries.size()) {
    hasMoved = true;
    const Command &command = *walker.entries[walker.next].command;
    std::vector<int64_t> parties = partiesOf(program, command.operation, rank);
    if (!parties.empty()) {
      walker.isWaiting = true;
      if (!meet(parties, command.queue))
        break;
    } else {
      stepOver(walker.entries, walker.next, walker.iteration);
    }
  }
  return hasMoved;
}

/// Whether all members are there now; then they go on.
bool Walk::meet(const std::vector<int64_t> &group, uint32_t queue) {
  size_t &count = present[{group, queue}];
  if (++count < group.size())
    return false;
  count = 0;
  auto isElsewhere = [&](int64_t rank) {
    return processOf[size_t(rank)] != processOf[size_t(group.front())];
  };
  auto own = std::ranges::find_first_of(ranks, group);
  if (own != ranks.end() && std::ranges::any_of(group, isElsewhere))
    turns.push_back({size_t(own - ranks.begin()), walkers[size_t(*own)].next});
  for (int64_t rank : group) {
    Walker &walker = walkers[size_t(rank)];
    walker.isWaiting = false;
    stepOver(walker.entries, walker.next, walker.iteration);
  }
  return true;
}

/// The verifier has shown that all ranks come to their ends.
std::vector<Turn> Walk::run() {
  for (bool hasMoved = true; hasMoved;) {
    hasMoved = false;
    for (int64_t rank = 0; rank < program.numRanks(); ++rank)
      hasMoved |= advance(rank);
  }
  return std::move(turns);
}
} // namespace

std::vector<Turn> turnsOf(const Program &program,
                          const std::vector<int64_t> &processOf,
                          const std::vector<int64_t> &ranks) {
  return Walk(program, processOf, ranks).run();
}

} // namespace tandem::rt::cuda
