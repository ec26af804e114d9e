//===- coordinates.h - what depends on where a rank is ----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks of one rank program differ only in offsets and scalars that name their
// coordinates. What was verified of one of them holds for the others, but for
// the commands that look at coordinates, and for the bytes that these may touch
// at any coordinates.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_COORDINATES_H
#define TANDEM_RT_CORE_COORDINATES_H

#include "core/access.h"

#include <map>
#include <set>
#include <unordered_set>

namespace tandem::rt {

/// A half-open range of bytes.
struct ByteRange {
  int64_t begin = 0, end = 0;
};

class CoordinateUses {
public:
  CoordinateUses(const Program &program, const RankProgram &rankProgram);

  /// The axes that offsets, scalars and transfers look at.
  std::set<uint32_t> axes = {};

  /// Whether a command, or one of its body, looks at coordinates.
  bool looksAt(const Command &command) const {
    return looking.contains(&command);
  }
  /// Whether a command touches bytes whose use depends on coordinates.
  bool touches(const Command &command) const {
    return touching.contains(&command);
  }
  /// The bytes of a space whose use depends on coordinates: ascending, disjoint
  /// ranges. Of a result all or none.
  const std::vector<ByteRange> &bytesOf(Space space, uint32_t index) const;

private:
  void add(const Command &command, int64_t iterations);
  void addRange(const BufferRef &ref, int64_t iterations);
  void joinRanges();
  void addTouching(const Command &command, int64_t iterations);

  const Program &program;
  std::unordered_set<const Command *> looking, touching;
  std::map<std::pair<Space, uint32_t>, std::vector<ByteRange>> bytes;
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_COORDINATES_H
