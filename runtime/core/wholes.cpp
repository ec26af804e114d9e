//===- wholes.cpp - whole parameters from parts ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/wholes.h"
#include "core/text.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace tandem::rt {

namespace {
std::optional<std::pair<double, double>> rangeOf(const Argument &argument) {
  return argument.range;
}
std::optional<std::pair<double, double>> rangeOf(const Result &) { return {}; }

/// Whether the entry lies in its whole as its part says.
template <typename Entry> bool fits(const Entry &entry) {
  const Part &part = *entry.part;
  if (part.shape.size() != entry.globalShape.size() ||
      part.dim >= part.shape.size() || part.offset < 0)
    return false;
  Shape other = part.shape;
  other[part.dim] = entry.globalShape[part.dim];
  return other == entry.globalShape &&
         part.offset <= part.shape[part.dim] - entry.globalShape[part.dim];
}

template <typename Entry>
Status add(const Entry &entry, uint32_t index, Whole &whole) {
  const Part &part = *entry.part;
  if (!fits(entry))
    return errorOf("of shape ", shapeText(entry.globalShape), " at ",
                   part.offset, " of dimension ", part.dim, " of '", part.whole,
                   "' ", shapeText(part.shape), ", expected a piece of it");
  if (whole.members.empty())
    whole = {entry.role,     part.whole, entry.type, part.shape,
             rangeOf(entry), {},         part.dim};
  if (whole.type != entry.type || whole.shape != part.shape ||
      whole.dim != part.dim)
    return errorOf("is a part of '", part.whole,
                   "' of another type, shape or dimension than a part before");
  whole.members.push_back(index);
  return Status::success();
}

/// Parts have to come by offset, one where the other ends.
template <typename Entries>
Status verifyCover(const Whole &whole, const Entries &entries) {
  int64_t end = 0;
  for (uint32_t index : whole.members) {
    const auto &entry = entries[index];
    if (!entry.part)
      return Status::success();
    if (entry.part->offset != end)
      return errorOf("parts of '", whole.role, "/", whole.name,
                     "': one begins at ", entry.part->offset, ", expected ",
                     end);
    end += entry.globalShape[whole.dim];
  }
  if (end != whole.shape[whole.dim])
    return errorOf("parts of '", whole.role, "/", whole.name, "' end at ", end,
                   ", expected ", whole.shape[whole.dim]);
  return Status::success();
}

template <typename Entries>
Expected<std::vector<Whole>> collect(const Entries &entries) {
  std::vector<Whole> wholes;
  std::map<std::pair<std::string, std::string>, size_t> numbers;
  for (uint32_t i = 0; i < entries.size(); ++i) {
    const auto &entry = entries[i];
    const std::string &name = entry.part ? entry.part->whole : entry.name;
    auto [it, isNew] = numbers.insert({{entry.role, name}, wholes.size()});
    if (isNew)
      wholes.emplace_back();
    Whole &whole = wholes[it->second];
    if (!isNew && (!entry.part || !entries[whole.members.front()].part))
      return errorOf("'", entry.role, "/", entry.name, "' is a tensor and '",
                     name, "' has parts, expected one of the two");
    if (!entry.part)
      whole = {entry.role,     entry.name, entry.type, entry.globalShape,
               rangeOf(entry), {i},        0};
    else if (Status status = add(entry, i, whole); !status.ok())
      return errorOf("'", entry.role, "/", entry.name, "': ", status.message());
  }
  for (const Whole &whole : wholes)
    if (Status status = verifyCover(whole, entries); !status.ok())
      return status;
  return wholes;
}

/// Calls `copy(offset in the whole, offset in the part, bytes)` per run of
/// contiguous bytes.
template <typename Copy>
void forEachRun(const Part &part, const Shape &shape, ElementType type,
                Copy copy) {
  int64_t rows = 1, inner = elementBytes(type);
  for (size_t dim = 0; dim < shape.size(); ++dim)
    (dim < part.dim ? rows : inner) *= dim == part.dim ? 1 : shape[dim];
  int64_t own = shape[part.dim] * inner, all = part.shape[part.dim] * inner;
  for (int64_t row = 0; row < rows && own; ++row)
    copy(row * all + part.offset * inner, row * own, size_t(own));
}
} // namespace

Expected<std::vector<Whole>> wholeArguments(const Program &program) {
  return collect(program.arguments);
}

Expected<std::vector<Whole>> wholeResults(const Program &program) {
  return collect(program.results);
}

void copyPart(const Part &part, const Shape &shape, ElementType type,
              const void *whole, void *to) {
  forEachRun(part, shape, type, [&](int64_t at, int64_t own, size_t bytes) {
    std::memcpy(static_cast<char *>(to) + own,
                static_cast<const char *>(whole) + at, bytes);
  });
}

void copyIntoWhole(const Part &part, const Shape &shape, ElementType type,
                   const void *from, void *whole) {
  forEachRun(part, shape, type, [&](int64_t at, int64_t own, size_t bytes) {
    std::memcpy(static_cast<char *>(whole) + at,
                static_cast<const char *>(from) + own, bytes);
  });
}

} // namespace tandem::rt
