//===- ClusterMachine.h - a cluster to simulate on --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The prices of a cluster file, with the links that make them: where the groups
// of an axis communicate at the same time, a collective takes what the axis'
// rate says; alone it takes less. So it is with copies of the devices that
// share a link to their host.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_PREDICTION_CLUSTERMACHINE_H
#define TANDEM_LIB_PREDICTION_CLUSTERMACHINE_H

#include "tandem/Cost/Cluster.h"
#include "tandem_rt/command_times.h"
#include "tandem_rt/simulate.h"
#include <memory>

namespace tandem {

/// A copy between a device and its host.
struct HostCopy {
  double bytes = 0;
  bool isToHost = false;
};

/// What a command of `rankProgram` copies; nothing if it is no such copy.
std::optional<HostCopy> getHostCopy(const rt::Program &program,
                                    const rt::RankProgram &rankProgram,
                                    const rt::Command &command);

/// Whether commands of `program` copy from the host or to it.
bool copiesFromHost(const rt::Program &program);

/// Seconds of a command that computes, on the slowest kind of device.
double priceComputation(const cost::Cluster &cluster,
                        const rt::Command &command);

/// What `cluster` lacks for the copies of `program`; empty: nothing.
std::string findMissingHost(const rt::Program &program,
                            const cost::Cluster &cluster);

/// A part of a collective: all that its members do along one axis.
struct AxisPart {
  uint32_t axis = 0;
  cost::Change change = cost::Change::AllReduce;
  double bytes = 0; // as in `ChangeRate`
};

/// Of a group over several axes one axis after the other.
std::vector<AxisPart> splitCollective(const std::vector<rt::Axis> &mesh,
                                      const rt::Collective &op);

/// One of the steps in which the members of an axis gather: each gives its part
/// of the whole to the next one. The rate is that of the bytes given.
cost::ChangeRate priceTransfer(const cost::Axis &axis);

class ClusterMachine : public rt::Machine {
public:
  /// Null, with `error`, if the cluster has not as many devices as the Program
  /// has ranks. Both outlive the machine.
  static std::unique_ptr<ClusterMachine> make(const rt::Program &program,
                                              const cost::Cluster &cluster,
                                              std::string &error);

  /// From here on commands that compute take the seconds of `times`, which is
  /// checked to be the Program's, on every device.
  void take(const rt::CommandTimes &times);

  double secondsOf(const rt::RankCommand &command) const override;
  rt::Movement
  movementOf(const std::vector<int64_t> &members,
             const std::vector<rt::RankCommand> &commands) const override;
  int64_t kindOf(int64_t rank) const override { return kinds[rank]; }
  std::vector<uint32_t> linksOf(int64_t rank) const override;

private:
  /// Two links, one in each direction.
  struct Pair {
    uint32_t out = 0, in = 0;
  };
  ClusterMachine(const rt::Program &program, const cost::Cluster &cluster)
      : program(program), cluster(cluster) {}
  void placeRanks();
  void addLinks();
  void addHostLinks();
  void priceCommands();
  bool priceAxes(std::string &error);
  const rt::Command &at(const rt::RankCommand &command) const;
  rt::Movement moveGroup(const std::vector<int64_t> &members,
                         const rt::Collective &op) const;
  rt::Movement moveBetween(int64_t from, int64_t to,
                           const rt::Transfer &op) const;
  rt::Movement moveHost(int64_t rank, const HostCopy &copy) const;
  void addUses(const std::vector<int64_t> &members, const AxisPart &part,
               std::vector<rt::LinkUse> &uses) const;
  /// How many times longer a change takes, measured, than its formula says.
  double getScale(uint32_t axis, cost::Change change) const;

  const rt::Program &program;
  const cost::Cluster &cluster;
  /// By rank.
  std::vector<unsigned> kinds, nodes;
  /// By node.
  std::vector<cost::NodeLinks> links;
  /// By rank: inside of its node, between nodes, and to its host and from it,
  /// if the Program copies.
  std::vector<Pair> inside, network, host;
  /// By rank program, its listing; by kind too, the seconds of each command.
  std::vector<std::vector<const rt::Command *>> listings;
  std::vector<std::vector<std::vector<double>>> seconds;
  /// With measured times, and by the formulas alone.
  std::vector<cost::Axis> axes, formulas;
};

} // namespace tandem

#endif // TANDEM_LIB_PREDICTION_CLUSTERMACHINE_H
