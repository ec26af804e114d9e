//===- Words.cpp - lines of names and numbers -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Words.h"
#include "tandem/Orders/Partition.h"
#include <algorithm>
#include <charconv>

using namespace tandem::pipeline;

std::string tandem::pipeline::printNumber(double value) {
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

std::string tandem::pipeline::join(const Names &names) {
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

void Words::fail(const std::string &message) {
  if (ok())
    error = std::string(name) + ":" + std::to_string(line) + ": " + message;
}

void Words::failWhole(const std::string &message) {
  if (ok())
    error = std::string(name) + ": " + message;
}

void Words::expect(std::string_view expected) {
  constexpr size_t kMostCharacters = 40;
  bool isWord = place > 0 && place <= words.size();
  std::string found = "the end of the line";
  if (isWord) {
    found = "'";
    for (unsigned char letter : words[place - 1].substr(0, kMostCharacters))
      found += letter < ' ' || letter == 0x7f ? '?' : static_cast<char>(letter);
    found += "'";
  }
  fail("found " + found + ", expected " + std::string(expected));
}

double Words::takeNumber() {
  std::string_view word = take();
  double value = 0;
  auto [end, code] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  if (code == std::errc() && end == word.data() + word.size() && value >= 0 &&
      value <= orders::kMaxQuantity)
    return value;
  expect("a number from 0 to 1e+15");
  return 0;
}

unsigned Words::takeCount(unsigned least) {
  std::string_view word = take();
  unsigned value = 0;
  auto [end, code] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  if (code == std::errc() && end == word.data() + word.size() &&
      value >= least && value < orders::kMaxNumber)
    return value;
  expect("a whole number from " + std::to_string(least) + " to " +
         std::to_string(orders::kMaxNumber - 1));
  return least;
}

unsigned Words::takeChoice(const Names &names) {
  auto found = std::find(names.begin(), names.end(), take());
  if (found != names.end())
    return static_cast<unsigned>(found - names.begin());
  expect(join(names));
  return 0;
}

std::map<std::string_view, double> Words::takePairs(const Names &names) {
  std::map<std::string_view, double> pairs;
  while (ok() && !isEnd()) {
    std::string_view name = names[takeChoice(names)];
    if (ok() && pairs.count(name))
      expect("'" + std::string(name) + "' once");
    pairs[name] = takeNumber();
  }
  return pairs;
}

void Words::expectEnd() {
  if (ok() && !isEnd()) {
    take();
    expect("the end of the line");
  }
}
