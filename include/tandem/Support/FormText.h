//===- FormText.h - numbers and names of forms ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// IR, plan files and search problems hold the form of a tensor along one axis
// (HiDup, section 4.1) as one number: the dimension of `gather(d)`, or a
// negative code. The table of these codes and their names
// stands in FormText.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_FORMTEXT_H
#define TANDEM_SUPPORT_FORMTEXT_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::form {

inline constexpr int64_t kFull = -1;
inline constexpr int64_t kReduce = -2;
/// Only in search problems: see `cost::kReplicate`.
inline constexpr int64_t kReplicate = -3;
/// Only in search problems: see `cost::kAbsent`.
inline constexpr int64_t kAbsent = -4;

/// Only in IR: point 0 alone holds the tensor. Point i has the code
/// `kAtFirst - i`, up to `kMaxPoint`.
inline constexpr int64_t kAtFirst = -16;
inline constexpr int64_t kMaxPoint = int64_t(1) << 24;

/// Whether `code` is one that IR, plan files and pins have.
bool isOfTensors(int64_t code);

/// `full`, `reduce`, `replicate`, `absent`; `gather` and `at` without number.
std::string_view getKeyword(int64_t code);

/// The code of a form without a number. None for `gather` and `at`.
std::optional<int64_t> findCode(std::string_view keyword);

/// `full`, `reduce`, `replicate`, `absent`, `gather(d)` or `at(i)`.
std::string print(int64_t code);

/// Reads what `print` prints, with blanks around it and around the number.
std::optional<int64_t> parse(std::string_view text);

} // namespace tandem::form

#endif // TANDEM_SUPPORT_FORMTEXT_H
