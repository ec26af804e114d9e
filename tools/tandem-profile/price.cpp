//===- price.cpp - prices of a Program's commands -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "price.h"
#include "../common/file.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem_rt/new_file.h"

namespace tandem::profile {

using namespace rt;

Status price(const Options &options) {
  if (Status status = checkOutput(options.output, kTimesFile,
                                  {options.price, options.cluster});
      !status.ok())
    return status;
  Expected<Bytes> bytes = readFile(options.price);
  if (!bytes.ok())
    return bytes.status();
  Expected<Program> program = loadProgram(*bytes);
  if (!program.ok())
    return Status::error(options.price + ": " + program.status().message());
  std::string error;
  auto cluster = cost::readCluster(options.cluster, error, options.values);
  if (!cluster)
    return Status::error(error);
  Expected<CommandTimes> times =
      priceProgram(*program, programHash(*bytes), *cluster);
  return times.ok() ? writeTimes(*times, options.output) : times.status();
}

} // namespace tandem::profile
