//===- Mechanism.cpp - names of mechanisms --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Mechanism.h"

using namespace tandem::search;

std::optional<Mechanism> tandem::search::findMechanism(std::string_view name) {
  static constexpr std::string_view names[] = {
#define TANDEM_MECHANISM(ID, NAME) NAME,
#include "tandem/Search/Mechanisms.def"
  };
  for (size_t i = 0; i < std::size(names); ++i)
    if (names[i] == name)
      return Mechanism(i);
  return std::nullopt;
}

const char *tandem::search::listMechanisms() {
  return "names divided by commas, of"
#define TANDEM_MECHANISM(ID, NAME) " " NAME
#include "tandem/Search/Mechanisms.def"
      ;
}
