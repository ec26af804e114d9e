//===- Options.h - the options of a compilation -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The record that Options.def lists, and its rows as a table.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_OPTIONS_H
#define TANDEM_SUPPORT_OPTIONS_H

#include "tandem/Support/ByteSize.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem {

/// Values of one compilation. Empty texts and -1 are values that were not
/// given.
struct Options {
#define TANDEM_COMPILER_OPTION(TYPE, MEMBER, DEFAULT, ...)                     \
  TYPE MEMBER = DEFAULT;
#define TANDEM_PLAN_OPTION TANDEM_COMPILER_OPTION
#define TANDEM_IMPORT_OPTION TANDEM_COMPILER_OPTION
#define TANDEM_ACCUMULATE_OPTION TANDEM_COMPILER_OPTION
#define TANDEM_SCHEDULE_OPTION TANDEM_COMPILER_OPTION
#include "tandem/Support/Options.def"
};

enum class OptionType {
  /// The type of the member.
  OfMember,
  Flag,
  /// A whole number of at least 1.
  Count,
  /// At least 0, with or without a unit (ByteSize.h); -1 where it was not
  /// given.
  Bytes,
  /// At least 0.
  Seconds,
  /// Of either sign.
  Integer,
  Text,
  /// The name of a device.
  Device,
  Texts,
  /// Whatever the reader takes.
  Any,
};

/// What an option is to the cache of Programs.
enum class OptionKey {
  /// Its value decides what is compiled; of a file the content, too.
  Value,
  /// A compilation with it is not cached.
  Uncached,
  /// It changes nothing that is kept.
  Ignored,
};

/// The texts of a row of Options.def.
struct OptionTexts {
  /// With hyphens, as in the options of a pipeline. Python has underscores.
  std::string_view name;
  OptionType type = OptionType::OfMember;
  /// On command lines, where it is not `--NAME`. `--no-NAME` clears a flag.
  std::string_view flag = "";
  /// Stands for the value in help.
  std::string_view value = "";
  /// Between texts in one argument.
  char separator = 0;
  /// Whether tandem.compile has it, `python -m tandem verify`, Python at all,
  /// and tandem-compile.
  bool isStep = true, isCommand = true, isPython = true, isFlag = true;
  /// Whether it names a file, which may lie elsewhere on another host.
  bool isPath = false;
  /// Values that name no file, with commas between.
  std::string_view names = "";
  OptionKey key = OptionKey::Value;
  /// Whether the processes of a job have to be given the same.
  bool isCompared = true;
  /// The largest Count.
  int64_t most = 0;
  /// What it does, for all readers; and what only Python's have to know.
  std::string_view help, python = "";
  /// What a value of another type is told. In this and in `help`, the values
  /// of an option that has few stand for `{choices}`.
  std::string_view expected = "";
};

/// A row of Options.def.
struct OptionInfo {
  /// The stage that reads it, or `compiler`, or `step` for Python.
  std::string_view reader;
  /// Nothing for an option that only Python reads.
  std::variant<std::monostate, bool Options::*, int64_t Options::*,
               double Options::*, std::string Options::*,
               std::vector<std::string> Options::*>
      member;
  /// A literal of Python, for an option without a member.
  std::string_view initial;
  OptionTexts texts;

  OptionType getType() const;
  /// `--search-time-limit`.
  std::string getFlag() const;
};

/// All rows, in the order of Options.def.
const std::vector<OptionInfo> &getOptionTable();

/// Whether a compilation with these options may be cached.
bool isCachable(const Options &options);

/// All values that decide what is compiled, with the content of files: a text
/// that no other values have. Nothing where a file cannot be read.
std::optional<std::string> makeKeyText(const Options &options);

/// The parts with their lengths, so that no part can pass for two.
std::string joinParts(const std::vector<std::string> &parts);

/// Over which axes of the mesh a preset splits the rows of a batch.
enum class PresetBatch {
  /// None: every rank has all rows.
  Whole,
  /// `data`, or the only one.
  Data,
  /// `data`, where there are several.
  DataOfSeveral,
  All,
};

/// A row of Presets.def.
struct PresetInfo {
  std::string_view name;
  /// With commas between.
  std::string_view aliases;
  std::string_view help;
  PresetBatch batch;
};

/// The preset of a compilation that names no plan.
inline constexpr std::string_view kDefaultPreset =
#define TANDEM_PRESET(ID, NAME, ALIASES, BATCH, HELP)
#define TANDEM_DEFAULT_PRESET(ID, NAME, ALIASES, BATCH, HELP) NAME
#include "tandem/Support/Presets.def"
    ;

/// The preset that cuts a step into sections.
inline constexpr std::string_view kPipelinePreset =
#define TANDEM_PRESET(ID, NAME, ALIASES, BATCH, HELP)
#define TANDEM_PIPELINE_PRESET(ID, NAME, ALIASES, BATCH, HELP) NAME
#include "tandem/Support/Presets.def"
    ;

const std::vector<PresetInfo> &getPresetTable();

/// The names of Schedules.def, with commas between.
inline constexpr std::string_view kOrderNames = std::string_view(
#define TANDEM_SCHEDULE(NAME, WRITER, PLACEMENT, SECTIONS, MICROBATCHES)       \
  "," NAME
#include "tandem/Support/Schedules.def"
                                                    ",search")
                                                    .substr(1);

} // namespace tandem

#endif // TANDEM_SUPPORT_OPTIONS_H
