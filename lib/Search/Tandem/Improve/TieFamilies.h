//===- TieFamilies.h - forms that change together ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A parameter, its states and their update move together, as does one of these
// that is resident alone: so they get other forms without a collective more.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_IMPROVE_TIEFAMILIES_H
#define TANDEM_LIB_SEARCH_TANDEM_IMPROVE_TIEFAMILIES_H

#include "Tandem/Problem/Facts.h"
#include <map>
#include <optional>
#include <set>

namespace tandem::search {

struct TieFamily {
  /// Signatures of the groups, with which the residents hold `bytes`.
  struct Choice {
    int64_t bytes;
    std::vector<unsigned> values;
    auto operator<=>(const Choice &) const = default;
  };
  /// Indices into `Facts::groups`.
  std::vector<unsigned> groups;
  /// Those of them that are resident.
  std::vector<unsigned> residents;
  /// Fewest bytes first.
  std::vector<Choice> choices;
  /// Groups of operators that make or read its tensors.
  std::vector<unsigned> neighbours;
};

class TieFamilies {
public:
  explicit TieFamilies(const Facts &facts);

  /// What a resident holds with a signature.
  int64_t getBytes(unsigned resident, unsigned value) const;

  /// Those with several choices, in the order of the parameters.
  std::vector<TieFamily> list;

private:
  void addUpdate(unsigned op);
  void addResident(unsigned op);
  void add(TieFamily family);
  void addNeighbours(TieFamily &family);
  std::vector<int64_t> getKind(const TieFamily &family, unsigned op) const;
  std::optional<TieFamily::Choice>
  getChoice(const TieFamily &family, unsigned op,
            const cost::Signature &signature) const;
  bool isPartOfFamily(unsigned op) const {
    return problem.operators[op].kind == cost::Operator::Kind::Resident ||
           problem.operators[op].pass == cost::Pass::Update;
  }

  const Facts &facts;
  const cost::SearchProblem &problem;
  /// Updates that have a family.
  std::set<unsigned> withFamily;
  /// Of updates, by kind: layers repeat.
  std::map<std::vector<int64_t>, std::vector<TieFamily::Choice>> choicesOf;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_IMPROVE_TIEFAMILIES_H
