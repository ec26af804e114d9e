//===- Parts.cpp - the launches of a kernel as text -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include <sstream>

using namespace tandem;

static void print(std::ostream &os, const std::vector<unsigned> &numbers) {
  os << ' ' << numbers.size();
  for (unsigned number : numbers)
    os << ' ' << number;
}

std::string tandem::printParts(const KernelParts &parts) {
  std::ostringstream os;
  os << parts.scratchBytes << ' ' << parts.parts.size();
  for (const KernelPart &part : parts.parts) {
    os << ' ' << part.symbol;
    for (const auto &extents : {part.geometry.grid, part.geometry.block})
      for (uint32_t extent : extents)
        os << ' ' << extent;
    os << ' ' << part.geometry.sharedBytes;
    print(os, part.reads);
    print(os, part.writes);
  }
  return os.str();
}

static bool parse(std::istream &is, std::vector<unsigned> &numbers) {
  size_t count = 0;
  is >> count;
  for (unsigned number = 0; count > 0 && is >> number; --count)
    numbers.push_back(number);
  return count == 0 && is;
}

bool tandem::parseParts(llvm::StringRef text, KernelParts &parts) {
  std::istringstream is(text.str());
  size_t count = 0;
  is >> parts.scratchBytes >> count;
  for (; count > 0 && is; --count) {
    KernelPart part;
    is >> part.symbol;
    for (auto *extents : {&part.geometry.grid, &part.geometry.block})
      for (uint32_t &extent : *extents)
        is >> extent;
    is >> part.geometry.sharedBytes;
    if (!parse(is, part.reads) || !parse(is, part.writes))
      return false;
    parts.parts.push_back(std::move(part));
  }
  return count == 0 && !is.fail();
}
