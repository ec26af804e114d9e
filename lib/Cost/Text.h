//===- Text.h - lines and words of problems and plans -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The texts of a problem and of a plan are lines of words; `#` starts a comment
// and a quoted part belongs to its word.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COST_TEXT_H
#define TANDEM_LIB_COST_TEXT_H

#include "tandem/Cost/SearchProblem.h"
#include <charconv>

namespace tandem::cost {

/// Of changes and of kinds of operators.
constexpr std::string_view kChangeNames[] = {"all-gather", "reduce-scatter",
                                             "all-reduce", "all-to-all"};
constexpr std::string_view kKindNames[] = {"input", "resident", "compute",
                                           "output"};

/// The shortest text that reads back as the same number.
std::string printNumber(double value);
/// A name as one word: blanks, `#` and quotes become `_`; `-` if empty.
std::string printWord(std::string_view name);

std::optional<Pass> parsePass(std::string_view text);
std::optional<Accounting> parseAccounting(std::string_view text);

template <typename T> std::optional<T> parseNumber(std::string_view text) {
  T value;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// `0,1,5`, or `-` for none.
std::string printList(const std::vector<unsigned> &list);
std::optional<std::vector<unsigned>> parseList(std::string_view text);

/// Parts between `separator`, without blanks around them.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

/// Parses what `print` makes of a layout.
std::optional<Layout> parseLayout(const SearchProblem &problem,
                                  std::string_view text);
/// Parses what `print` makes of a signature's forms, in words.
std::optional<Signature> parseForms(const SearchProblem &problem,
                                    const std::vector<std::string_view> &words);

/// Reads a text line by line.
class LineReader {
public:
  LineReader(std::string_view text, std::string_view name, std::string &error)
      : text(text), name(name), error(error) {}

  /// The words of the next line that has some; false at the end.
  bool next();
  const std::vector<std::string_view> &getWords() const { return words; }
  /// `nothing` behind the last one.
  std::string_view getWord(size_t place) const {
    return place < words.size() ? words[place] : "nothing";
  }
  /// Sets the error to `NAME:LINE: message`, once. Always false.
  bool fail(std::string message);
  /// The same: the word was found, and something else expected.
  bool failWord(size_t place, std::string_view expected);
  bool expectEnd(size_t place) {
    return words.size() == place || failWord(place, "the end of the line");
  }
  /// The second word is the number of the next `what`.
  bool expectIndex(std::string_view what, size_t expected);
  /// A word that is a non-negative, finite number, with a unit behind it.
  std::optional<double> getQuantity(size_t place, std::string_view unit);
  std::optional<int64_t> getBytes(size_t place);

private:
  std::string_view text, name;
  std::string &error;
  unsigned line = 0;
  std::vector<std::string_view> words;
};

} // namespace tandem::cost

#endif // TANDEM_LIB_COST_TEXT_H
