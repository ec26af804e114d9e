//===- Text.h - pieces of the texts of this room ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_ORDERS_TEXT_H
#define TANDEM_LIB_ORDERS_TEXT_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::orders {

/// Without blanks and tabs at both ends.
std::string_view trim(std::string_view text);

/// In quotes, for a message of one line: what is no printable ASCII becomes
/// `?`, and what is long is cut.
std::string quote(std::string_view text);

/// The lines of a text without their ends, `\n` or `\r\n`. Behind the last end
/// there is no line.
std::vector<std::string_view> splitLines(std::string_view text);

/// Removes the digits at the front of `text`. Nothing if there is none, or the
/// number is not below `kMaxNumber`.
std::optional<unsigned> takeNumber(std::string_view &text);

} // namespace tandem::orders

#endif // TANDEM_LIB_ORDERS_TEXT_H
