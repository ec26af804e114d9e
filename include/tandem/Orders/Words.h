//===- Words.h - lines of names and numbers ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All problems of pipelines are texts of such lines: sections of an order, cuts
// and layouts.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ORDERS_WORDS_H
#define TANDEM_ORDERS_WORDS_H

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::orders {

using Names = std::vector<std::string_view>;
using Fields = std::vector<std::pair<std::string_view, double *>>;

/// The shortest text that reads back as the same number.
std::string printNumber(double value);
/// ` NAME VALUE`.
std::string printPair(std::string_view name, double value);
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
  /// Takes the next word if it is this one.
  bool takeIf(std::string_view word);
  /// A number from 0 to `kMaxQuantity`; 0 after an error.
  double takeNumber();
  /// A whole number from `least` to below `kMaxNumber`; `least` after an error.
  unsigned takeCount(unsigned least);
  /// The number of one of `count` things in front of this line.
  unsigned takeIndex(size_t count, std::string_view what);
  /// The number of the next thing behind `count` others, which is marked.
  void takeNext(size_t count, std::string_view what);
  /// The place of the next word in `names`; 0 after an error.
  unsigned takeChoice(const Names &names);
  /// Pairs of a name and a number up to the end of the line, each once. Sets
  /// the fields that the line names, and returns their names.
  std::set<std::string_view> takeFields(const Fields &fields);
  /// That a line with the fields `found` has all of `names`.
  void expectAll(const std::set<std::string_view> &found, const Names &names);
  /// By the number of an element or of the next one, which is added and marked;
  /// null after an error.
  template <typename Element>
  Element *takeElement(std::vector<Element> &elements, std::string_view what);
  void expectEnd();
  /// That no line before had this name, which is marked.
  void expectFirst(std::string_view name);
  /// Remembers this line as the first one of `thing`, such as `layer 3`.
  void mark(const std::string &thing) { firsts.try_emplace(thing, line); }
  bool hasLine(std::string_view name) const { return firsts.contains(name); }

  /// Says what was found last, and `expected`.
  void expect(std::string_view expected);
  void fail(const std::string &message) { failAt("", message); }
  /// At the first line of `thing`; of what is not there, at the last line.
  void failAt(std::string_view thing, const std::string &message);
  bool ok() const { return error.empty(); }

private:
  std::string_view text, name;
  std::string &error;
  unsigned line = 0;
  Names words;
  size_t place = 0;
  std::map<std::string, unsigned, std::less<>> firsts;
};

template <typename Element>
Element *Words::takeElement(std::vector<Element> &elements,
                            std::string_view what) {
  unsigned number = takeCount(0);
  if (ok() && number > elements.size())
    expect("at most " + std::to_string(elements.size()) + ", the next " +
           std::string(what));
  if (!ok())
    return nullptr;
  mark(std::string(what) + " " + std::to_string(number));
  elements.resize(std::max<size_t>(elements.size(), number + 1));
  return &elements[number];
}

} // namespace tandem::orders

#endif // TANDEM_ORDERS_WORDS_H
