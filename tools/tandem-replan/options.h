//===- options.h - the command line of tandem-replan ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_REPLAN_OPTIONS_H
#define TANDEM_TOOLS_TANDEM_REPLAN_OPTIONS_H

#include "tandem_rt/status.h"
#include <cstdint>
#include <optional>
#include <string>

namespace tandem::replan {

struct Options {
  std::string program, trace, output;
  /// Of noise.
  std::optional<int64_t> seed;
  bool help = false;
};

const char *usage();
rt::Expected<Options> parseOptions(int argc, const char *const *argv);

} // namespace tandem::replan

#endif // TANDEM_TOOLS_TANDEM_REPLAN_OPTIONS_H
