//===- Glob.h - globs of names ----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_GLOB_H
#define TANDEM_SUPPORT_GLOB_H

#include <string>
#include <string_view>

namespace tandem {

/// The name as a glob of a pin; `?` stands for what has a meaning there, or in
/// a list of globs.
std::string makeGlob(std::string_view name);

} // namespace tandem

#endif // TANDEM_SUPPORT_GLOB_H
