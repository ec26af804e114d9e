//===- Text.cpp - lines and words of problems and plans -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Text.h"
#include <cmath>

using namespace tandem::cost;

std::string tandem::cost::printNumber(double value) {
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

std::string tandem::cost::printWord(std::string_view name) {
  if (name.empty())
    return "-";
  std::string word(name);
  for (char &letter : word)
    if (static_cast<unsigned char>(letter) <= ' ' || letter == '#' ||
        letter == '\'')
      letter = '_';
  return word;
}

std::string_view tandem::cost::getPassName(Pass pass) {
  constexpr std::string_view names[] = {"forward", "backward", "update"};
  return names[static_cast<unsigned>(pass)];
}

std::string_view tandem::cost::getChangeName(Change change) {
  return kChangeNames[static_cast<unsigned>(change)];
}

std::optional<Pass> tandem::cost::parsePass(std::string_view text) {
  for (Pass pass : {Pass::Forward, Pass::Backward, Pass::Update})
    if (text == getPassName(pass))
      return pass;
  return std::nullopt;
}

std::string_view tandem::cost::getAccountingName(Accounting accounting) {
  constexpr std::string_view names[] = {"hidup-serial", "hidup-overlapped",
                                        "tandem", "oases"};
  return names[static_cast<unsigned>(accounting)];
}

std::optional<Accounting> tandem::cost::parseAccounting(std::string_view text) {
  for (Accounting accounting :
       {Accounting::HidupSerial, Accounting::HidupOverlapped,
        Accounting::Tandem, Accounting::Oases})
    if (text == getAccountingName(accounting))
      return accounting;
  return std::nullopt;
}

std::string tandem::cost::printList(const std::vector<unsigned> &list) {
  if (list.empty())
    return "-";
  std::string text;
  for (unsigned value : list)
    text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

std::optional<std::vector<unsigned>>
tandem::cost::parseList(std::string_view text) {
  std::vector<unsigned> list;
  if (text == "-")
    return list;
  for (std::string_view part : split(text, ',')) {
    auto value = parseNumber<unsigned>(part);
    if (!value)
      return std::nullopt;
    list.push_back(*value);
  }
  return list;
}

std::string_view tandem::cost::trim(std::string_view text) {
  while (!text.empty() && static_cast<unsigned char>(text.front()) <= ' ')
    text.remove_prefix(1);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ')
    text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> tandem::cost::split(std::string_view text,
                                                  char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    size_t end = text.find(separator);
    parts.push_back(trim(text.substr(0, end)));
    if (end == std::string_view::npos)
      return parts;
    text.remove_prefix(end + 1);
  }
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

static int findAxis(const SearchProblem &problem, std::string_view name) {
  for (unsigned axis = 0; axis < problem.axes.size(); ++axis)
    if (problem.axes[axis].name == name)
      return axis;
  return -1;
}

std::optional<Layout> tandem::cost::parseLayout(const SearchProblem &problem,
                                                std::string_view text) {
  Layout layout;
  if (text == "full")
    return layout;
  for (std::string_view part : split(text, ',')) {
    size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return std::nullopt;
    int axis = findAxis(problem, part.substr(0, equals));
    auto form = parseForm(part.substr(equals + 1));
    if (axis < 0 || !form)
      return std::nullopt;
    layout[axis] = *form;
  }
  return layout;
}

static bool parseSide(std::string_view text, unsigned axis,
                      std::vector<Layout> &layouts, bool isFirst) {
  std::vector<std::string_view> parts;
  if (!trim(text).empty())
    parts = split(text, ',');
  if (isFirst)
    layouts.resize(parts.size());
  if (layouts.size() != parts.size())
    return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto form = parseForm(parts[i]);
    if (!form)
      return false;
    layouts[i][axis] = *form;
  }
  return true;
}

std::optional<Signature>
tandem::cost::parseForms(const SearchProblem &problem,
                         const std::vector<std::string_view> &words) {
  Signature signature;
  if (words.size() != problem.axes.size())
    return std::nullopt;
  for (unsigned i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    size_t quote = word.find("='");
    if (quote == std::string_view::npos || !word.ends_with('\'') ||
        word.size() < quote + 3)
      return std::nullopt;
    int axis = findAxis(problem, word.substr(0, quote));
    std::string_view forms = word.substr(quote + 2, word.size() - quote - 3);
    size_t arrow = forms.find("->");
    if (axis != static_cast<int>(i) || arrow == std::string_view::npos ||
        !parseSide(forms.substr(0, arrow), axis, signature.operands, i == 0) ||
        !parseSide(forms.substr(arrow + 2), axis, signature.results, i == 0))
      return std::nullopt;
  }
  return signature;
}

std::string tandem::cost::print(const SearchProblem &problem,
                                const Signature &signature) {
  std::string text;
  auto addSide = [&](const std::vector<Layout> &layouts, unsigned axis) {
    for (size_t i = 0; i < layouts.size(); ++i)
      text += (i ? ", " : "") + getFormName(layouts[i][axis]);
  };
  for (unsigned axis = 0; axis < problem.axes.size(); ++axis) {
    text += (axis ? " " : "") + problem.axes[axis].name + "='";
    addSide(signature.operands, axis);
    text += signature.operands.empty() ? "-> " : " -> ";
    addSide(signature.results, axis);
    if (signature.results.empty())
      text.pop_back();
    text += "'";
  }
  return text;
}

std::string tandem::cost::print(const SearchProblem &problem,
                                const Layout &layout) {
  std::string text;
  for (unsigned axis = 0; axis < problem.axes.size(); ++axis)
    if (layout[axis] != kFull)
      text += (text.empty() ? "" : ",") + problem.axes[axis].name + "=" +
              getFormName(layout[axis]);
  return text.empty() ? "full" : text;
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

/// Blanks divide words, but not inside quotes.
static std::vector<std::string_view> getWordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  bool isQuoted = false, isInWord = false;
  for (size_t i = 0; i <= line.size(); ++i) {
    bool isEnd = i == line.size() || (!isQuoted && line[i] == '#');
    bool isBlank =
        isEnd || (!isQuoted && static_cast<unsigned char>(line[i]) <= ' ');
    if (!isBlank && line[i] == '\'')
      isQuoted = !isQuoted;
    if (isBlank && isInWord)
      words.push_back(line.substr(begin, i - begin));
    if (!isBlank && !isInWord)
      begin = i;
    isInWord = !isBlank;
    if (isEnd)
      break;
  }
  return words;
}

bool LineReader::next() {
  while (!text.empty()) {
    size_t end = text.find('\n');
    words = getWordsOf(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line;
    if (!words.empty())
      return true;
  }
  words.clear();
  return false;
}

bool LineReader::fail(std::string message) {
  if (error.empty())
    error = std::string(name) + ":" + std::to_string(std::max(line, 1u)) +
            ": " + message;
  return false;
}

bool LineReader::failWord(size_t place, std::string_view expected) {
  constexpr size_t kMostShown = 100; // of a file that is none of ours
  std::string found(getWord(place).substr(0, kMostShown));
  if (found.size() < getWord(place).size())
    found += "...";
  return fail("found '" + found + "', expected " + std::string(expected));
}

std::optional<double> LineReader::getQuantity(size_t place,
                                              std::string_view unit) {
  auto value = parseNumber<double>(getWord(place));
  if (!value || !std::isfinite(*value) || *value < 0) {
    failWord(place, "a number that is not negative");
    return std::nullopt;
  }
  // Sums and products of such stay finite.
  if (*value > 1e30) {
    failWord(place, "a number of at most 1e30");
    return std::nullopt;
  }
  if (!unit.empty() && getWord(place + 1) != unit) {
    failWord(place + 1, "the unit '" + std::string(unit) + "'");
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> LineReader::getBytes(size_t place) {
  auto value = parseNumber<int64_t>(getWord(place));
  if (!value || *value < 0 || getWord(place + 1) != "B") {
    failWord(place, "a number of bytes, as in '16 B'");
    return std::nullopt;
  }
  return value;
}

bool LineReader::expectIndex(std::string_view what, size_t expected) {
  auto index = parseNumber<unsigned>(getWord(1));
  return (index && *index == expected) ||
         failWord(1, std::string(what) + " " + std::to_string(expected) +
                         ": they are numbered in order");
}
