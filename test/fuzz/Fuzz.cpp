//===- Fuzz.cpp - helpers of fuzzers --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace tandem;

void fuzz::expect(bool holds, std::string_view message) {
  if (holds)
    return;
  fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  abort();
}

void fuzz::expectError(const std::string &error) {
  expect(!error.empty(), "nothing was read, but no error says why");
  expect(error.find('\n') == std::string::npos, "found an error of two lines");
}

fuzz::MemoryFile::MemoryFile(std::string_view content)
    : file(memfd_create("fuzz", 0)),
      path("/proc/self/fd/" + std::to_string(file)) {
  bool isWritten = write(file, content.data(), content.size()) ==
                   static_cast<ssize_t>(content.size());
  expect(isWritten, "cannot write a file in memory");
}

fuzz::MemoryFile::~MemoryFile() { close(file); }
