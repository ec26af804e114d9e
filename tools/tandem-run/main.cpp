//===- main.cpp - runs compiled training steps ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Links the runtime only: there is no compiler in this process.
//
//===----------------------------------------------------------------------===//

#include "instead.h"
#include "options.h"
#include "run.h"

#include "tandem_rt/processes.h"

#include <cstdio>

using tandem::rt::Processes;
using tandem::rt::Status;

/// Of several processes none has done its work before all have.
static Status runAndFinish(const tandem::run::Options &options) {
  Status status = tandem::run::run(options);
  if (status.ok())
    return Processes::finish();
  Processes::leave("error: " + status.message());
  return status;
}

int main(int argc, char **argv) {
  Status status = tandem::run::runInstead(argc, argv);
  if (status.ok()) {
    auto options = tandem::run::parseOptions(argc, argv);
    if (options.ok() && options->help) {
      std::fputs(tandem::run::usage(), stdout);
      return 0;
    }
    status = options.ok() ? runAndFinish(*options) : options.status();
  }
  if (status.ok())
    return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "tandem-run: error: %s\n", status.message().c_str());
  return 1;
}
