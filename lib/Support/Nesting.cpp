//===- Nesting.cpp - limit of nested brackets -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pass over the characters, without a stack of its own: a bracket that
// closes is taken for the one that is open. Where that is wrong the text is
// wrong, and its parser says so.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/TextFile.h"
#include <algorithm>
#include <unordered_map>
#include <vector>

using namespace tandem;

namespace {
/// Reads MLIR or JSON up to the first place that is too deep.
class NestingScanner {
public:
  explicit NestingScanner(std::string_view text) : text(text) {}

  std::optional<DeepPlace> scan();

private:
  /// What has been opened: the operators since the bracket, or since the last
  /// comma in it, nest as brackets do in a parser that calls itself for each.
  struct Level {
    unsigned operators = 0;
  };

  char peek(size_t offset = 1) const {
    return at + offset < text.size() ? text[at + offset] : '\0';
  }
  unsigned getDepth() const {
    return static_cast<unsigned>(levels.size()) - 1 + operators;
  }
  void skipString();
  void skipLine();
  void takeAlias();
  void takeOperator();
  void open();
  void close();
  void note(unsigned depth);
  void takeCharacter();
  void finishAlias();

  std::string_view text;
  size_t at = 0;
  unsigned line = 1;
  unsigned deepest = 0;
  /// The operators of all open levels.
  unsigned operators = 0;
  std::vector<Level> levels = {Level()};
  /// Of an alias, with those that it names written out: brackets in brackets,
  /// and characters.
  struct Alias {
    unsigned depth = 0;
    size_t size = 0;
  };
  std::unordered_map<std::string_view, Alias> aliases;
  /// The one at hand, and where it begins, counted as `getWritten`.
  std::string_view defined;
  Alias definition;
  size_t definedAt = 0;
  /// What aliases add to the characters so far.
  size_t added = 0;

  size_t getWritten() const { return at + added; }
};
} // namespace

static bool isWordCharacter(char c) {
  return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '.';
}

void NestingScanner::note(unsigned depth) {
  deepest = std::max(deepest, depth);
  definition.depth = std::max(definition.depth, depth);
}

void NestingScanner::skipString() {
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    at += text[at] == '\\' && peek() != '\n';
  // A string ends with its line, which the parser will complain of.
  if (at < text.size() && text[at] == '\n')
    --at;
}

void NestingScanner::skipLine() {
  while (at + 1 < text.size() && text[at + 1] != '\n')
    ++at;
}

void NestingScanner::finishAlias() {
  definition.size = getWritten() - definedAt;
  if (!defined.empty())
    aliases[defined] = definition;
  defined = {};
  definition = {};
}

/// `#name = ...` at the beginning of a line defines one; elsewhere it is read.
void NestingScanner::takeAlias() {
  size_t begin = at;
  while (isWordCharacter(peek()))
    ++at;
  std::string_view name = text.substr(begin, at + 1 - begin);
  size_t next = text.find_first_not_of(" \t", at + 1);
  bool defines = next != text.npos && text[next] == '=' &&
                 (begin == 0 || text[begin - 1] == '\n');
  if (defines) {
    defined = name;
    definedAt = getWritten();
  } else if (auto it = aliases.find(name); it != aliases.end()) {
    note(getDepth() + it->second.depth);
    added += it->second.size;
  }
}

void NestingScanner::takeOperator() {
  ++levels.back().operators;
  ++operators;
  note(getDepth());
}

void NestingScanner::open() {
  levels.emplace_back();
  note(getDepth());
}

void NestingScanner::close() {
  operators -= levels.back().operators;
  levels.back().operators = 0;
  if (levels.size() > 1)
    levels.pop_back();
}

void NestingScanner::takeCharacter() {
  char c = text[at];
  switch (c) {
  case '"':
    return skipString();
  case '/':
    return peek() == '/' ? skipLine() : void();
  case '#':
  case '!':
    return takeAlias();
  case '(':
  case '[':
  case '{':
  case '<':
    return peek() == '=' ? void() : open();
  case ')':
  case ']':
  case '}':
    return close();
  case '>':
    return peek() == '=' ? void() : close();
  case '-':
    return peek() == '>' ? void(++at) : takeOperator();
  case '+':
  case '*':
    return takeOperator();
  case '\n':
    ++line;
    if (levels.size() == 1)
      finishAlias();
    [[fallthrough]];
  case ',':
    operators -= levels.back().operators;
    levels.back().operators = 0;
    return;
  default:
    return;
  }
}

std::optional<DeepPlace> NestingScanner::scan() {
  for (; at < text.size(); ++at) {
    takeCharacter();
    if (deepest > kMaxNesting)
      return DeepPlace{line, "found brackets or operators nested more than " +
                                 std::to_string(kMaxNesting) +
                                 " deep, expected less"};
    if (getWritten() > kMaxWrittenBytes)
      return DeepPlace{line,
                       "found aliases of aliases that stand for more than " +
                           std::to_string(kMaxWrittenBytes) +
                           " characters, expected less"};
  }
  return std::nullopt;
}

std::optional<DeepPlace> tandem::findDeepNesting(std::string_view text) {
  return NestingScanner(text).scan();
}

bool tandem::isParsable(std::string_view text, std::string_view name,
                        std::string &error) {
  constexpr std::string_view kBytecode = "ML\xefR";
  if (text.starts_with(kBytecode)) {
    error = std::string(name) + ": found bytecode, expected MLIR as text";
    return false;
  }
  std::optional<DeepPlace> deep = findDeepNesting(text);
  if (deep)
    error = std::string(name) + ":" + std::to_string(deep->line) + ": " +
            deep->message;
  return !deep;
}
