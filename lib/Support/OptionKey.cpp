//===- OptionKey.cpp - options as a key of the cache ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/Options.h"
#include "tandem/Support/TextFile.h"
#include <algorithm>

namespace tandem {

std::string joinParts(const std::vector<std::string> &parts) {
  std::string all;
  for (const std::string &part : parts)
    all += std::to_string(part.size()) + " " + part;
  return all;
}

namespace {
/// The value of an option as a text that no other value has.
struct ValueText {
  const Options &options;

  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(bool Options::*flag) const {
    return options.*flag ? "1" : "0";
  }
  std::string operator()(int64_t Options::*number) const {
    return std::to_string(options.*number);
  }
  std::string operator()(double Options::*number) const {
    const double &value = options.*number;
    return std::string(reinterpret_cast<const char *>(&value), sizeof value);
  }
  std::string operator()(std::string Options::*text) const {
    return options.*text;
  }
  std::string operator()(std::vector<std::string> Options::*texts) const {
    return joinParts(options.*texts);
  }
};
} // namespace

bool isCachable(const Options &options) {
  Options none;
  const std::vector<OptionInfo> &table = getOptionTable();
  return std::all_of(table.begin(), table.end(), [&](const OptionInfo &row) {
    return row.texts.key != OptionKey::Uncached ||
           std::visit(ValueText{options}, row.member) ==
               std::visit(ValueText{none}, row.member);
  });
}

static bool isName(std::string_view names, std::string_view text) {
  size_t begin = names.find(text);
  return begin != std::string_view::npos &&
         (begin == 0 || names[begin - 1] == ',') &&
         (begin + text.size() == names.size() ||
          names[begin + text.size()] == ',');
}

/// The path of an option that names a file; null for another one, or none.
static const std::string *findPath(const OptionInfo &row,
                                   const Options &options) {
  auto member = std::get_if<std::string Options::*>(&row.member);
  if (!row.texts.isPath || !member || (options.**member).empty() ||
      isName(row.texts.names, options.**member))
    return nullptr;
  return &(options.**member);
}

std::optional<std::string> makeKeyText(const Options &options) {
  std::vector<std::string> parts;
  for (const OptionInfo &row : getOptionTable()) {
    if (row.texts.key != OptionKey::Value)
      continue;
    parts.emplace_back(row.texts.name);
    parts.push_back(std::visit(ValueText{options}, row.member));
    if (const std::string *path = findPath(row, options)) {
      std::string unreadable;
      std::optional<std::string> content = readTextFile(*path, unreadable);
      if (!content)
        return std::nullopt;
      parts.push_back(std::move(*content));
    }
  }
  return joinParts(parts);
}

} // namespace tandem
