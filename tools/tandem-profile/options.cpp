//===- options.cpp - the command line of tandem-profile -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"
#include "../common/arguments.h"

namespace tandem::profile {

using rt::Expected;
using rt::Status;

const char *usage() {
  return R"(usage: tandem-profile [-o CLUSTER.yaml] [options]
       tandem-profile --show CLUSTER.yaml [--mesh data=8,model=8] [--set KEY=VALUE]

Measures what Tandem's runtime does on this machine, with all ranks at work, and
writes a cluster file: rates of matrix products, memory bandwidth, overhead,
collectives, and how computation and collectives slow each other down.

  -o FILE          where to write (standard output)
  --name NAME      the cluster's name (local)
  --ranks N        ranks that share the machine, 2 to 64 (4)
  --threads N      cores per rank (1)
  --quick          fewer sizes and shorter runs: a few seconds
  --show FILE      measure nothing; print what a cluster file makes computation
                   and collectives cost
  --mesh AXES      --show: the mesh to price (one axis over all devices)
  --set KEY=VALUE  --show: replaces a value of the file, such as
                   'link.network.bandwidth=25 Gbit/s'; may be given again
  --help           this text
)";
}

static Status parseOne(Arguments &arguments, Options &options) {
  std::string_view name = arguments.getName();
  if (name == "-o")
    return arguments.takeValue(options.output);
  if (name == "--name")
    return arguments.takeValue(options.name);
  if (name == "--show")
    return arguments.takeValue(options.show);
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

static Status check(const Options &options) {
  if (options.show.empty() &&
      (!options.mesh.empty() || !options.values.empty()))
    return Status::error("--mesh and --set stand with --show only, see --help");
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
