//===- element_type.cpp - types of tensor elements ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/element_type.h"

#include <array>

namespace tandem::rt {

namespace {
struct ElementTypeInfo {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<ElementTypeInfo, kNumElementTypes> kInfo = {{
    {"f64", 8},
    {"f32", 4},
    {"bf16", 2},
    {"f16", 2},
    {"i64", 8},
    {"i32", 4},
    {"i8", 1},
    {"i1", 1},
}};
} // namespace

int64_t elementBytes(ElementType type) { return kInfo[size_t(type)].bytes; }

std::string_view elementName(ElementType type) {
  return kInfo[size_t(type)].name;
}

std::optional<ElementType> parseElementType(std::string_view name) {
  for (size_t i = 0; i < kInfo.size(); ++i)
    if (kInfo[i].name == name)
      return ElementType(i);
  return std::nullopt;
}

bool isFloat(ElementType type) { return type <= ElementType::F16; }

} // namespace tandem::rt
