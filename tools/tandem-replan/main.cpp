//===- main.cpp - another order for a Program -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"
#include "run.h"
#include <cstdio>

int main(int argc, char **argv) {
  auto options = tandem::replan::parseOptions(argc, argv);
  if (options.ok() && options->help) {
    std::fputs(tandem::replan::usage(), stdout);
    return 0;
  }
  tandem::rt::Status status =
      options.ok() ? tandem::replan::run(*options) : options.status();
  if (status.ok())
    return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "tandem-run: error: %s\n", status.message().c_str());
  return 1;
}
