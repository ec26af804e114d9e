//===- new_file.cpp - atomic files ----------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/new_file.h"
#include "core/text.h"

#include <algorithm>
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

/// One that another process removes meanwhile is of every kind.
static bool isOfKind(const std::string &path, const FileKind &kind) {
  constexpr size_t kBegin = size_t(1) << 24;
  std::ifstream file(path, std::ios::binary);
  std::error_code none;
  uintmax_t size = std::filesystem::file_size(path, none);
  std::string begin(none ? 0 : std::min<uintmax_t>(size, kBegin), '\0');
  file.read(begin.data(), std::streamsize(begin.size()));
  begin.resize(size_t(file.gcount()));
  return begin.empty() || kind.isOne(begin);
}

/// Asked once: other processes replace and remove it.
Status NewFile::findPlace(const FileKind &kind) {
  using std::filesystem::file_type;
  std::error_code error;
  file_type type = std::filesystem::status(path, error).type();
  bool isNew = type == file_type::not_found;
  if (type == file_type::directory)
    return errorOf("cannot write '", path, "': expected a regular file");
  if (type == file_type::regular) {
    // /dev/stdout may be a link to what has no name any more.
    auto target = std::filesystem::canonical(path, error);
    isNew = !error;
    place = isNew ? target.string() : path;
    // A renaming asks only whether the folder can be written.
    if (access(place.c_str(), R_OK | W_OK) != 0 && errno != ENOENT)
      return errorOf("cannot write '", path, "': ", std::strerror(errno));
    if (isNew && !isOfKind(place, kind))
      return errorOf("cannot write '", path, "': found a file that is not ",
                     kind.name, ", expected none, or one to replace");
  }
  written = isNew ? nameBeside(place) : place;
  return Status::success();
}

NewFile::NewFile(std::string given, const FileKind &kind)
    : path(std::move(given)), place(path) {
  failure = findPlace(kind);
  if (failure.ok())
    file.open(written, std::ios::binary | std::ios::trunc);
  (void)check(); // errno is this one's now
}

NewFile::~NewFile() {
  file.close();
  if (!written.empty() && written != place)
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

Status checkOutput(const std::string &path, const FileKind &kind,
                   const std::vector<std::string> &inputs) {
  if (path.empty())
    return Status::success();
  std::error_code none;
  for (const std::string &input : inputs)
    if (!input.empty() && std::filesystem::is_regular_file(path, none) &&
        std::filesystem::equivalent(path, input, none))
      return errorOf("cannot write '", path,
                     "': it is the input, expected another file");
  return NewFile(path, kind).check();
}

} // namespace tandem::rt
