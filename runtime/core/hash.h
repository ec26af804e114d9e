//===- hash.h - the content hash of a Program -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_HASH_H
#define TANDEM_RT_CORE_HASH_H

#include <cstdint>
#include <span>
#include <string>

namespace tandem::rt {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128 &) const = default;
};

/// Tells damaged files and different Programs apart; no protection against an
/// adversary. Part of the Program format.
Hash128 contentHash(std::span<const uint8_t> bytes);

/// 32 hexadecimal digits.
std::string hashText(const Hash128 &hash);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_HASH_H
