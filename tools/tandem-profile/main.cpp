//===- main.cpp - measures a machine, or shows a cluster ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "calibrate.h"
#include "options.h"
#include "price.h"
#include "profile.h"
#include "show.h"
#include <cstdio>

static tandem::rt::Status run(const tandem::profile::Options &options) {
  if (!options.show.empty())
    return show(options);
  if (!options.calibrate.empty())
    return calibrate(options);
  return options.price.empty() ? profile(options) : price(options);
}

int main(int argc, char **argv) {
  using namespace tandem;
  auto options = profile::parseOptions(argc, argv);
  rt::Status status = options.status();
  if (options.ok() && options->help)
    std::fputs(profile::usage(), stdout);
  else if (options.ok())
    status = run(*options);
  if (status.ok())
    return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "tandem-profile: error: %s\n", status.message().c_str());
  return 1;
}
