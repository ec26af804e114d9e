//===- OptionValues.cpp - the values of options ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Execution/OptionValues.h"
#include "tandem/Device/Gpu.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace tandem {

std::vector<std::string_view> getChoices(const OptionInfo &row) {
  if (row.getType() == OptionType::Device)
    return getRuntimeDevices();
  std::vector<std::string_view> names;
  for (StringRef name : llvm::split(StringRef(row.texts.names), ','))
    if (!name.empty())
      names.push_back(name);
  return names;
}

/// `text` with the row's choices, `between` them.
static std::string insertChoices(std::string_view text, const OptionInfo &row,
                                 std::string_view between) {
  constexpr std::string_view kPlace = "{choices}";
  size_t place = text.find(kPlace);
  if (place == std::string_view::npos)
    return std::string(text);
  std::string joined;
  for (std::string_view choice : getChoices(row))
    joined.append(joined.empty() ? "" : between).append(choice);
  return std::string(text).replace(place, kPlace.size(), joined);
}

std::string getHelp(const OptionInfo &row) {
  return insertChoices(row.texts.help, row, " or ");
}

std::string getExpected(const OptionInfo &row) {
  return insertChoices(row.texts.expected, row, "' or '");
}

bool hasArchitecture(std::string_view device, std::string_view architecture) {
  return findDevice(nameWithArchitecture(
      device.empty() ? kDefaultDevice : device, architecture));
}

} // namespace tandem
