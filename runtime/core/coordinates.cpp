//===- coordinates.cpp - what depends on where a rank is ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/coordinates.h"

#include <algorithm>
#include <limits>

namespace tandem::rt {

namespace {
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

/// Calls `visit` with each command that is no Repeat, and its iterations.
template <typename Visit>
void visitCommands(const RankProgram &rankProgram, Visit visit) {
  for (const Command &command : rankProgram.commands) {
    const auto *repeat = std::get_if<Repeat>(&command.operation);
    if (!repeat) {
      visit(command, 1);
      continue;
    }
    for (const Command &inner : repeat->body)
      visit(inner, repeat->count);
  }
}

/// All that a reference may be at, at any coordinates and in any iteration;
/// everything where 64 bits do not hold it.
ByteRange rangeOf(const Program &program, const BufferRef &ref,
                  int64_t iterations) {
  ByteRange range{ref.offset.base, ref.offset.base};
  bool isSmall = true;
  auto add = [&](int64_t coefficient, int64_t most) {
    int64_t step = 0;
    int64_t &side = coefficient < 0 ? range.begin : range.end;
    isSmall = isSmall && !__builtin_mul_overflow(coefficient, most, &step) &&
              !__builtin_add_overflow(side, step, &side);
  };
  add(ref.offset.perIteration, iterations - 1);
  for (const CoordinateTerm &term : ref.offset.terms)
    if (term.axis < program.mesh.size())
      add(term.coefficient, program.mesh[term.axis].size - 1);
  isSmall =
      isSmall && !__builtin_add_overflow(range.end, ref.bytes, &range.end);
  return isSmall ? range : ByteRange{0, kMost};
}

bool overlap(const std::vector<ByteRange> &ranges, const ByteRange &range) {
  return std::ranges::any_of(ranges, [&](const ByteRange &own) {
    return own.begin < range.end && range.begin < own.end;
  });
}
} // namespace

CoordinateUses::CoordinateUses(const Program &program,
                               const RankProgram &rankProgram)
    : program(program) {
  visitCommands(rankProgram, [&](const Command &command, int64_t iterations) {
    add(command, iterations);
  });
  for (const Command &command : rankProgram.commands)
    if (const auto *repeat = std::get_if<Repeat>(&command.operation))
      if (std::ranges::any_of(repeat->body, [&](const Command &inner) {
            return looking.contains(&inner);
          }))
        looking.insert(&command);
  joinRanges();
  if (!bytes.empty())
    visitCommands(rankProgram, [&](const Command &command, int64_t iterations) {
      addTouching(command, iterations);
    });
}

void CoordinateUses::add(const Command &command, int64_t iterations) {
  auto look = [&](const Affine &value) {
    for (const CoordinateTerm &term : value.terms)
      axes.insert(term.axis), looking.insert(&command);
    return !value.terms.empty();
  };
  for (const Access &access : accessesOf(command))
    if (look(access.ref->offset))
      addRange(*access.ref, iterations);
  if (const auto *transfer = std::get_if<Transfer>(&command.operation))
    axes.insert(transfer->axis), looking.insert(&command);
  if (const auto *launch = std::get_if<Launch>(&command.operation))
    for (const Affine &scalar : launch->scalars)
      look(scalar);
}

void CoordinateUses::addRange(const BufferRef &ref, int64_t iterations) {
  ByteRange range = ref.space == Space::Result
                        ? ByteRange{0, kMost}
                        : rangeOf(program, ref, iterations);
  bytes[{ref.space, ref.index}].push_back(range);
}

void CoordinateUses::joinRanges() {
  for (auto &[space, ranges] : bytes) {
    std::ranges::sort(ranges, {}, &ByteRange::begin);
    std::vector<ByteRange> joined;
    for (const ByteRange &range : ranges)
      if (!joined.empty() && range.begin <= joined.back().end)
        joined.back().end = std::max(joined.back().end, range.end);
      else
        joined.push_back(range);
    ranges = std::move(joined);
  }
}

void CoordinateUses::addTouching(const Command &command, int64_t iterations) {
  for (const Access &access : accessesOf(command))
    if (overlap(bytesOf(access.ref->space, access.ref->index),
                rangeOf(program, *access.ref, iterations)))
      touching.insert(&command);
}

const std::vector<ByteRange> &CoordinateUses::bytesOf(Space space,
                                                      uint32_t index) const {
  static const std::vector<ByteRange> none;
  auto found = bytes.find({space, index});
  return found == bytes.end() ? none : found->second;
}

} // namespace tandem::rt
