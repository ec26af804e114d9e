//===- value_store.h - content of a value store -----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_VALUE_STORE_H
#define TANDEM_RT_CORE_VALUE_STORE_H

#include "core/whole_values.h"
#include "tandem_rt/store.h"
#include "tandem_rt/wholes.h"

#include <map>
#include <mutex>
#include <set>

namespace tandem::rt {

/// An argument of a Program in the slices of this process's ranks.
struct StoredPiece {
  Argument argument;
  std::string memorySpace = {}; ///< Its name, as numbers are a Program's own.
  RankBuffers buffers = {};
};

struct ValueStore::Impl {
  using Key = std::pair<std::string, std::string>; ///< Role and name.
  struct Entry {
    ElementType type = ElementType::F32;
    Shape shape = {};
    std::vector<StoredPiece> pieces = {};
  };

  using Entries = std::map<Key, Entry>;

  /// The store's place, or, where it is empty, device and fabric for `program`;
  /// the device may be open.
  Expected<Place> settle(const Program &program, const Job &job) const;

  /// Sets `buffers`, by argument, of all stored ones. Those that the store has
  /// must be of the same form; the others are zeros, and `fresh`.
  Status bind(const Program &program, const std::vector<Whole> &wholes,
              const Place &at, std::vector<RankBuffers> &buffers,
              Entries &fresh) const;

  /// Takes over what a session of `program` has found, once nothing can fail.
  void adopt(const Program &program, const Place &at, Entries fresh);

  /// Fails while there are values that a failed step has begun to write.
  Status checkUndamaged() const;

  Place place = {};
  std::string deviceName = {};
  std::vector<Axis> mesh = {};
  Entries entries;
  std::set<Key> damaged;
  std::string cause; ///< What they may be, and why.

  /// Held by whoever uses the values.
  std::mutex use;
  /// Held for what tensors() reads.
  mutable std::mutex listing;
};

/// World size and ranks as numbers, and right. Where a launcher has started
/// several processes, and `given` names no ranks: neighbouring ones, alike many
/// for each process.
Expected<Job> jobOfProcess(Job given, int64_t ranks);

/// A buffer per rank of this process in a memory space of `program`, zeroed.
Expected<RankBuffers> allocateForRanks(const Place &place,
                                       const Program &program, const Form &form,
                                       uint32_t memorySpace, int64_t bytes);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_VALUE_STORE_H
