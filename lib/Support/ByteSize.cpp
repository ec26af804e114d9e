//===- ByteSize.cpp - sizes in bytes, with units --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/ByteSize.h"
#include <algorithm>
#include <charconv>
#include <cmath>

namespace tandem {

/// Bytes of a unit; 0 for one that is none.
static double findUnit(std::string_view name) {
  for (const ByteUnit &unit : kByteUnits)
    if (unit.name == name)
      return unit.bytes;
  return 0;
}

std::optional<int64_t> parseByteSize(std::string_view text) {
  const char *begin = text.data(), *last = begin + text.size();
  int64_t bytes = 0;
  // All digits of a whole number count, which a double does not hold.
  if (auto [end, code] = std::from_chars(begin, last, bytes);
      code == std::errc() && end == last)
    return bytes >= 0 && bytes <= kMaxByteSize ? std::optional(bytes)
                                               : std::nullopt;
  double value = 0;
  auto [end, code] = std::from_chars(begin, last, value);
  if (code != std::errc())
    return std::nullopt;
  std::string_view unit(end, last - end);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  double size = value * findUnit(unit);
  // Not with a NaN either.
  if (findUnit(unit) == 0 || !(size >= 0 && size <= double(kMaxByteSize)))
    return std::nullopt;
  bool isWhole = size == std::floor(size);
  if (!isWhole && (findUnit(unit) == 1 || size < 1))
    return std::nullopt;
  return std::llround(size);
}

std::string printByteSize(int64_t bytes) {
  const ByteUnit *unit = kByteUnits;
  while (unit->name != "TB" && double(bytes) >= unit[1].bytes)
    ++unit;
  auto size = static_cast<int64_t>(unit->bytes);
  std::string text = std::to_string(bytes / size);
  if (int64_t rest = bytes % size) {
    // Leading zeros stay, those at the end go.
    std::string digits = std::to_string(size + rest).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text + " " + std::string(unit->name);
}

} // namespace tandem
