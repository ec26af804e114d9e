//===- FoldLines.h - line folding of printed IR -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR prints an operation in one line, however many operands it has, and a
// function with all of its arguments. Its parser does not care for line breaks.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_FOLDLINES_H
#define TANDEM_SUPPORT_FOLDLINES_H

#include <string>
#include <string_view>

namespace tandem {

/// Columns of a screen.
inline constexpr size_t kScreenWidth = 160;

/// `ir`, the text of MLIR, with lines of at most `width` columns: a longer one
/// goes on in the next one, four columns to the right, before its attributes or
/// types or behind a comma, and for want of these behind an equals sign. What
/// cannot be broken, such as a string, stays as it is.
std::string foldLines(std::string_view ir, size_t width = kScreenWidth);

} // namespace tandem

#endif // TANDEM_SUPPORT_FOLDLINES_H
