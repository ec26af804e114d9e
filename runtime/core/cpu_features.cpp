//===- cpu_features.cpp - features of this CPU ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/program.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

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

std::set<std::string> readHostFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::set<std::string> flags;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0)
      continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;)
      flags.insert(plainName(word));
    break;
  }
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

} // namespace tandem::rt
