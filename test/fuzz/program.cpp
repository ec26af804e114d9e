//===- program.cpp - .tdm files ---------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A hash would refuse whatever is changed, so files get the one that they
// should have.
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/program.h"
#include "Fuzz.h"
#include "core/hash.h"
#include "program_generated.h"
#include <cstring>
#include <vector>

using namespace tandem;
using rt::fbs::ContentHash;

/// Writes the hash of `bytes` to where the root table says that it is.
static void setHash(std::vector<uint8_t> &bytes) {
  constexpr size_t kSmallest = 16;
  if (bytes.size() < kSmallest)
    return;
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  const auto *root = flatbuffers::GetRoot<flatbuffers::Table>(bytes.data());
  if (!verifier.VerifyOffset(0) || !root->VerifyTableStart(verifier) ||
      !root->VerifyField<ContentHash>(verifier, rt::fbs::Program::VT_HASH, 8))
    return;
  const auto *place =
      root->GetStruct<const ContentHash *>(rt::fbs::Program::VT_HASH);
  if (!place)
    return;
  auto offset = reinterpret_cast<const uint8_t *>(place) - bytes.data();
  std::memset(bytes.data() + offset, 0, sizeof(ContentHash));
  rt::Hash128 hash = rt::contentHash(bytes);
  ContentHash content(hash.low, hash.high);
  std::memcpy(bytes.data() + offset, &content, sizeof content);
}

/// A Program that is loaded prints, and what is written of it loads again.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  setHash(bytes);
  auto program = rt::loadProgram(bytes);
  if (!program.ok()) {
    fuzz::expectError(program.status().message());
    return 0;
  }
  rt::printProgram(*program);
  auto again = rt::loadProgram(rt::serializeProgram(*program));
  fuzz::expect(again.ok(), again.ok() ? "" : again.status().message());
  return 0;
}
