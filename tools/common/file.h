//===- file.h - files of Programs -------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_COMMON_FILE_H
#define TANDEM_TOOLS_COMMON_FILE_H

#include "tandem_rt/program.h"

namespace tandem {

/// The bytes of a .tdm file; an error names it.
rt::Expected<rt::Bytes> readFile(const std::string &path);

} // namespace tandem

#endif // TANDEM_TOOLS_COMMON_FILE_H
