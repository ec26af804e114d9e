//===- NewTextFile.cpp - files that are there whole or not at all ---------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/TextFile.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

using namespace tandem;
using std::filesystem::file_type;

static bool fail(std::string &error) {
  error = std::strerror(errno);
  return false;
}

static file_type getType(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type();
}

static bool isOfKind(const std::string &path, const FileKind &kind) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(kind.at + kind.mark.size(), '\0');
  file.read(begin.data(), std::streamsize(begin.size()));
  return file.gcount() == 0 ||
         (file && std::string_view(begin).substr(kind.at) == kind.mark);
}

bool tandem::mayReplace(const std::string &path, const FileKind &kind,
                        std::string &error) {
  file_type type = getType(path);
  if (type == file_type::not_found || type == file_type::fifo ||
      type == file_type::character)
    return true;
  if (type != file_type::regular) {
    error = "expected a regular file";
    return false;
  }
  // A renaming asks only whether the folder can be written.
  if (access(path.c_str(), R_OK | W_OK) != 0)
    return fail(error);
  if (isOfKind(path, kind))
    return true;
  error = "found a file that is not " + std::string(kind.name) +
          ", expected none, or one to replace";
  return false;
}

static bool writeTo(const std::string &path, std::string_view text,
                    std::string &error) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (file)
    file.write(text.data(), std::streamsize(text.size()));
  file.close();
  return file ? true : fail(error);
}

static std::string getNameBeside(const std::string &path) {
  std::random_device random;
  uint64_t number = uint64_t(random()) << 32 | random();
  return path + "." + std::to_string(number) + ".part";
}

bool tandem::writeTextFile(const std::string &path, const FileKind &kind,
                           std::string_view text, std::string &error) {
  if (!mayReplace(path, kind, error))
    return false;
  file_type type = getType(path);
  if (type != file_type::not_found && type != file_type::regular)
    return writeTo(path, text, error);
  // Of a link, what it names.
  std::error_code none;
  std::filesystem::path place = std::filesystem::canonical(path, none);
  std::string target = none ? path : place.string();
  std::string part = getNameBeside(target);
  if (writeTo(part, text, error) &&
      (std::rename(part.c_str(), target.c_str()) == 0 || fail(error)))
    return true;
  std::remove(part.c_str());
  return false;
}
