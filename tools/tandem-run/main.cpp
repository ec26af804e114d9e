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

#include "options.h"
#include "run.h"

#include <cstdio>

int main(int argc, char **argv) {
  auto options = tandem::run::parseOptions(argc, argv);
  if (options.ok() && options->help) {
    std::fputs(tandem::run::usage(), stdout);
    return 0;
  }
  tandem::rt::Status status =
      options.ok() ? tandem::run::run(*options) : options.status();
  if (status.ok())
    return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "tandem-run: error: %s\n", status.message().c_str());
  return 1;
}
