//===- Mechanism.h - mechanisms for ablation --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the search `tandem` does beyond its core, by name, so that
// benchmarks/ablation.py can measure what each is worth: a plan is legal and a
// bound is one whatever is left out. A mechanism has a line here as long as it
// is in the search.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_MECHANISM_H
#define TANDEM_SEARCH_MECHANISM_H

#include <bitset>
#include <optional>
#include <string_view>

namespace tandem::search {

enum class Mechanism {
#define TANDEM_MECHANISM(ID, NAME) ID,
#include "tandem/Search/Mechanisms.def"
  Count
};

/// The mechanism of a name such as `anneal`.
std::optional<Mechanism> findMechanism(std::string_view name);

/// What an option that takes names expects, in words.
const char *listMechanisms();

class MechanismSet {
public:
  void add(Mechanism mechanism) { bits.set(size_t(mechanism)); }
  bool has(Mechanism mechanism) const { return bits.test(size_t(mechanism)); }

private:
  std::bitset<size_t(Mechanism::Count)> bits;
};

} // namespace tandem::search

#endif // TANDEM_SEARCH_MECHANISM_H
