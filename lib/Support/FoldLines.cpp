//===- FoldLines.cpp - line folding of printed IR -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/FoldLines.h"
#include <algorithm>
#include <vector>

using namespace tandem;

namespace {
/// A blank at which a line may be broken.
struct Break {
  size_t at;
  /// Brackets around it: the fewer the better. What belongs together, such as
  /// an argument and its type, has one more.
  unsigned depth;
};
using Breaks = std::vector<Break>;

/// Finds the breaks of one line.
class BreakScanner {
public:
  explicit BreakScanner(std::string_view line) : line(line) {}
  Breaks scan();

private:
  bool has(std::string_view text, size_t at) const {
    return line.substr(at, text.size()) == text;
  }
  void takeBlank(unsigned depth);
  void skipString();

  std::string_view line;
  size_t at = 0;
  Breaks breaks;
};
} // namespace

/// Behind a comma and the name of an alias, and before attributes, types and
/// results; behind an equals sign where a line has no other break.
void BreakScanner::takeBlank(unsigned depth) {
  constexpr unsigned kLastResort = 1000;
  if (line[at - 1] == ',' || (line.front() == '#' && has(" #", at)))
    breaks.push_back({at, depth});
  else if (line[at - 1] == '=')
    breaks.push_back({at, depth + kLastResort});
  else if (has(" {", at) || has(" : ", at))
    breaks.push_back({at, depth + (depth > 0)});
  else if (has(" -> ", at))
    breaks.push_back({at, depth + 1});
}

/// Goes to the quotation mark that ends the string.
void BreakScanner::skipString() {
  for (++at; at < line.size() && line[at] != '"'; ++at)
    if (line[at] == '\\')
      ++at;
}

Breaks BreakScanner::scan() {
  unsigned depth = 0;
  size_t begin = std::min(line.find_first_not_of(' '), line.size());
  for (at = begin; at < line.size(); ++at) {
    char c = line[at];
    if (c == '"')
      skipString();
    else if (has("->", at))
      ++at;
    else if (std::string_view("([{<").find(c) != std::string_view::npos)
      ++depth;
    else if (std::string_view(")]}>").find(c) != std::string_view::npos)
      depth -= depth > 0;
    else if (c == ' ' && at > begin)
      takeBlank(depth);
  }
  return breaks;
}

/// The break of the fewest brackets with at most `last` before it, the last one
/// of these; null if there is none.
static const Break *choose(const Breaks &breaks, size_t first, size_t last) {
  auto each = std::upper_bound(
      breaks.begin(), breaks.end(), first,
      [](size_t place, const Break &other) { return place < other.at; });
  const Break *chosen = nullptr;
  for (; each != breaks.end() && each->at <= last; ++each)
    if (!chosen || each->depth <= chosen->depth)
      chosen = &*each;
  return chosen;
}

static void foldLine(std::string_view line, size_t width, std::string &text) {
  size_t end = line.size(), begin = 0;
  if (end > width) {
    std::string indent(line.find_first_not_of(' ') + 4, ' ');
    Breaks breaks = BreakScanner(line).scan();
    for (size_t room = width; end - begin > room;
         room = width - indent.size()) {
      const Break *chosen = choose(breaks, begin, begin + room);
      if (!chosen)
        chosen = choose(breaks, begin + room, end - 1);
      if (!chosen)
        break;
      text.append(line.substr(begin, chosen->at - begin)).append("\n");
      text.append(indent);
      begin = chosen->at + 1;
    }
  }
  text.append(line.substr(begin));
}

std::string tandem::foldLines(std::string_view ir, size_t width) {
  std::string text;
  text.reserve(ir.size());
  while (!ir.empty()) {
    size_t end = std::min(ir.find('\n'), ir.size());
    foldLine(ir.substr(0, end), width, text);
    if (end < ir.size())
      text += '\n';
    ir.remove_prefix(std::min(end + 1, ir.size()));
  }
  return text;
}
