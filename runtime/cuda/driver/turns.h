//===- turns.h - common order of joint operations ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where processes have several ranks each, two of them have to put what is of
// both into streams in one order, or each waits for what the other does later.
// All find the same order, by walking through the listings of all ranks.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_DRIVER_TURNS_H
#define TANDEM_RT_CUDA_DRIVER_TURNS_H

#include "tandem_rt/program.h"

namespace tandem::rt::cuda {

/// A command of a rank's listing, in which the body of a Repeat stands behind
/// it once.
struct Listed {
  const Command *command;
  int64_t count = 1; ///< Of the Repeat around it.
  size_t repeat = 0; ///< The entry of the Repeat around it; its own: none.
};
std::vector<Listed> flatten(const RankProgram &program);

/// The ranks that do a command of `rank` together: its group, or who sends and
/// who receives; none: it is the rank's own.
std::vector<int64_t> partiesOf(const Program &program, const Operation &op,
                               int64_t rank);

/// To the next entry of a listing: at the end of a body back to its begin,
/// until all iterations are done. Entries have what Listed has.
template <typename Entries>
void stepOver(const Entries &entries, size_t &next, int64_t &iteration) {
  size_t around = entries[next].repeat;
  bool isInBody = around != next;
  ++next;
  if (!isInBody)
    return;
  const auto &repeat = std::get<Repeat>(entries[around].command->operation);
  if (next <= around + repeat.body.size())
    return;
  if (++iteration < repeat.count)
    next = around + 1;
  else
    iteration = 0;
}

/// A command of several processes that comes next in one of them: of the first
/// of its members there, by place among the ranks of the process.
struct Turn {
  size_t place, entry;
  bool operator==(const Turn &) const = default;
};

/// Those of a step, for the process that has `ranks`; `processOf` is by rank.
std::vector<Turn> turnsOf(const Program &program,
                          const std::vector<int64_t> &processOf,
                          const std::vector<int64_t> &ranks);

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_DRIVER_TURNS_H
