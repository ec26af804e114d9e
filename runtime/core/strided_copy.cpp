//===- strided_copy.cpp - copies blocks of tensors ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/strided_copy.h"

#include <cstring>

namespace tandem::rt {

namespace {
struct Loop {
  int64_t extent, source, destination; ///< Strides in bytes.
};

/// Drops loops of one iteration and joins those that run on into the next.
std::vector<Loop> simplify(const Shape &extents, int64_t width,
                           const Shape &source, const Shape &destination) {
  std::vector<Loop> loops;
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    if (extents[dim] == 1)
      continue;
    Loop loop{extents[dim], source[dim] * width, destination[dim] * width};
    if (!loops.empty() && loops.back().source == loop.source * loop.extent &&
        loops.back().destination == loop.destination * loop.extent)
      loop.extent *= loops.back().extent, loops.pop_back();
    loops.push_back(loop);
  }
  return loops;
}

template <typename Word>
void copyWords(const Loop &loop, const char *source, char *destination) {
  for (int64_t i = 0; i < loop.extent; ++i)
    std::memcpy(destination + i * loop.destination, source + i * loop.source,
                sizeof(Word));
}

void copyRow(const Loop &loop, int64_t width, const char *source,
             char *destination) {
  if (width == 2)
    return copyWords<uint16_t>(loop, source, destination);
  if (width == 4)
    return copyWords<uint32_t>(loop, source, destination);
  if (width == 8)
    return copyWords<uint64_t>(loop, source, destination);
  for (int64_t i = 0; i < loop.extent; ++i)
    std::memcpy(destination + i * loop.destination, source + i * loop.source,
                size_t(width));
}

void copyLoops(const Loop *loops, size_t count, int64_t width,
               const char *source, char *destination) {
  if (count == 0) {
    std::memcpy(destination, source, size_t(width));
    return;
  }
  if (count == 1)
    return copyRow(*loops, width, source, destination);
  for (int64_t i = 0; i < loops->extent; ++i)
    copyLoops(loops + 1, count - 1, width, source + i * loops->source,
              destination + i * loops->destination);
}
} // namespace

void copyStrided(const Shape &extents, int64_t width, const void *source,
                 const Shape &sourceStrides, void *destination,
                 const Shape &destinationStrides) {
  for (int64_t extent : extents)
    if (extent == 0)
      return;
  std::vector<Loop> loops =
      simplify(extents, width, sourceStrides, destinationStrides);
  if (!loops.empty() && loops.back().source == width &&
      loops.back().destination == width) {
    width *= loops.back().extent;
    loops.pop_back();
  }
  copyLoops(loops.data(), loops.size(), width,
            static_cast<const char *>(source),
            static_cast<char *>(destination));
}

} // namespace tandem::rt
