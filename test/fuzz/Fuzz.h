//===- Fuzz.h - helpers of fuzzers ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each file beside this one is a target: it reads what it is given as a user's
// file, and ends the process where a reader says neither what it found nor what
// is wrong. `make fuzz` runs them with libFuzzer; the tests give each the files
// of its corpus once (Replay.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_FUZZ_FUZZ_H
#define TANDEM_TEST_FUZZ_FUZZ_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace tandem::fuzz {

/// Ends the process with `message` unless `holds`.
void expect(bool holds, std::string_view message);

/// What a reader says of a mistake: one line that is not empty.
void expectError(const std::string &error);

inline std::string_view asText(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// A file in memory that readers open by its path.
class MemoryFile {
public:
  explicit MemoryFile(std::string_view content);
  MemoryFile(const MemoryFile &) = delete;
  ~MemoryFile();
  const std::string &getPath() const { return path; }

private:
  int file;
  std::string path;
};

} // namespace tandem::fuzz

#endif // TANDEM_TEST_FUZZ_FUZZ_H
