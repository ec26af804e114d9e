//===- NewTextFile.cpp - atomic files -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/TextFile.h"
#include <algorithm>
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

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

static bool isValues(std::string_view begin) {
  // A result without a role is `result/N`.
  for (std::string_view role :
       {"parameter", "buffer", "state", "seed", "loss", "output", "result"})
    if (begin.find("\"" + std::string(role) + "/") != begin.npos)
      return begin.find("{\"") == 8;
  return begin.find("{}") == 8;
}

/// `#alias = `, and not the heading of a text or a comment.
static bool isAlias(std::string_view begin) {
  if (!begin.starts_with("#") && !begin.starts_with("!"))
    return false;
  size_t end = begin.find(' ');
  return end > 1 && end != begin.npos && begin.substr(end).starts_with(" = ");
}

static bool isModule(std::string_view begin) {
  for (std::string_view mark : {"ML\xefR", "module {", "module @",
                                "module attributes", "\"builtin.module\"("})
    if (begin.starts_with(mark))
      return true;
  return isAlias(begin);
}

const FileKind tandem::kProblemFile{
    "a search problem", [](std::string_view begin) {
      return begin.starts_with("tandem-problem ");
    }};
const FileKind tandem::kPlanFile{"a plan", [](std::string_view begin) {
                                   return begin.starts_with("tandem-plan ");
                                 }};
const FileKind tandem::kExplanationFile{
    "an explanation", [](std::string_view begin) {
      return begin.starts_with("{\n  \"mesh\": ");
    }};
const FileKind tandem::kProgramFile{"a Program", [](std::string_view begin) {
                                      return begin.size() >= 8 &&
                                             begin.substr(4, 4) == "TDMP";
                                    }};
const FileKind tandem::kModuleFile{"a module of MLIR", isModule};
const FileKind tandem::kValuesFile{"the values of a step", isValues};

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

static bool isOfKind(const std::string &path, const FileKind &kind) {
  constexpr uintmax_t kBegin = uintmax_t(1) << 24;
  std::ifstream file(path, std::ios::binary);
  std::error_code none;
  uintmax_t size = std::filesystem::file_size(path, none);
  std::string begin(none ? 0 : std::min(size, kBegin), '\0');
  file.read(begin.data(), std::streamsize(begin.size()));
  begin.resize(size_t(file.gcount()));
  return begin.empty() || kind.isOne(begin);
}

/// Where a new file can lie, or none is asked for. Else sets errno.
static bool hasFolder(const std::string &path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() || access(folder.c_str(), W_OK | X_OK) == 0;
}

static bool isOneOf(const std::string &path,
                    const std::vector<std::string> &inputs) {
  std::error_code none;
  return std::any_of(inputs.begin(), inputs.end(), [&](auto &input) {
    return std::filesystem::equivalent(path, input, none);
  });
}

bool tandem::mayReplace(const std::string &path, const FileKind &kind,
                        std::string &error,
                        const std::vector<std::string> &inputs) {
  file_type type = path.empty() ? file_type::not_found : getType(path);
  if (type == file_type::not_found)
    return hasFolder(path) || fail(error);
  if (type == file_type::fifo || type == file_type::character)
    return true;
  if (type != file_type::regular) {
    error = "expected a regular file";
    return false;
  }
  // A renaming asks only whether the folder can be written.
  if (access(path.c_str(), R_OK | W_OK) != 0)
    return fail(error);
  if (isOneOf(path, inputs)) {
    error = "it is the input, expected another file";
    return false;
  }
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
