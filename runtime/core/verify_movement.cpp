//===- verify_movement.cpp - movement of bytes in a Repeat ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two iterations say all about bytes that every iteration touches again. Bytes
// that move need no comparison between iterations if they are an iteration's
// own, which is found here by one sweep over each space.
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "core/text.h"
#include "core/verify.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace tandem::rt {

namespace {
/// A reference in a body. [low, high) is what it touches in all iterations.
struct Reference {
  const Command *command;
  Access access;
  int64_t begin, step;
  int64_t low, high;
  int64_t end() const { return begin + access.ref->bytes; }
};
using References = std::vector<Reference>;

/// Moving references whose bytes overlap, also by way of others.
struct Region {
  int64_t low, high;
  const Reference *first; ///< One that writes, if any does.
};

class MovementVerifier {
public:
  MovementVerifier(const Program &program, int64_t rank, const Command &repeat)
      : program(program), rank(rank), repeat(repeat),
        op(std::get<Repeat>(repeat.operation)) {}

  Status verify();

private:
  void add(const Command &command, const Access &access);
  Expected<std::vector<Region>> findRegions(References &moving) const;
  Status verifyRegion(std::span<const Reference> members,
                      const Reference &first) const;
  Status verifySpace(const References &list) const;
  Status conflict(const Reference &moving, const Reference &other) const;

  const Program &program;
  const int64_t rank;
  const Command &repeat;
  const Repeat &op;
  std::map<std::pair<Space, uint32_t>, References> spaces;
};

void MovementVerifier::add(const Command &command, const Access &access) {
  const BufferRef &ref = *access.ref;
  if (ref.bytes == 0 || !canBeWritten(program, ref))
    return;
  int64_t begin = program.evaluate(ref.offset, rank);
  int64_t step = ref.offset.perIteration, last = begin + step * (op.count - 1);
  spaces[{ref.space, ref.index}].push_back({&command, access, begin, step,
                                            std::min(begin, last),
                                            std::max(begin, last) + ref.bytes});
}

Status MovementVerifier::conflict(const Reference &moving,
                                  const Reference &other) const {
  return errorOf(commandText(*moving.command), " of rank ", rank,
                 moving.access.write ? " writes " : " reads ",
                 bufferText(program, *moving.access.ref, rank),
                 ", which moves by ", moving.step, " bytes per iteration of ",
                 commandText(repeat), ", and ", commandText(*other.command),
                 other.access.write ? " writes " : " reads ",
                 bufferText(program, *other.access.ref, rank),
                 other.step ? concat(", which moves by ", other.step) : "",
                 ": bytes that move and are written belong to one iteration");
}

/// All of them move alike, and those of one iteration lie so close together
/// that the next iteration is past them.
Status MovementVerifier::verifyRegion(std::span<const Reference> members,
                                      const Reference &first) const {
  if (!first.access.write)
    return Status::success();
  auto begins = [](const Reference &a, const Reference &b) {
    return a.begin < b.begin;
  };
  auto ends = [](const Reference &a, const Reference &b) {
    return a.end() < b.end();
  };
  const Reference &low = *std::ranges::min_element(members, begins);
  const Reference &high = *std::ranges::max_element(members, ends);
  for (const Reference &member : members)
    if (member.step != first.step)
      return conflict(first, member);
  if (high.end() - low.begin > std::abs(first.step))
    return conflict(first, &first == &high ? low : high);
  return Status::success();
}

Expected<std::vector<Region>>
MovementVerifier::findRegions(References &moving) const {
  std::ranges::sort(moving, {}, &Reference::low);
  std::vector<Region> regions;
  for (size_t begin = 0, end = 0; begin < moving.size(); begin = end) {
    Region region{moving[begin].low, moving[begin].high, &moving[begin]};
    for (; end < moving.size() && moving[end].low < region.high; ++end) {
      region.high = std::max(region.high, moving[end].high);
      if (moving[end].access.write && !region.first->access.write)
        region.first = &moving[end];
    }
    Status status = verifyRegion(std::span(moving).subspan(begin, end - begin),
                                 *region.first);
    if (!status.ok())
      return status;
    regions.push_back(region);
  }
  return regions;
}

/// What stays where it is may be read beside what moves, and no more.
Status MovementVerifier::verifySpace(const References &list) const {
  References moving;
  for (const Reference &reference : list)
    if (reference.step)
      moving.push_back(reference);
  Expected<std::vector<Region>> regions = findRegions(moving);
  if (!regions.ok())
    return regions.status();
  for (const Reference &fixed : list) {
    if (fixed.step)
      continue;
    auto it = std::ranges::upper_bound(*regions, fixed.low, {}, &Region::high);
    for (; it != regions->end() && it->low < fixed.high; ++it)
      if (fixed.access.write || it->first->access.write)
        return conflict(*it->first, fixed);
  }
  return Status::success();
}

Status MovementVerifier::verify() {
  if (op.count == 1)
    return Status::success();
  for (const Command &command : op.body)
    for (const Access &access : accessesOf(command))
      add(command, access);
  for (const auto &[space, list] : spaces)
    if (Status status = verifySpace(list); !status.ok())
      return status;
  return Status::success();
}
} // namespace

Status verifyMovement(const Program &program, int64_t rank) {
  auto &own = program.rankPrograms[program.rankToProgram[size_t(rank)]];
  for (const Command &command : own.commands)
    if (std::holds_alternative<Repeat>(command.operation))
      if (Status status = MovementVerifier(program, rank, command).verify();
          !status.ok())
        return status;
  return Status::success();
}

} // namespace tandem::rt
