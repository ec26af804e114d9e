//===- options.cpp - the command line of tandem-profile -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"
#include "../common/arguments.h"
#include "tandem/Device/Gpu.h"
#include "tandem_rt/simulate.h"

namespace tandem::profile {

using rt::Expected;
using rt::Status;

const char *usage() {
  return R"(usage: tandem-profile [-o CLUSTER.yaml] [options]
       tandem-profile --show CLUSTER.yaml [--mesh data=8,model=8] [--set KEY=VALUE]
       tandem-profile --price PROGRAM.tdm --cluster CLUSTER.yaml -o TIMES.json
       tandem-profile --calibrate PROGRAM.tdm --times TIMES.json
                      --cluster CLUSTER.yaml -o CALIBRATED.yaml

Measures this machine with all ranks at work and writes a cluster file: rates of
matrix products, memory bandwidth, overhead, collectives, and the slow-down of
computation and collectives beside each other. Started on several hosts by
torchrun, srun or mpirun, it measures the links between them. Rank 0's process
writes the file.

  -o FILE          output file (standard output)
  --name NAME      name of the cluster (local)
  --device NAME    device to measure: cpu (the default) or cuda. With cuda, each
                   process has one GPU; its ranks share it (TANDEM_SHARE_GPU=1)
  --ranks N        ranks of all processes, 2 to 64 (one per process; alone 4)
  --threads N      cores per rank (1)
  --computation FILE  measure links only; take devices and slow-downs from this
                   cluster file
  --quick          measure fewer sizes, for a few seconds
  --show FILE      measure nothing; print the prices of a cluster file for
                   computation and collectives; with -o write the file, with the
                   values of --set in place of its own
  --mesh AXES      --show: the mesh to price (one axis over all devices)
  --price FILE     measure nothing; write the seconds of a Program's commands,
                   priced by --cluster, as input for tandem-run --times
  --calibrate FILE  measure nothing; write the cluster file of --cluster with
                   rates, and bandwidth of memory, by what the commands of a
                   Program took on this machine
  --times FILE     --calibrate: these seconds, by tandem-run --save-times
  --cluster FILE   --price, --calibrate: the cluster file
  --set KEY=VALUE  --show, --price: replace a value of the file, such as
                   'link.network.bandwidth=25 Gbit/s'; may be repeated
  --help           print this text
)";
}

static Status parseOne(Arguments &arguments, Options &options) {
  std::string_view name = arguments.getName();
  if (name == "-o")
    return arguments.takeValue(options.output);
  if (name == "--name")
    return arguments.takeValue(options.name);
  if (name == "--device")
    return arguments.takeValue(options.device);
  if (name == "--show")
    return arguments.takeValue(options.show);
  if (name == "--computation")
    return arguments.takeValue(options.computation);
  if (name == "--price")
    return arguments.takeValue(options.price);
  if (name == "--calibrate")
    return arguments.takeValue(options.calibrate);
  if (name == "--times")
    return arguments.takeValue(options.times);
  if (name == "--cluster")
    return arguments.takeValue(options.cluster);
  if (name == "--mesh")
    return arguments.takeValue(options.mesh);
  if (name == "--set")
    return arguments.takeValue(options.values.emplace_back());
  if (name == "--ranks")
    return arguments.takeNumber(2, 64, options.ranks);
  if (name == "--threads") {
    int64_t threads = 1;
    Status status = arguments.takeNumber(1, 4096, threads);
    options.threads = static_cast<int>(threads);
    return status;
  }
  if (arguments.isFlag("--quick"))
    return options.quick = true, Status::success();
  if (arguments.isFlag("--help") || arguments.isFlag("-h"))
    return options.help = true, Status::success();
  return arguments.failUnknown();
}

/// The runtime has the device, and it can be measured.
static Status checkDevice(const std::string &device) {
  std::string expected;
  for (std::string_view name : getRuntimeDevices()) {
    if (name == rt::kSimulatedDevice)
      continue;
    if (name == device)
      return Status::success();
    expected.append(expected.empty() ? "" : " or ").append(name);
  }
  return Status::error("unknown device '" + device + "', expected " + expected);
}

static Status check(const Options &options) {
  bool prices = !options.price.empty(), shows = !options.show.empty();
  bool calibrates = !options.calibrate.empty();
  if (Status status = checkDevice(options.device); !status.ok())
    return status;
  if (prices + shows + calibrates > 1)
    return Status::error(
        "two of --price, --show and --calibrate, expected one of them");
  if (shows && !options.output.empty() && !options.mesh.empty())
    return Status::error("--mesh beside --show with -o, which writes a cluster "
                         "file; expected one of the two");
  if (!shows && !options.mesh.empty())
    return Status::error("--mesh stands with --show only, see --help");
  if (!shows && !prices && !options.values.empty())
    return Status::error(
        "--set stands with --show and --price only, see --help");
  if (prices && (options.cluster.empty() || options.output.empty()))
    return Status::error("--price needs --cluster and -o, see --help");
  if (calibrates && (options.cluster.empty() || options.times.empty()))
    return Status::error("--calibrate needs --times and --cluster, see --help");
  if (!calibrates && !options.times.empty())
    return Status::error("--times stands with --calibrate only, see --help");
  if (!prices && !calibrates && !options.cluster.empty())
    return Status::error(
        "--cluster stands with --price and --calibrate only, see --help");
  return Status::success();
}

Expected<Options> parseOptions(int argc, const char *const *argv) {
  Options options;
  Arguments arguments(argc, argv);
  while (arguments.next())
    if (Status status = parseOne(arguments, options); !status.ok())
      return status;
  if (Status status = check(options); !status.ok() && !options.help)
    return status;
  return options;
}

} // namespace tandem::profile
