//===- Algorithms.cpp - the algorithms by name ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Search.h"

using namespace tandem::search;

Algorithm tandem::search::findAlgorithm(std::string_view name) {
  struct Entry {
    std::string_view name;
    Algorithm algorithm;
  };
  // Each algorithm adds its own line.
  static constexpr Entry entries[] = {
      {"exhaustive", searchExhaustive},
      {"hidup", searchHidup},
      {"ilp", searchIlp},
      {"oases", searchOases},
      {"tandem", searchTandem},
  };
  for (const Entry &entry : entries)
    if (entry.name == name)
      return entry.algorithm;
  return nullptr;
}
