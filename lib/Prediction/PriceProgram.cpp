//===- PriceProgram.cpp - prices of a Program's commands ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterMachine.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem_rt/pinned.h"
#include <algorithm>
#include <numeric>
#include <set>

namespace tandem {

using namespace rt;
using cost::Change;
using cost::Cluster;

std::optional<HostCopy> getHostCopy(const Program &program,
                                    const RankProgram &rankProgram,
                                    const Command &command) {
  const auto *copy = std::get_if<Copy>(&command.operation);
  if (!copy || program.queues[command.queue].role != QueueRole::Copy)
    return std::nullopt;
  return HostCopy{static_cast<double>(copy->source.bytes),
                  isPinned(program, rankProgram, copy->destination)};
}

bool copiesFromHost(const Program &program) {
  for (const RankProgram &rankProgram : program.rankPrograms)
    for (const Command *command : rankProgram.listing())
      if (getHostCopy(program, rankProgram, *command))
        return true;
  return false;
}

std::string findMissingHost(const Program &program, const Cluster &cluster) {
  return cluster.host || !copiesFromHost(program)
             ? ""
             : describeMissingHost(cluster);
}

PricedWork workOf(const Command &command) {
  if (const auto *op = std::get_if<Attention>(&command.operation))
    return {"nn.attention", elementName(op->type)};
  if (const auto *op = std::get_if<Convolution>(&command.operation))
    return {"nn.conv", elementName(op->type)};
  const auto *gemm = std::get_if<Gemm>(&command.operation);
  if (!gemm)
    return {"", "f32"};
  std::vector<int64_t> loops = {gemm->m, gemm->n, gemm->k};
  if (int64_t batch = numElements(gemm->batch); batch != 1)
    loops.insert(loops.begin(), batch);
  return {"nn.matmul", elementName(gemm->inputType), std::move(loops)};
}

double priceComputation(const Cluster &cluster, const Command &command) {
  auto flops = static_cast<double>(command.flops);
  auto bytes = static_cast<double>(command.bytes);
  PricedWork work = workOf(command);
  return getComputeSeconds(cluster, work.type, flops, bytes, work.op,
                           work.loops);
}

static Change getChange(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return Change::AllReduce;
  case CollectiveKind::AllGather:
    return Change::AllGather;
  case CollectiveKind::ReduceScatter:
    return Change::ReduceScatter;
  case CollectiveKind::AllToAll:
    return Change::AllToAll;
  }
  return Change::AllReduce;
}

/// As a plan counts them: the bytes are what a device holds where that axis and
/// those before it are whole.
std::vector<AxisPart> splitCollective(const std::vector<Axis> &mesh,
                                      const Collective &op) {
  std::vector<AxisPart> parts;
  Change change = getChange(op.kind);
  auto bytes =
      static_cast<double>(numElements(op.shape) * elementBytes(op.type));
  for (uint32_t axis : op.axes) {
    auto size = static_cast<double>(mesh[axis].size);
    if (change == Change::AllGather)
      bytes *= size;
    double whole = change == Change::AllToAll ? bytes * size : bytes;
    parts.push_back({axis, change, whole});
    if (change == Change::ReduceScatter)
      bytes /= size;
  }
  return parts;
}

cost::ChangeRate priceTransfer(const cost::Axis &axis) {
  const cost::ChangeRate &gather =
      axis.rates[static_cast<unsigned>(Change::AllGather)];
  auto size = static_cast<double>(axis.size), steps = size - 1;
  return {gather.latency / steps, gather.secondsPerByte * size / steps};
}

namespace {
/// The tables of one Program.
struct Pricer {
  const Program &program;
  const Cluster &cluster;
  const std::vector<cost::Axis> &mesh;
  CommandTimes &times;

  void add(uint32_t id, double latency, double rest) {
    times.collectives.back()[id] = latency + rest;
    times.latency.back()[id] = latency;
  }
  void add(uint32_t id, const Collective &op) {
    double latency = 0, rest = 0;
    for (const AxisPart &part : splitCollective(program.mesh, op)) {
      const cost::ChangeRate &rate =
          mesh[part.axis].rates[static_cast<unsigned>(part.change)];
      latency += rate.latency;
      rest += rate.secondsPerByte * part.bytes;
    }
    add(id, latency, rest);
  }
  void add(uint32_t id, const Transfer &op) {
    cost::ChangeRate rate = priceTransfer(mesh[op.axis]);
    add(id, rate.latency,
        rate.secondsPerByte *
            static_cast<double>(numElements(op.shape) * elementBytes(op.type)));
  }

