//===- keyed_hash.cpp - random numbers and hashes with a key --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/keyed_hash.h"

#include <cstdio>
#include <cstdlib>
#include <sodium.h>

namespace tandem::rt {

namespace {
/// Comes before all else of the library.
void prepare() {
  static const int prepared = sodium_init();
  if (prepared >= 0)
    return;
  std::fputs("tandem: error: this system has no random numbers\n", stderr);
  std::abort();
}

const unsigned char *bytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char *>(text.data());
}
} // namespace

Key keyOf(std::string_view secret) {
  prepare();
  Key key;
  crypto_generichash(key.data(), key.size(), bytesOf(secret), secret.size(),
                     nullptr, 0);
  return key;
}

Digest keyedHash(const Key &key, std::string_view text) {
  prepare();
  Digest digest;
  crypto_generichash(digest.data(), digest.size(), bytesOf(text), text.size(),
                     key.data(), key.size());
  return digest;
}

bool areEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Nonce makeNonce() {
  prepare();
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string makeSecret() {
  Nonce random = makeNonce();
  char text[2 * sizeof random + 1];
  return sodium_bin2hex(text, sizeof text, random.data(), random.size());
}

} // namespace tandem::rt
