//===- cpu_features.cpp - features of this CPU ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "tandem_rt/machine.h"
#include "tandem_rt/program.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>

namespace tandem::rt {

namespace {
/// Linux and LLVM differ in dots and underscores (sse4_1, sse4.1; avx512_bf16,
/// avx512bf16), and in the names of this table.
std::string plainName(std::string name) {
  std::erase_if(name, [](char c) { return c == '_' || c == '.' || c == '-'; });
  return name;
}

const std::map<std::string, std::string> &linuxNames() {
  static const std::map<std::string, std::string> names = {
      {"bmi", "bmi1"}, {"lzcnt", "abm"}, {"sse3", "pni"}};
  return names;
}

/// What Linux says of the first CPU; empty: nothing.
std::string readEntry(std::string_view name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name))
      return line.substr(std::min(line.find(':') + 2, line.size()));
  return "";
}

std::set<std::string> readHostFlags() {
  std::set<std::string> flags;
  std::istringstream words(readEntry("flags"));
  for (std::string word; words >> word;)
    flags.insert(plainName(word));
  return flags;
}
} // namespace

std::vector<std::string>
missingCpuFeatures(const std::vector<std::string> &required) {
  static const std::set<std::string> flags = readHostFlags();
  std::vector<std::string> missing;
  for (const std::string &feature : required) {
    std::string name = plainName(feature);
    auto alias = linuxNames().find(name);
    if (!flags.contains(name) &&
        (alias == linuxNames().end() || !flags.contains(alias->second)))
      missing.push_back(feature);
  }
  return missing;
}

std::string cpuName() {
  std::string name = readEntry("model name");
  return name.empty() ? "unknown CPU" : name;
}

std::string machineName() {
  return concat(cpuName(), ", ", sysconf(_SC_NPROCESSORS_CONF), " processors");
}

} // namespace tandem::rt
