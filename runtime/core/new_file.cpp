//===- new_file.cpp - files that are there whole or not at all ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/new_file.h"
#include "core/text.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <unistd.h>

namespace tandem::rt {

std::string nameBeside(const std::string &path) {
  std::random_device random; // a process number is not one host's alone
  uint64_t number = uint64_t(random()) << 32 | random();
  return concat(path, ".", number, ".part");
}

NewFile::NewFile(std::string given) : path(std::move(given)), place(path) {
  using std::filesystem::file_type;
  // Asked once: other processes replace and remove it.
  std::error_code error;
  file_type kind = std::filesystem::status(path, error).type();
  bool isNew = kind == file_type::not_found;
  if (kind == file_type::regular) {
    // /dev/stdout may be a link to what has no name any more.
    auto target = std::filesystem::canonical(path, error);
    isNew = !error;
    place = isNew ? target.string() : path;
    // A renaming asks only whether the folder can be written.
    if (access(place.c_str(), W_OK) != 0 && errno != ENOENT)
      failure = errorOf("cannot write '", path, "': ", std::strerror(errno));
  }
  written = isNew ? nameBeside(place) : place;
  if (failure.ok())
    file.open(written, std::ios::binary | std::ios::trunc);
  (void)check(); // errno is this one's now
}

NewFile::~NewFile() {
  file.close();
  if (written != place)
    std::remove(written.c_str());
}

Status NewFile::check() {
  if (failure.ok() && !file)
    failure = errorOf("cannot write '", path, "': ", std::strerror(errno));
  return failure;
}

Status NewFile::finish() {
  if (check().ok())
    file.close();
  if (check().ok() && written != place &&
      std::rename(written.c_str(), place.c_str()) != 0)
    failure = errorOf("cannot write '", path, "': ", std::strerror(errno));
  return failure;
}

} // namespace tandem::rt
