//===- Levels.h - cost of a tensor's users per level ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A factor costs as much as the dearest change of its users: at a level all
// users choose among layouts whose changes cost no more than that. What the
// best choice of a user costs, per produced layout and level, is asked for by
// every other slot of its factor, and changes with that user's message only: it
// is kept until then.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_RELAXATION_LEVELS_H
#define TANDEM_LIB_SEARCH_TANDEM_RELAXATION_LEVELS_H

#include "Tandem/Relaxation/Factors.h"

namespace tandem::search {

class LevelCosts {
public:
  explicit LevelCosts(const FactorGraph &graph);

  /// Keeps what factors of these variables ask for, as far as there is room.
  void keep(const std::vector<unsigned> &variables);
  /// The weights have changed: so have the levels.
  void reset();
  /// All costs have changed, or those of one slot, by its first message.
  void forget() { forgottenAt = ++age; }
  void touch(unsigned message) { versions[message] = ++age; }

  /// The least cost of a user in `slot`, per level of `FactorKind::getLevels`.
  /// `message` is its first message, `costs` what its layouts cost. Valid until
  /// the next call.
  const double *get(unsigned factor, unsigned slot, unsigned message,
                    const double *costs);

private:
  void fill(const FactorKind &kind, unsigned slot, const double *costs,
            double *best) const;

  const FactorGraph &graph;
  std::vector<unsigned> keptFactors;
  /// Per factor the first of its slots in `entries`; negative if it has none.
  std::vector<int64_t> firstEntry;
  struct Entry {
    size_t begin = 0;
    uint64_t madeAt = 0;
  };
  std::vector<Entry> entries;
  std::vector<double> values, scratch;
  /// When the costs of a slot changed last, and of all.
  std::vector<uint64_t> versions;
  uint64_t age = 1, forgottenAt = 1;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_RELAXATION_LEVELS_H
