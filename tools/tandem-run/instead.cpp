//===- instead.cpp - what is done in place of a run -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instead.h"

#include "../common/arguments.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <unistd.h>

namespace tandem::run {

using rt::Status;

/// In place of this process.
static Status runTool(const char *tool, char **argv) {
  std::error_code error;
  std::filesystem::path own =
      std::filesystem::canonical("/proc/self/exe", error);
  std::string path = own.parent_path() / tool;
  execv(path.c_str(), argv);
  return Status::error("cannot run '" + path + "': " + std::strerror(errno) +
                       ": it comes with the compiler, not with the runtime "
                       "alone");
}

Status runInstead(int argc, char **argv) {
  std::optional<std::string> device;
  Arguments arguments(argc, argv);
  const char *asked = std::getenv("TANDEM_CHECK");
  bool checksNumbers = asked && *asked, replans = false;
  while (arguments.next()) {
    checksNumbers |= arguments.isOption() && arguments.getName() == "--check";
    replans |= arguments.isOption() && arguments.getName() == "--replan-order";
    if (arguments.isOption() && arguments.getName() == "--device")
      if (Status status = arguments.takeValue(device.emplace()); !status.ok())
        return status;
  }
  if (replans)
    return runTool("tandem-replan", argv);
  if (!device)
    return Status::success();
  if (*device != "sim")
    return Status::error("device '" + *device +
                         "', expected sim: a Program names the device that "
                         "runs it");
  if (checksNumbers)
    return Status::error("--check, or TANDEM_CHECK, beside device sim, which "
                         "has no numbers, expected one of the two");
  return runTool("tandem-simulate", argv);
}

} // namespace tandem::run
