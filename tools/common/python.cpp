//===- python.cpp - commands that are Python's ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "python.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>
#include <vector>

namespace tandem {

std::string becomePython(const char *command, char **words) {
  std::vector<char *> all;
  for (const char *word : {"python3", "-m", "tandem", command})
    all.push_back(const_cast<char *>(word));
  for (; *words; ++words)
    all.push_back(*words);
  all.push_back(nullptr);
  execvp(all[0], all.data());
  return std::string("cannot run 'python3 -m tandem ") + command +
         "': " + std::strerror(errno);
}

} // namespace tandem
