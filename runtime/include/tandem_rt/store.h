//===- store.h - values of a model ------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What outlives a step, and a Program: parameters, states, buffers, the step
// count and the seed, in the slices of the ranks of this process. Any number
// of Programs (of other batches, for evaluation) run on one store and see each
// other's updates. Inputs, learning rates, constants and results belong to the
// session that runs a Program.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_STORE_H
#define TANDEM_RT_STORE_H

#include "tandem_rt/program.h"

#include <memory>
#include <string_view>

namespace tandem::rt {

/// Which ranks this process has, and what connects them with the others.
struct Job {
  /// Ranks of all processes; 0: as many as the Program has.
  int64_t worldSize = 0;
  /// Those of this process, ascending; empty: all.
  std::vector<int64_t> ranks = {};
  /// The name of a registered fabric.
  std::string fabric = "local";

  bool operator==(const Job &) const = default;
};

/// Whether arguments of this role live in a store: parameter, state, buffer,
/// step and seed do.
bool isStored(std::string_view role);

/// A tensor of the model in a store, as a whole.
struct StoredTensor {
  std::string role = {};
  std::string name = {};
  ElementType type = ElementType::F32;
  Shape shape = {};
  /// A step failed after it had begun to write it.
  bool damaged = false;
};

/// Values by role, name and part. Empty at first: each session adds what its
/// Program has and the store has not, as zeros. One session at a time may use
/// it; a second one that tries meanwhile gets an error. Thread-safe.
class ValueStore {
public:
  ValueStore();
  ~ValueStore();

  /// Opens the device of Programs for `target`, before there is one, with so
  /// many ranks in all, 0: one for each process. So what is missing for it here
  /// is an error before anything is compiled. Sessions use what is open.
  Status open(const Target &target, int64_t numRanks);

  /// By role and name.
  std::vector<StoredTensor> tensors() const;

  /// For sessions.
  struct Impl;
  Impl &getImpl() { return *impl; }

private:
  std::unique_ptr<Impl> impl;
};

} // namespace tandem::rt

#endif // TANDEM_RT_STORE_H
