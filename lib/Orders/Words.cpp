//===- Words.cpp - lines of names and numbers -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Words.h"
#include "Text.h"
#include "tandem/Orders/Partition.h"
#include <charconv>

using namespace tandem::orders;

std::string tandem::orders::printNumber(double value) {
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

std::string tandem::orders::printPair(std::string_view name, double value) {
  return " " + std::string(name) + " " + printNumber(value);
}

std::string tandem::orders::join(const Names &names) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += (i == 0                  ? ""
             : i + 1 == names.size() ? " or "
                                     : ", ") +
            std::string(names[i]);
  return list;
}

bool Words::next() {
  while (ok() && !text.empty()) {
    size_t end = text.find('\n');
    std::string_view rest = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line;
    words.clear();
    place = 0;
    rest = rest.substr(0, rest.find('#'));
    for (size_t at = 0;
         (at = rest.find_first_not_of(" \t\r")) != std::string_view::npos;) {
      rest.remove_prefix(at);
      words.push_back(rest.substr(0, rest.find_first_of(" \t\r")));
      rest.remove_prefix(words.back().size());
    }
    if (!words.empty())
      return true;
  }
  return false;
}

std::string_view Words::take() {
  std::string_view word = peek();
  ++place;
  return word;
}

bool Words::takeIf(std::string_view word) {
  bool isNext = !isEnd() && peek() == word;
  place += isNext;
  return isNext;
}

void Words::failAt(std::string_view thing, const std::string &message) {
  auto first = firsts.find(thing);
  unsigned own = first == firsts.end() ? std::max(line, 1u) : first->second;
  if (ok())
    error = std::string(name) + ":" + std::to_string(own) + ": " + message;
}

void Words::expect(std::string_view expected) {
  bool isWord = place > 0 && place <= words.size();
  fail("found " + (isWord ? quote(words[place - 1]) : "the end of the line") +
       ", expected " + std::string(expected));
}

double Words::takeNumber() {
  std::string_view word = take();
  double value = 0;
  auto [end, code] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  if (code == std::errc() && end == word.data() + word.size() && value >= 0 &&
      value <= kMaxQuantity)
    return value;
  expect("a number from 0 to 1e+15");
  return 0;
}

unsigned Words::takeCount(unsigned least) {
  std::string_view word = take();
  std::optional<unsigned> value = orders::takeNumber(word);
  if (value && word.empty() && *value >= least)
    return *value;
  expect("a whole number from " + std::to_string(least) + " to " +
         std::to_string(kMaxNumber - 1));
  return least;
}

unsigned Words::takeIndex(size_t count, std::string_view what) {
  unsigned number = takeCount(0);
  if (ok() && number >= count)
    expect("the number of one of " + std::to_string(count) + " " +
           std::string(what));
  return number;
}

void Words::takeNext(size_t count, std::string_view what) {
  if (takeCount(0) != count)
    expect(std::to_string(count) + ", the next " + std::string(what));
  mark(std::string(what) + " " + std::to_string(count));
}

unsigned Words::takeChoice(const Names &names) {
  auto found = std::find(names.begin(), names.end(), take());
  if (found != names.end())
    return static_cast<unsigned>(found - names.begin());
  expect(join(names));
  return 0;
}

std::set<std::string_view> Words::takeFields(const Fields &fields) {
  Names names;
  for (const auto &[name, field] : fields)
    names.push_back(name);
  std::set<std::string_view> found;
  while (ok() && !isEnd()) {
    const auto &[name, field] = fields[takeChoice(names)];
    if (ok() && !found.insert(name).second)
      expect("'" + std::string(name) + "' once");
    *field = takeNumber();
  }
  return found;
}

void Words::expectAll(const std::set<std::string_view> &found,
                      const Names &names) {
  for (std::string_view name : names)
    if (!found.contains(name))
      fail("found no '" + std::string(name) + "', expected it; 0 for none");
}

void Words::expectEnd() {
  if (ok() && !isEnd()) {
    take();
    expect("the end of the line");
  }
}

void Words::expectFirst(std::string_view name) {
  if (ok() && !firsts.try_emplace(std::string(name), line).second)
    expect("one line '" + std::string(name) + "'");
}
