//===- options.h - the command line of tandem-profile ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PROFILE_OPTIONS_H
#define TANDEM_TOOLS_TANDEM_PROFILE_OPTIONS_H

#include "tandem/Device/Device.h"
#include "tandem_rt/status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::profile {

struct Options {
  std::string output;         ///< Where to write the cluster; empty: stdout.
  std::string name = "local"; ///< The cluster's name.
  /// Devices, of all processes; 0: one per process, or four in one.
  int64_t ranks = 0;
  std::string device{kDefaultDevice}; ///< What to measure.
  int threads = 1;                    ///< Cores of one rank's compute thread.
  bool quick = false;                 ///< Fewer sizes, shorter runs.
  bool help = false;

  std::string computation;         ///< Whose devices to take; empty: measure.
  std::string price;               ///< The Program to price instead.
  std::string calibrate;           ///< The Program to calibrate by instead.
  std::string times;               ///< What its commands took.
  std::string cluster;             ///< With what prices.
  std::string show;                ///< Print the prices of this file instead.
  std::string mesh;                ///< `data=8,model=8`; one axis if empty.
  std::vector<std::string> values; ///< Overrides of the file, KEY=VALUE.
};

rt::Expected<Options> parseOptions(int argc, const char *const *argv);

/// The text of --help.
const char *usage();

} // namespace tandem::profile

#endif // TANDEM_TOOLS_TANDEM_PROFILE_OPTIONS_H