  /// On the slowest of `devices`.
  void add(const RankProgram &rankProgram, const Cluster &devices) {
    times.seconds.emplace_back();
    times.collectives.emplace_back();
    times.latency.emplace_back();
    for (const Command *command : rankProgram.listing())
      if (getHostCopy(program, rankProgram, *command))
        times.latency.back()[command->id] = cluster.host->latency;
      else if (isComputation(*command))
        times.seconds.back()[command->id] = priceComputation(devices, *command);
      else if (const auto *op = std::get_if<Collective>(&command->operation))
        add(command->id, *op);
      else if (const auto *op = std::get_if<Transfer>(&command->operation))
        add(command->id, *op);
  }
};
} // namespace

/// With the kinds of device and the nodes alone that run a rank program: the
/// points of a pipeline differ where machines do.
static Cluster takeDevices(const Program &program, const Cluster &cluster,
                           size_t rankProgram) {
  std::set<unsigned> used;
  std::vector<cost::NodeGroup> nodes;
  size_t rank = 0;
  for (const cost::NodeGroup &group : cluster.nodes) {
    bool runs = false;
    for (int64_t i = 0; i < group.count; ++i)
      for (auto [kind, count] : group.devices)
        for (int64_t device = 0; device < count; ++device, ++rank)
          if (rank < program.rankToProgram.size() &&
              program.rankToProgram[rank] == rankProgram)
            used.insert(kind), runs = true;
    if (runs)
      nodes.push_back(group);
  }
  Cluster own = cluster;
  if (used.empty())
    return own;
  own.nodes = std::move(nodes);
  own.kinds.clear();
  for (unsigned kind : used)
    own.kinds.push_back(cluster.kinds[kind]);
  return own;
}

/// Copies from the host and to it as the simulation has them, where devices
/// share a link while they copy: in the mean, on the rank that takes longest.
static Status priceCopies(const Program &program, const Cluster &cluster,
                          CommandTimes &times) {
  if (!copiesFromHost(program))
    return Status::success();
  std::string error;
  auto machine = ClusterMachine::make(program, cluster, error);
  if (!machine)
    return Status::error(error);
  auto made = simulate(headOf(program, times.program), *machine);
  if (!made.ok())
    return made.status();
  const Timeline &timeline = made->timeline;
  struct Sum {
    int64_t nanoseconds = 0, count = 0;
  };
  std::map<std::pair<int64_t, uint32_t>, Sum> sums; // by rank and id
  for (const TraceEvent &event : timeline.events) {
    const TimelineCommand &command = timeline.head[event];
    if (activityOf(command.role, timeline.head.queues[command.queue].role) !=
        Activity::Copy)
      continue;
    Sum &sum = sums[{event.rank, command.id}];
    sum.nanoseconds += event.end - event.begin, ++sum.count;
  }
  for (const auto &[key, sum] : sums) {
    auto [rank, id] = key;
    double &seconds = times.seconds[program.rankToProgram[rank]][id];
    seconds = std::max(seconds, 1e-9 * static_cast<double>(sum.nanoseconds) /
                                    static_cast<double>(sum.count));
  }
  return Status::success();
}

Expected<CommandTimes> priceProgram(const Program &program,
                                    const std::string &hash,
                                    const Cluster &cluster) {
  std::vector<cost::Axis> mesh;
  for (const Axis &axis : program.mesh) {
    mesh.emplace_back();
    mesh.back().name = axis.name;
    mesh.back().size = axis.size;
  }
  std::string error = findMissingHost(program, cluster);
  if (!error.empty() || !priceMesh(cluster, mesh, error))
    return Status::error(error);
  CommandTimes times{hash, "planned: cluster '" + cluster.name + "'"};
  times.machine = cluster.machine;
  times.computationSlowdown = cluster.computeSlowdown;
  times.collectiveSlowdown = cluster.collectiveSlowdown;
  times.copySlowdown = cluster.copySlowdown;
  for (size_t i = 0; i < program.rankPrograms.size(); ++i)
    Pricer{program, cluster, mesh, times}.add(program.rankPrograms[i],
                                              takeDevices(program, cluster, i));
  if (Status status = priceCopies(program, cluster, times); !status.ok())
    return status;
  return times;
}

} // namespace tandem
