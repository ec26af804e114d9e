//===- Words.h - lines of names and numbers ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_PIPELINE_WORDS_H
#define TANDEM_LIB_SEARCH_PIPELINE_WORDS_H

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::pipeline {

using Names = std::vector<std::string_view>;

/// The shortest text that reads back as the same number.
std::string printNumber(double value);
/// `a, b or c`.
std::string join(const Names &names);

/// Takes a text line by line and word by word. The first error stays, behind
/// `NAME:LINE`. `#` starts a comment.
class Words {
public:
  Words(std::string_view text, std::string_view name, std::string &error)
      : text(text), name(name), error(error) {}

  /// The next line that has words; false at the end, or after an error.
  bool next();
  /// The next word of the line; empty behind the last one.
  std::string_view take();
  std::string_view peek() const {
    return place < words.size() ? words[place] : std::string_view();
  }
  bool isEnd() const { return place >= words.size(); }
  /// A number from 0 to 1e15; 0 after an error.
  double takeNumber();
  /// A whole number from `least` to 1e6 - 1; `least` after an error.
  unsigned takeCount(unsigned least);
  unsigned takeChoice(const Names &names);
  /// Pairs of a name and a number up to the end of the line.
  std::map<std::string_view, double> takePairs(const Names &names);
  void expectEnd();

  /// Says what was found last, and `expected`.
  void expect(std::string_view expected);
  void fail(const std::string &message);
  /// Without a line.
  void failWhole(const std::string &message);
  bool ok() const { return error.empty(); }

private:
  std::string_view text, name;
  std::string &error;
  unsigned line = 0;
  Names words;
  size_t place = 0;
};

} // namespace tandem::pipeline

#endif // TANDEM_LIB_SEARCH_PIPELINE_WORDS_H
