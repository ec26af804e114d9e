//===- options.cpp - the command line of tandem-profile -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"
#include <charconv>
#include <string_view>

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

namespace {
/// Walks the arguments; a value may follow its option or stand behind '='.
class Parser {
public:
  Parser(int argc, const char *const *argv) : argc(argc), argv(argv) {}

  Expected<Options> parse();

private:
  Status parseOne(std::string_view argument);
  Status takeValue(std::string_view name, std::string &value);
  Status takeNumber(std::string_view name, int64_t low, int64_t high,
                    int64_t &value);
  Status check() const;

  int argc;
  const char *const *argv;
  int at = 1;
  std::optional<std::string_view> given;
  Options options;
};
} // namespace

Status Parser::takeValue(std::string_view name, std::string &value) {
  if (!given && at < argc)
    given = argv[at++];
  if (!given || given->empty())
    return Status::error(std::string(name) + " needs a value");
  value = *given;
  return Status::success();
}

Status Parser::takeNumber(std::string_view name, int64_t low, int64_t high,
                          int64_t &value) {
  std::string text;
  if (Status status = takeValue(name, text); !status.ok())
    return status;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() &&
      value >= low && value <= high)
    return Status::success();
  return Status::error(std::string(name) + " is '" + text +
                       "', expected a number from " + std::to_string(low) +
                       " to " + std::to_string(high));
}

Status Parser::parseOne(std::string_view argument) {
  size_t equals = argument.substr(0, 2) == "--" ? argument.find('=')
                                                : std::string_view::npos;
  std::string_view name = argument.substr(0, equals);
  given.reset();
  if (equals != std::string_view::npos)
    given = argument.substr(equals + 1);
  if (name == "-o")
    return takeValue(name, options.output);
  if (name == "--name")
    return takeValue(name, options.name);
  if (name == "--show")
    return takeValue(name, options.show);
  if (name == "--mesh")
    return takeValue(name, options.mesh);
  if (name == "--set")
    return takeValue(name, options.values.emplace_back());
  if (name == "--ranks")
    return takeNumber(name, 2, 64, options.ranks);
  if (name == "--threads") {
    int64_t threads = 1;
    Status status = takeNumber(name, 1, 4096, threads);
    options.threads = static_cast<int>(threads);
    return status;
  }
  if (name == "--quick" && !given)
    return options.quick = true, Status::success();
  if ((name == "--help" || name == "-h") && !given)
    return options.help = true, Status::success();
  return Status::error("unknown option '" + std::string(argument) +
                       "', see --help");
}

Status Parser::check() const {
  if (options.show.empty() &&
      (!options.mesh.empty() || !options.values.empty()))
    return Status::error("--mesh and --set stand with --show only, see --help");
  return Status::success();
}

Expected<Options> Parser::parse() {
  while (at < argc)
    if (Status status = parseOne(argv[at++]); !status.ok())
      return status;
  if (Status status = check(); !status.ok() && !options.help)
    return status;
  return options;
}

Expected<Options> parseOptions(int argc, const char *const *argv) {
  return Parser(argc, argv).parse();
}

} // namespace tandem::profile
