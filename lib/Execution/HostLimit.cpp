//===- HostLimit.cpp - memory of the host that a step may take ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostLimit.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Cost/Cluster.h"
#include "tandem/Device/HostSpace.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Support/Glob.h"
#include "tandem/Transforms/Plan/HostClaims.h"
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

std::string tandem::findMissingPin(const CompileOptions &options) {
  for (const std::string &pin : readHostClaims(options.start).pins)
    if (StringRef(pin).starts_with("parameter:") &&
        StringRef(pin).ends_with(":host") &&
        !llvm::is_contained(options.pins, pin))
      return "plan '" + options.start + "' has the pin '" + pin +
             "', and this run has not: expected it here, too, since parameters "
             "on the host are read by other operators";
  return "";
}

void tandem::markStored(const CompileOptions &options, func::FuncOp step) {
  std::vector<std::string> pins = readHostClaims(options.planFile).pins;
  llvm::append_range(pins, options.pins);
  Builder builder(step.getContext());
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    DictionaryAttr attributes = step.getArgAttrDict(i);
    if (nn::getRole(attributes) == nn::Role::Parameter &&
        llvm::any_of(
            pins, [&](StringRef pin) { return asksToStore(attributes, pin); }))
      step.setArgAttr(i, spmd::kHostAttrName, builder.getUnitAttr());
  }
}

std::vector<std::string> tandem::listStatePins(func::FuncOp step) {
  std::vector<std::string> pins;
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    DictionaryAttr attributes = step.getArgAttrDict(i);
    if (nn::getRole(attributes) != nn::Role::State)
      continue;
    auto [kind, parameter] = nn::getTensorName(attributes).split('.');
    std::string pin =
        makeGlob(kind) + (parameter.empty() ? "" : ".*") + ":host";
    if (!asksToSend(step, pin) && !llvm::is_contained(pins, pin))
      pins.push_back(pin);
  }
  return pins;
}

std::string tandem::suggestHost(const CompileOptions &options,
                                func::FuncOp step) {
  int64_t bytes = 0;
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (nn::getRole(step.getArgAttrDict(i)) == nn::Role::State)
      bytes += getBytes(step.getArgument(i).getType());
  // A cluster that is named says by its link whether it is allowed.
  bool isAsked = options.hostMemory >= 0 || !options.cluster.empty() ||
                 llvm::any_of(options.pins, asksHost);
  if (isAsked || bytes == 0 || !findHostSpace(sched::getDevice(step)))
    return "";
  return ", or --host-memory: " + printByteSize(bytes) +
         " of the states of all ranks may lie on hosts";
}

int64_t tandem::findHostLimit(const CompileOptions &options, func::FuncOp step,
                              std::string &error) {
  const Device &device = sched::getDevice(step);
  bool canCopy = findHostSpace(device).has_value();
  if (!canCopy && options.hostMemory > 0)
    error = "host memory of " + printByteSize(options.hostMemory) +
            " for device '" + std::string(device.name) +
            "', which does not copy from the host: expected none";
  if (!canCopy)
    return 0;
  auto asks = [&](StringRef pin) { return asksToSend(step, pin); };
  if (auto pin = llvm::find_if(options.pins, asks);
      options.hostMemory == 0 && pin != options.pins.end())
    error = "pin '" + *pin +
            "' has values wait on the host, but the host memory is limited to "
            "0: expected more, or no such pin";
  // A plan file says itself whether its step had the offer.
  bool isOffered =
      llvm::any_of(options.pins, asks) ||
      (!options.planFile.empty()
           ? readHostClaims(options.planFile).sendsValues
           : options.hostMemory > 0 || hasHostLink(options.cluster) ||
                 readHostClaims(options.start).sendsValues);
  if (!isOffered)
    return 0;
  return options.hostMemory >= 0 ? options.hostMemory
                                 : std::numeric_limits<int64_t>::max();
}

/// Of a rank, in memory of the host that is there for one step.
static int64_t countPinnedArenas(const rt::Program &program, int64_t rank) {
  int64_t bytes = 0;
  uint32_t own = program.rankToProgram[size_t(rank)];
  for (const auto &arena : program.rankPrograms[own].arenas)
    if (rt::isPinned(program, arena.memorySpace))
      bytes += arena.bytes;
  return bytes;
}

HostExcess tandem::findHostExcess(const CompileOptions &options,
                                  const rt::Program &program) {
  HostExcess excess;
  int64_t held = 0;
  for (int64_t rank = 0; rank < program.numRanks(); ++rank)
    if (int64_t own = rt::pinnedBytes(program, rank); own > held) {
      held = own;
      excess.sent = countPinnedArenas(program, rank);
    }
  if (options.hostMemory < 0 || held <= options.hostMemory)
    return excess;
  excess.bytes = held - options.hostMemory;
  excess.why = "the Program holds " + printByteSize(held) +
               " on the host of a rank, " + printByteSize(excess.bytes) +
               " more than the limit of " + printByteSize(options.hostMemory) +
               ": expected --host-memory of at least " + printByteSize(held) +
               (llvm::any_of(options.pins, asksHost)
                    ? ", or pins ':host' on less"
                    : ", or a larger limit of the device's memory");
  return excess;
}

int64_t tandem::countSent(func::FuncOp step) {
  llvm::DenseSet<Operation *> counted;
  int64_t bytes = 0;
  step.walk([&](nn::EitherOp either) {
    auto fetch = either.getSources()[nn::getSource(either)]
                     .getDefiningOp<nn::FromHostOp>();
    Operation *sent = fetch ? fetch.getInput().getDefiningOp() : nullptr;
    if (sent && counted.insert(sent).second)
      bytes += getBytes(sent->getResult(0).getType());
  });
  return bytes;
}
