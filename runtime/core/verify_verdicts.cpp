//===- verify_verdicts.cpp - reach of checks ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks with different commands have different values, whatever the compiler
// says. So a verdict counts only if ranks of all rank programs combine it.
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "core/verify.h"

#include <algorithm>
#include <map>
#include <set>

namespace tandem::rt {

namespace {
using Numbers = std::set<uint32_t>; ///< Of rank programs.

/// The rank programs of each group over `axes`; equal ones once.
std::set<Numbers> groupsOf(const Program &program,
                           const std::vector<uint32_t> &axes) {
  std::map<std::vector<int64_t>, Numbers> byRest;
  for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
    std::vector<int64_t> rest = program.coordinates(rank);
    for (uint32_t axis : axes)
      rest[axis] = 0;
    byRest[rest].insert(program.rankToProgram[size_t(rank)]);
  }
  std::set<Numbers> groups;
  for (auto &[rest, numbers] : byRest)
    groups.insert(std::move(numbers));
  return groups;
}

std::vector<const Command *> checksOf(const RankProgram &rankProgram) {
  std::vector<const Command *> checks = rankProgram.listing();
  std::erase_if(checks, [](const Command *command) {
    return !std::holds_alternative<Check>(command->operation);
  });
  return checks;
}

class Verdicts {
public:
  explicit Verdicts(const Program &program)
      : program(program),
        used(program.rankToProgram.begin(), program.rankToProgram.end()) {
    for (uint32_t number : used)
      checks[number] = checksOf(program.rankPrograms[number]);
  }
  Status verify();

private:
  Status verify(size_t place, const Numbers &group) const;
  const Check &check(uint32_t number, size_t place) const {
    return std::get<Check>(checks.at(number)[place]->operation);
  }

  const Program &program;
  const Numbers used;
  std::map<uint32_t, std::vector<const Command *>> checks;
  std::map<std::vector<uint32_t>, std::set<Numbers>> groups; ///< By axes.
};

/// The check at `place` among those of each rank program, in one group.
Status Verdicts::verify(size_t place, const Numbers &group) const {
  std::string name = commandText(*checks.at(*used.begin())[place]);
  for (uint32_t number : used)
    if (!group.contains(number))
      return errorOf("the verdict of ", name, " of rank program ",
                     *group.begin(), " does not reach rank program ", number,
                     ", expected a group that has ranks of all rank programs");
  auto hasSource = [&](uint32_t number) {
    return check(number, place).source.has_value();
  };
  if (std::ranges::none_of(group, hasSource))
    return errorOf(name, " has no source on any rank of its group, expected "
                         "one that has the value");
  return Status::success();
}

Status Verdicts::verify() {
  for (size_t place = 0; place < checks[*used.begin()].size(); ++place) {
    const std::vector<uint32_t> &axes = check(*used.begin(), place).axes;
    auto [found, isNew] = groups.try_emplace(axes);
    if (isNew)
      found->second = groupsOf(program, axes);
    for (const Numbers &group : found->second)
      if (Status status = verify(place, group); !status.ok())
        return status;
  }
  return Status::success();
}
} // namespace

Status verifyVerdicts(const Program &program) {
  return Verdicts(program).verify();
}

} // namespace tandem::rt
