//===- Glob.cpp - globs of names ------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/Glob.h"

std::string tandem::makeGlob(std::string_view name) {
  std::string glob(name);
  for (char &each : glob)
    if (std::string_view("[]{}*?\\,;:").find(each) != std::string_view::npos)
      each = '?';
  return glob;
}
