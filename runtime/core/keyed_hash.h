//===- keyed_hash.h - random numbers and hashes with a key ------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// BLAKE2b, as libsodium has it; nothing of that library leaves the source.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_KEYED_HASH_H
#define TANDEM_RT_CORE_KEYED_HASH_H

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::rt {

using Key = std::array<uint8_t, 32>;
using Nonce = std::array<uint8_t, 32>;
using Digest = std::array<uint8_t, 32>;

/// The key of a secret of any length.
Key keyOf(std::string_view secret);
Digest keyedHash(const Key &key, std::string_view text);
/// Takes the same time wherever the two differ.
bool areEqual(std::string_view a, std::string_view b);

/// From the system's source of random numbers.
Nonce makeNonce();
/// A nonce as hexadecimal digits.
std::string makeSecret();

template <size_t count>
std::string_view viewOf(const std::array<uint8_t, count> &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), count};
}

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_KEYED_HASH_H
