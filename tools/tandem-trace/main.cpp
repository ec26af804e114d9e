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

#include "../common/python.h"
#include "options.h"
#include "run.h"

#include <cstdio>

static int fail(const std::string &message) {
  std::fflush(stdout);
  std::fprintf(stderr, "tandem-trace: error: %s\n", message.c_str());
  return 1;
}

int main(int argc, char **argv) {
  if (tandem::trace::isForPage(argc, argv)) // Bokeh draws it
    return fail(tandem::becomePython("report", argv + 2));
  auto options = tandem::trace::parseOptions(argc, argv);
  if (options.ok() && options->help) {
    std::fputs(tandem::trace::usage(), stdout);
    return 0;
  }
  tandem::rt::Status status =
      options.ok() ? tandem::trace::run(*options) : options.status();
  return status.ok() ? 0 : fail(status.message());
}
