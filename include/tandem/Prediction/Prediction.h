//===- Prediction.h - predicted time of a Program ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How long a finished Program takes on a cluster, before it runs, by the prices
// that plans are made with.
//
// A command costs max(FLOP / rate, bytes / bandwidth) + overhead of what it
// does: a fused kernel has the FLOPs of all its operators, and the bytes that
// it reads and writes in memory. A product that the cluster file has measured
// takes that time. A Program does not say in which type a kernel computes: f32.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PREDICTION_PREDICTION_H
#define TANDEM_PREDICTION_PREDICTION_H

#include "tandem/Cost/Cluster.h"
#include "tandem_rt/command_times.h"
#include "tandem_rt/held.h"
#include "tandem_rt/report.h"
#include "tandem_rt/simulate.h"

namespace tandem {

/// By what a command that computes is priced: an operator (empty: a fused
/// kernel), a data type, and the loops of a product (`cost::MeasuredOperator`).
struct PricedWork {
  std::string_view op, type;
  std::vector<int64_t> loops = {};
};
PricedWork workOf(const rt::Command &command);

/// The seconds of all commands of a Program, a table that tandem-run --times
/// and tandem-trace take; copies from the host and to it take what they take
/// in a simulation. `hash` is that of its bytes. An error if the cluster has
/// not as many devices as the Program has ranks.
rt::Expected<rt::CommandTimes> priceProgram(const rt::Program &program,
                                            const std::string &hash,
                                            const cost::Cluster &cluster);

/// The timeline of one step of a Program, the bytes of a .tdm file, on the
/// cluster of the file at `cluster`, or else on a laptop (`cost::getCluster`).
rt::Expected<rt::Timeline> predictProgram(std::string_view bytes,
                                          const std::string &cluster);

/// One line: the seconds of a step, where they come from, and of a pipeline the
/// bubble of each point.
rt::Expected<std::string> describeTime(const rt::Timeline &timeline);

/// What a simulation of some steps says.
struct SimulationReport {
  rt::Simulated simulated = {};
  double seconds = 0;             // of a step, the mean
  std::vector<double> steps = {}; // seconds of each
  std::vector<rt::QueueTimes> queues = {};
  struct Memory {
    int64_t rank = 0;
    int64_t room = 0; // B, of its device
    rt::MemoryUse use = {};
  };
  std::vector<Memory> memory = {}; // of the simulated ranks
  /// What a step trains on, and what that is: `tokens`, `samples`.
  int64_t items = 0;
  std::string itemName = {};
  /// Operations of the model's products in a step, by type.
  std::vector<std::pair<std::string, double>> modelFlops = {};
  /// Share of all devices' peaks that the model's products reach, each counted
  /// once. None: the Program does not say what they are.
  std::optional<double> utilization = {};
  /// USD of a step; none unless each kind of device has a price.
  std::optional<double> cost = {};
  /// What is left out, and why.
  std::vector<std::string> remarks = {};
};

/// Simulates steps of a Program, the bytes of a .tdm file, on the cluster of
/// the file at `cluster`, or else on a laptop. With `times` commands that
/// compute take what the file says; an error if it is not the Program's.
rt::Expected<SimulationReport>
simulateProgram(std::string_view bytes, const std::string &cluster,
                const rt::SimulationOptions &options,
                const std::string &times = "");

/// Simulates a step of a Program of which this process has just made the bytes
/// (`rt::loadMadeProgram`).
rt::Expected<SimulationReport> simulateMade(std::string_view bytes,
                                            const std::string &cluster);

/// For people: a table of the queues of each rank that was simulated.
std::string printSimulation(const SimulationReport &report);

/// The same for programs: docs/clusters.md lists the fields.
std::string printSimulationJson(const SimulationReport &report);

} // namespace tandem

#endif // TANDEM_PREDICTION_PREDICTION_H
