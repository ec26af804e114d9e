//===- python.h - commands that are Python's --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_COMMON_PYTHON_H
#define TANDEM_TOOLS_COMMON_PYTHON_H

#include <string>

namespace tandem {

/// Goes on as `python3 -m tandem COMMAND WORDS...`, for what draws a page:
/// `words` ends with null. Returns only if that cannot start, with the reason.
std::string becomePython(const char *command, char **words);

} // namespace tandem

#endif // TANDEM_TOOLS_COMMON_PYTHON_H
