//===- arguments.h - the words of a command line ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tools without LLVM: walks the arguments of `main`. The value of an option
// stands behind `=` or is the next argument.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_COMMON_ARGUMENTS_H
#define TANDEM_TOOLS_COMMON_ARGUMENTS_H

#include "tandem_rt/status.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

class Arguments {
public:
  Arguments(int argc, const char *const *argv) : argc(argc), argv(argv) {}

  /// Goes to the next argument; false behind the last one.
  bool next();
  /// The argument as it was given, and its part before `=`, if it is an option.
  std::string_view getWord() const { return word; }
  std::string_view getName() const { return name; }
  bool isOption() const { return word.starts_with("-"); }
  /// Whether the option has this name and no value.
  bool isFlag(std::string_view flag) const { return name == flag && !given; }

  /// The value of the option at hand. An error names the option.
  rt::Status takeValue(std::string &value);
  /// The same, a whole number from `low` to `high`.
  rt::Status takeNumber(int64_t low, int64_t high, int64_t &value);
  rt::Status failUnknown() const;

private:
  int argc;
  const char *const *argv;
  int at = 1;
  std::string_view word, name;
  std::optional<std::string_view> given;
};

} // namespace tandem

#endif // TANDEM_TOOLS_COMMON_ARGUMENTS_H
