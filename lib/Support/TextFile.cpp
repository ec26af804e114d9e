//===- TextFile.cpp - files with a size limit -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/TextFile.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

using namespace tandem;

/// Some editors begin a text with the mark of its encoding.
static void dropMark(std::string &text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark))
    text.erase(0, kMark.size());
}

/// Grows with what there is: a pipe does not say how much it holds.
static std::optional<std::string> readStream(FILE *file, std::string &error,
                                             size_t limit) {
  constexpr size_t kFirst = size_t(1) << 16;
  std::string text;
  for (size_t size = 0;;) {
    text.resize(std::min(std::max(kFirst, 2 * size), limit + 1));
    size += fread(text.data() + size, 1, text.size() - size, file);
    if (ferror(file)) {
      error = std::strerror(errno);
      return std::nullopt;
    }
    if (size > limit) {
      error = "has more than " + std::to_string(limit) + " bytes";
      return std::nullopt;
    }
    if (size < text.size()) {
      text.resize(size);
      dropMark(text);
      return text;
    }
  }
}

std::optional<std::string> tandem::readTextFile(const std::string &path,
                                                std::string &error,
                                                size_t limit) {
  if (path == "-")
    return readStream(stdin, error, limit);
  std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path.c_str(), "rb"),
                                              &fclose);
  if (file)
    return readStream(file.get(), error, limit);
  error = std::strerror(errno);
  return std::nullopt;
}
