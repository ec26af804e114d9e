//===- Text.cpp - pieces of the texts of this room ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Text.h"
#include "tandem/Orders/Order.h"
#include <charconv>

using namespace tandem;

std::string_view orders::trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string orders::quote(std::string_view text) {
  constexpr size_t kMostCharacters = 40;
  std::string quoted = "'";
  for (unsigned char letter : text.substr(0, kMostCharacters))
    quoted += letter < ' ' || letter >= 0x7f ? '?' : static_cast<char>(letter);
  return quoted + (text.size() > kMostCharacters ? "...'" : "'");
}

std::vector<std::string_view> orders::splitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

std::optional<unsigned> orders::takeNumber(std::string_view &text) {
  unsigned value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value >= kMaxNumber)
    return std::nullopt;
  text.remove_prefix(end - text.data());
  return value;
}
