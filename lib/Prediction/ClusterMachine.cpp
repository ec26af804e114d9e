//===- ClusterMachine.cpp - a cluster to simulate on ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterMachine.h"
#include <map>

namespace tandem {

using namespace rt;
using cost::Change;

//===----------------------------------------------------------------------===//
// The machine
//===----------------------------------------------------------------------===//

std::unique_ptr<ClusterMachine>
ClusterMachine::make(const Program &program, const cost::Cluster &cluster,
                     std::string &error) {
  std::unique_ptr<ClusterMachine> machine(new ClusterMachine(program, cluster));
  error = findMissingHost(program, cluster);
  if (!error.empty() || !machine->priceAxes(error))
    return nullptr;
  machine->placeRanks();
  machine->addLinks();
  if (copiesFromHost(program))
    machine->addHostLinks();
  machine->priceCommands();
  machine->computationSlowdown = cluster.computeSlowdown;
  machine->movementSlowdown = cluster.collectiveSlowdown;
  machine->copySlowdown = cluster.copySlowdown;
  // Beside each other never slower than one after the other.
  if (1 / cluster.computeSlowdown + 1 / cluster.collectiveSlowdown <= 1)
    machine->computationSlowdown = machine->movementSlowdown = 2;
  machine->from = "planned: cluster '" + cluster.name + "'";
  machine->machine = cluster.machine;
  return machine;
}

bool ClusterMachine::priceAxes(std::string &error) {
  for (const Axis &axis : program.mesh) {
    axes.emplace_back();
    axes.back().name = axis.name;
    axes.back().size = axis.size;
  }
  formulas = axes;
  cost::Cluster unmeasured = cluster;
  unmeasured.collectives.clear();
  return priceMesh(cluster, axes, error) &&
         priceMesh(unmeasured, formulas, error);
}

/// Node by node.
void ClusterMachine::placeRanks() {
  unsigned node = 0;
  for (const cost::NodeGroup &group : cluster.nodes)
    for (int64_t i = 0; i < group.count; ++i, ++node)
      for (auto [kind, count] : group.devices) {
        kinds.insert(kinds.end(), count, kind);
        nodes.insert(nodes.end(), count, node);
      }
}

/// A link that the devices of a node share is a bus: it has no direction.
void ClusterMachine::addLinks() {
  links = cluster.getLinks();
  auto add = [&](auto getLink, bool isNetwork, std::vector<Pair> &pairs) {
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      const cost::Link *link = getLink(nodes[rank]);
      bool isShared = link && !link->isPerDevice;
      if (isShared && rank > 0 && nodes[rank] == nodes[rank - 1]) {
        pairs.push_back(pairs.back());
        continue;
      }
      uint32_t out = numLinks++;
      pairs.push_back({out, isNetwork || !isShared ? numLinks++ : out});
    }
  };
  add([&](unsigned node) { return links[node].node; }, false, inside);
  add([&](unsigned node) { return links[node].network; }, true, network);
}

void ClusterMachine::addHostLinks() {
  int64_t sharers = cluster.host->sharers, number = 0;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    number = rank > 0 && nodes[rank] == nodes[rank - 1] ? number + 1 : 0;
    if (sharers ? number % sharers == 0 : number == 0) {
      host.push_back({numLinks, numLinks + 1});
      numLinks += 2;
    } else {
      host.push_back(host.back());
    }
  }
}

std::vector<uint32_t> ClusterMachine::linksOf(int64_t rank) const {
  std::vector<uint32_t> list;
  for (const auto *pairs : {&inside, &network, &host})
    if (!pairs->empty())
      list.insert(list.end(), {(*pairs)[rank].out, (*pairs)[rank].in});
  return list;
}

/// Each device takes its own time.
void ClusterMachine::priceCommands() {
  for (const RankProgram &rankProgram : program.rankPrograms)
    listings.push_back(rankProgram.listing());
  for (const cost::DeviceKind &kind : cluster.kinds) {
    cost::Cluster own = cluster;
    own.kinds = {kind};
    auto &ofKind = seconds.emplace_back();
    for (size_t i = 0; i < listings.size(); ++i) {
      ofKind.emplace_back();
      for (const Command *command : listings[i])
        ofKind.back().push_back(
            isComputation(*command) ? priceComputation(own, *command) : 0);
    }
  }
}

void ClusterMachine::take(const CommandTimes &times) {
  for (auto &ofKind : seconds)
    for (size_t i = 0; i < listings.size(); ++i)
      for (size_t place = 0; place < listings[i].size(); ++place)
        if (isComputation(*listings[i][place]))
          ofKind[i][place] = times.seconds[i].at(listings[i][place]->id);
  from = times.from + "; " + from;
}

