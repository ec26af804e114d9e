//===- FormText.cpp - numbers and names of forms --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/FormText.h"
#include <algorithm>
#include <charconv>

using namespace tandem;

namespace {
struct NamedForm {
  int64_t code;
  std::string_view keyword;
};
} // namespace

/// The forms without a number.
static constexpr NamedForm kNamed[] = {{form::kFull, "full"},
                                       {form::kReduce, "reduce"},
                                       {form::kReplicate, "replicate"},
                                       {form::kAbsent, "absent"}};
static constexpr std::string_view kGather = "gather", kAt = "at";

bool form::isOfTensors(int64_t code) {
  return code != kReplicate && code != kAbsent;
}

std::string_view form::getKeyword(int64_t code) {
  if (code <= kAtFirst)
    return kAt;
  const NamedForm *found = std::ranges::find(kNamed, code, &NamedForm::code);
  return found == std::end(kNamed) ? kGather : found->keyword;
}

std::optional<int64_t> form::findCode(std::string_view keyword) {
  const NamedForm *found =
      std::ranges::find(kNamed, keyword, &NamedForm::keyword);
  if (found == std::end(kNamed))
    return std::nullopt;
  return found->code;
}

std::string form::print(int64_t code) {
  std::string keyword(getKeyword(code));
  if (keyword == kGather)
    return keyword + "(" + std::to_string(code) + ")";
  if (keyword == kAt)
    return keyword + "(" + std::to_string(kAtFirst - code) + ")";
  return keyword;
}

static std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

/// The number, not negative, in `keyword(number)`.
static std::optional<int64_t> parseNumber(std::string_view text,
                                          std::string_view keyword) {
  size_t open = keyword.size();
  if (!text.starts_with(keyword) || !text.substr(open).starts_with('(') ||
      !text.ends_with(')'))
    return std::nullopt;
  text = trim(text.substr(open + 1, text.size() - open - 2));
  int64_t number = -1;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    return std::nullopt;
  return number;
}

std::optional<int64_t> form::parse(std::string_view text) {
  text = trim(text);
  if (auto code = findCode(text))
    return code;
  if (auto dim = parseNumber(text, kGather))
    return dim;
  auto point = parseNumber(text, kAt);
  if (!point || *point > kMaxPoint)
    return std::nullopt;
  return kAtFirst - *point;
}
