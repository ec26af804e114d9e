//===- arguments.cpp - the words of a command line ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "arguments.h"
#include <charconv>

namespace tandem {

using rt::Status;

bool Arguments::next() {
  if (at >= argc)
    return false;
  word = argv[at++];
  size_t equals = isOption() ? word.find('=') : std::string_view::npos;
  name = word.substr(0, equals);
  given.reset();
  if (equals != std::string_view::npos)
    given = word.substr(equals + 1);
  return true;
}

Status Arguments::takeValue(std::string &value) {
  if (!given && at < argc)
    given = argv[at++];
  if (!given || given->empty())
    return Status::error(std::string(name) + " needs a value");
  value = *given;
  return Status::success();
}

Status Arguments::takeNumber(int64_t low, int64_t high, int64_t &value) {
  std::string text;
  if (Status status = takeValue(text); !status.ok())
    return status;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() &&
      value >= low && value <= high)
    return Status::success();
  return Status::error(std::string(name) + " is '" + text +
                       "', expected a number from " + std::to_string(low) +
                       " to " + std::to_string(high));
}

Status Arguments::failUnknown() const {
  return Status::error("unknown option '" + std::string(word) +
                       "', see --help");
}

} // namespace tandem
