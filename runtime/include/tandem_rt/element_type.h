//===- element_type.h - types of tensor elements ----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_ELEMENT_TYPE_H
#define TANDEM_RT_ELEMENT_TYPE_H

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace tandem::rt {

/// The numbers are part of the Program format. I1 takes one byte, 0 or 1.
enum class ElementType : uint8_t {
  F64 = 0,
  F32 = 1,
  BF16 = 2,
  F16 = 3,
  I64 = 4,
  I32 = 5,
  I8 = 6,
  I1 = 7,
};
inline constexpr unsigned kNumElementTypes = 8;

/// Bytes of one element.
int64_t elementBytes(ElementType type);
/// "f32", "bf16", "i1", ...: the names of MLIR.
std::string_view elementName(ElementType type);
std::optional<ElementType> parseElementType(std::string_view name);
bool isFloat(ElementType type);

/// bf16 is the upper half of an f32; rounding is to nearest even.
inline float bf16ToFloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

inline uint16_t floatToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t((bits >> 16) | 0x40); // a NaN stays a NaN
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

} // namespace tandem::rt

#endif // TANDEM_RT_ELEMENT_TYPE_H
