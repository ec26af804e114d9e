//===- ByteSize.h - sizes in bytes, with units ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_BYTESIZE_H
#define TANDEM_SUPPORT_BYTESIZE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

struct ByteUnit {
  std::string_view name;
  double bytes;
};

/// The decimal ones by rising size, then the binary ones.
inline constexpr ByteUnit kByteUnits[] = {
    {"B", 1},        {"kB", 1e3},     {"MB", 1e6},
    {"GB", 1e9},     {"TB", 1e12},    {"KiB", 0x1p10},
    {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
};

/// The largest size that is read, in bytes: beyond any machine.
inline constexpr int64_t kMaxByteSize = 1'000'000'000'000'000'000;

/// Bytes of a size: a whole number, or a number and a unit (`1083000000`,
/// `24GiB`, `1.5 GB`). Rounded to whole bytes. Nothing for another
/// text, and for sizes below 0 or above `kMaxByteSize`.
std::optional<int64_t> parseByteSize(std::string_view text);

/// All digits, in the largest decimal unit: `1.083 GB`. `bytes` is at least 0.
std::string printByteSize(int64_t bytes);

} // namespace tandem

#endif // TANDEM_SUPPORT_BYTESIZE_H
