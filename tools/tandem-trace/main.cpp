//===- main.cpp - reads timelines -----------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Links what reads timelines and Programs: nothing here runs one.
//
//===----------------------------------------------------------------------===//

#include "options.h"
#include "run.h"

#include <cstdio>

int main(int argc, char **argv) {
  auto options = tandem::trace::parseOptions(argc, argv);
  if (options.ok() && options->help) {
    std::fputs(tandem::trace::usage(), stdout);
    return 0;
  }
  tandem::rt::Status status =
      options.ok() ? tandem::trace::run(*options) : options.status();
  if (status.ok())
    return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "tandem-trace: error: %s\n", status.message().c_str());
  return 1;
}
