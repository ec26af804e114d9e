//===- file.cpp - files of Programs ---------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tandem {

using rt::Bytes;
using rt::Status;

/// What the format's 32-bit offsets reach.
static constexpr uint64_t kMaxProgram = uint64_t(1) << 31;

rt::Expected<Bytes> readFile(const std::string &path) {
  std::error_code code;
  auto fail = [&](const std::string &reason) {
    return Status::error("cannot read '" + path + "': " + reason);
  };
  auto kind = std::filesystem::status(path, code).type();
  if (code)
    return fail(code.message());
  if (kind != std::filesystem::file_type::regular)
    return fail("expected a regular file");
  // Of the file that is open: another one may take its place meanwhile.
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    return fail(std::strerror(errno));
  uint64_t size = uint64_t(file.tellg());
  if (size > kMaxProgram)
    return fail("it has " + std::to_string(size) + " bytes, expected at most " +
                std::to_string(kMaxProgram));
  Bytes bytes(size);
  file.seekg(0);
  if (!file.read(reinterpret_cast<char *>(bytes.data()), std::streamsize(size)))
    return fail(std::strerror(errno));
  return bytes;
}

} // namespace tandem
