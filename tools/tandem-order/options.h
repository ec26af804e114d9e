//===- options.h - the command line of tandem-order -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_ORDER_OPTIONS_H
#define TANDEM_TOOLS_TANDEM_ORDER_OPTIONS_H

#include "tandem/Orders/Partition.h"
#include "tandem/Orders/Schedules.h"
#include "tandem_rt/status.h"

namespace tandem::order {

struct Options {
  /// The order's file, and that of its partition.
  std::string input, sections;
  /// The name of an order to be printed.
  std::string made;
  std::optional<orders::EqualCosts> costs;
  /// 0 for none.
  int64_t numPoints = 0, numMicrobatches = 0, sectionsPerPoint = 0;
  int64_t numColumns = 100;
  /// What each point may hold of activations: one for all, or one each.
  std::vector<double> limits;
  bool help = false;
};

rt::Expected<Options> parseOptions(int argc, const char *const *argv);

/// The text of --help.
std::string usage();

} // namespace tandem::order

#endif // TANDEM_TOOLS_TANDEM_ORDER_OPTIONS_H
