//===- HostLimit.cpp - memory of the host that a step may take ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostLimit.h"
#include "tandem/Cost/Cluster.h"
#include "tandem/Device/HostSpace.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Support/TextFile.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "tandem_rt/pinned.h"
#include <limits>

using namespace mlir;
using namespace tandem;

/// Of a file that cannot be read, the stage plan says why.
static bool hasHostLink(const std::string &cluster) {
  std::string error;
  auto read =
      cluster.empty() ? std::nullopt : cost::readCluster(cluster, error);
  return read && read->host;
}

/// Whether a plan file has values that wait on the host.
static bool hasHostValues(const std::string &planFile) {
  std::string error;
  auto text = planFile.empty() ? std::nullopt : readTextFile(planFile, error);
  return text && StringRef(*text).contains(" nn.either: host ");
}

int64_t tandem::findHostLimit(const CompileOptions &options, func::FuncOp step,
                              bool isPipeline, std::string &error) {
  const Device &device = sched::getDevice(step);
  if (isPipeline || !findHostSpace(device)) {
    if (options.hostMemory > 0)
      error = "host memory of " + printByteSize(options.hostMemory) + " for " +
              (isPipeline ? "a pipeline"
                          : "device '" + std::string(device.name) + "'") +
              ", which does not copy from the host: expected none";
    return 0;
  }
  if (options.hostMemory >= 0)
    return options.hostMemory;
  auto asks = [&](StringRef pin) { return asksToSend(step, pin); };
  return llvm::any_of(options.pins, asks) || hasHostLink(options.cluster) ||
                 hasHostValues(options.planFile) || hasHostValues(options.start)
             ? std::numeric_limits<int64_t>::max()
             : 0;
}

std::string tandem::describeHostExcess(const CompileOptions &options,
                                       const rt::Program &program) {
  int64_t held = 0;
  for (int64_t rank = 0; rank < program.numRanks(); ++rank)
    held = std::max(held, rt::pinnedBytes(program, rank));
  if (options.hostMemory < 0 || held <= options.hostMemory)
    return "";
  return "the Program holds " + printByteSize(held) +
         " on the host of a rank, " + printByteSize(held - options.hostMemory) +
         " more than the limit of " + printByteSize(options.hostMemory) +
         ": expected more, or a larger limit of the device's memory";
}
