//===- Answer.h - files, errors and gaps of all problems --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PLAN_ANSWER_H
#define TANDEM_TOOLS_TANDEM_PLAN_ANSWER_H

#include "tandem/Support/TextFile.h"
#include <optional>
#include <string>

namespace tandem {

/// Prints an error; the exit status.
int fail(const std::string &message);

/// Else nothing, with one line in `error`.
std::optional<std::string> readFile(const std::string &path,
                                    std::string &error);

/// The exit status; without a path, `text` is printed.
int writeFile(const std::string &path, const FileKind &kind,
              const std::string &text);

/// `NAME 1.2345 %`, rounded up, as it is a claim.
void printGap(const char *name, double cost, double bound);

} // namespace tandem

#endif // TANDEM_TOOLS_TANDEM_PLAN_ANSWER_H