const Command &ClusterMachine::at(const RankCommand &command) const {
  return *listings[program.rankToProgram[command.rank]][command.place];
}

double ClusterMachine::secondsOf(const RankCommand &command) const {
  return seconds[kinds[command.rank]][program.rankToProgram[command.rank]]
                [command.place];
}

//===----------------------------------------------------------------------===//
// Movements
//===----------------------------------------------------------------------===//

double ClusterMachine::getScale(uint32_t axis, Change change) const {
  unsigned number = static_cast<unsigned>(change);
  double formula = formulas[axis].rates[number].secondsPerByte;
  return formula > 0 ? axes[axis].rates[number].secondsPerByte / formula : 1;
}

/// The table of docs/clusters.md. `members` are all of a line along the axis.
void ClusterMachine::addUses(const std::vector<int64_t> &members,
                             const AxisPart &part,
                             std::vector<LinkUse> &uses) const {
  std::map<unsigned, std::vector<int64_t>> byNode;
  for (int64_t member : members)
    byNode[nodes[member]].push_back(member);
  double n = static_cast<double>(members.size());
  double scale = getScale(part.axis, part.change);
  bool isPairs = part.change == Change::AllToAll;
  double ring = (part.change == Change::AllReduce ? 2 : 1) * (n - 1) / n;
  auto add = [&](Pair pair, double bytes, double bandwidth) {
    uses.push_back({pair.out, bytes * scale / bandwidth});
    if (pair.in != pair.out)
      uses.push_back({pair.in, bytes * scale / bandwidth});
  };
  for (const auto &[node, own] : byNode) {
    double m = static_cast<double>(own.size());
    double near = part.bytes * (isPairs ? (m - 1) / (n * n) : ring);
    double far = part.bytes * (isPairs ? (n - m) / (n * n) : ring / m);
    for (int64_t member : own) {
      if (m > 1)
        add(inside[member], near, links[node].node->bandwidth);
      if (m < n)
        add(network[member], far, links[node].network->bandwidth);
    }
  }
}

Movement ClusterMachine::moveGroup(const std::vector<int64_t> &members,
                                   const Collective &op) const {
  Movement movement;
  for (const AxisPart &part : splitCollective(program.mesh, op)) {
    unsigned number = static_cast<unsigned>(part.change);
    movement.latency += axes[part.axis].rates[number].latency;
    // The lines of the group along the axis work at the same time.
    std::map<int64_t, std::vector<int64_t>> lines;
    for (int64_t member : members)
      lines[program.group({part.axis}, member).front()].push_back(member);
    auto &uses = movement.phases.emplace_back();
    for (const auto &[first, line] : lines)
      addUses(line, part, uses);
  }
  return movement;
}

Movement ClusterMachine::moveBetween(int64_t from, int64_t to,
                                     const Transfer &op) const {
  bool isNear = nodes[from] == nodes[to];
  const auto &pairs = isNear ? inside : network;
  const cost::NodeLinks &near = links[nodes[from]], &far = links[nodes[to]];
  auto bytes =
      static_cast<double>(numElements(op.shape) * elementBytes(op.type)) *
      getScale(op.axis, Change::AllGather);
  auto getSeconds = [&](const cost::NodeLinks &ends) {
    return bytes / (isNear ? ends.node : ends.network)->bandwidth;
  };
  Movement movement{priceTransfer(axes[op.axis]).latency,
                    {{{pairs[from].out, getSeconds(near)}}}};
  if (pairs[to].in != pairs[from].out)
    movement.phases.front().push_back({pairs[to].in, getSeconds(far)});
  return movement;
}

Movement ClusterMachine::moveHost(int64_t rank, const HostCopy &copy) const {
  const cost::HostLink &link = *cluster.host;
  auto [out, in] = host[rank];
  double bandwidth = copy.isToHost ? link.toHost : link.fromHost;
  return {link.latency, {{{copy.isToHost ? out : in, copy.bytes / bandwidth}}}};
}

/// A combined verdict is one word, and takes no time.
Movement
ClusterMachine::movementOf(const std::vector<int64_t> &members,
                           const std::vector<RankCommand> &commands) const {
  const Operation &operation = at(commands.front()).operation;
  if (const auto *op = std::get_if<Collective>(&operation))
    return moveGroup(members, *op);
  if (const auto *op = std::get_if<Transfer>(&operation))
    return moveBetween(members[0], members[1], *op);
  const RankProgram &own =
      program.rankPrograms[program.rankToProgram[members.front()]];
  if (auto copy = getHostCopy(program, own, at(commands.front())))
    return moveHost(members.front(), *copy);
  return {0, {{{kOwnLink, secondsOf(commands.front())}}}};
}

} // namespace tandem
