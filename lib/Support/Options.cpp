//===- Options.cpp - the options of a compilation -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/Options.h"

namespace tandem {

const std::vector<OptionInfo> &getOptionTable() {
#define TANDEM_ROW(READER, MEMBER, ...)                                        \
  OptionInfo{READER, &Options::MEMBER, "", OptionTexts{__VA_ARGS__}},
  static const std::vector<OptionInfo> table{
#define TANDEM_IMPORT_OPTION(TYPE, MEMBER, DEFAULT, ...)                       \
  TANDEM_ROW("import", MEMBER, __VA_ARGS__)
#define TANDEM_ACCUMULATE_OPTION(TYPE, MEMBER, DEFAULT, ...)                   \
  TANDEM_ROW("accumulate", MEMBER, __VA_ARGS__)
#define TANDEM_PLAN_OPTION(TYPE, MEMBER, DEFAULT, ...)                         \
  TANDEM_ROW("plan", MEMBER, __VA_ARGS__)
#define TANDEM_SCHEDULE_OPTION(TYPE, MEMBER, DEFAULT, ...)                     \
  TANDEM_ROW("schedule", MEMBER, __VA_ARGS__)
#define TANDEM_COMPILER_OPTION(TYPE, MEMBER, DEFAULT, ...)                     \
  TANDEM_ROW("compiler", MEMBER, __VA_ARGS__)
#define TANDEM_STEP_OPTION(DEFAULT, ...)                                       \
  OptionInfo{"step", {}, DEFAULT, OptionTexts{__VA_ARGS__}},
#include "tandem/Support/Options.def"
  };
#undef TANDEM_ROW
  return table;
}

namespace {
struct TypeOf {
  OptionType operator()(std::monostate) const { return OptionType::Any; }
  OptionType operator()(bool Options::*) const { return OptionType::Flag; }
  OptionType operator()(int64_t Options::*) const { return OptionType::Count; }
  OptionType operator()(double Options::*) const { return OptionType::Seconds; }
  OptionType operator()(std::string Options::*) const {
    return OptionType::Text;
  }
  OptionType operator()(std::vector<std::string> Options::*) const {
    return OptionType::Texts;
  }
};
} // namespace

OptionType OptionInfo::getType() const {
  return texts.type == OptionType::OfMember ? std::visit(TypeOf(), member)
                                            : texts.type;
}

std::string OptionInfo::getFlag() const {
  return std::string(texts.flag.empty() ? "--" : "") +
         std::string(texts.flag.empty() ? texts.name : texts.flag);
}

const std::vector<PresetInfo> &getPresetTable() {
  static const std::vector<PresetInfo> table{
#define TANDEM_PRESET(ID, NAME, ALIASES, BATCH, HELP)                          \
  PresetInfo{NAME, ALIASES, HELP, PresetBatch::BATCH},
#include "tandem/Support/Presets.def"
  };
  return table;
}

} // namespace tandem
