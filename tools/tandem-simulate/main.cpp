//===- main.cpp - simulates compiled training steps -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"
#include "run.h"

#include <cstdio>

int main(int argc, char **argv) {
  auto options = tandem::simulate::parseOptions(argc, argv);
  if (options.ok() && options->help) {
    std::fputs(tandem::simulate::usage(), stdout);
    return 0;
  }
  tandem::rt::Status status =
      options.ok() ? tandem::simulate::run(*options) : options.status();
  if (status.ok())
    return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "tandem-run: error: %s\n", status.message().c_str());
  return 1;
}
