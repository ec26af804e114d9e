//===- cache_folder.h - a cache folder of a test's own ----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_CACHE_FOLDER_H
#define TANDEM_RT_CTS_CACHE_FOLDER_H

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace tandem::rt::cts {

/// Sets a variable, and what it was at the end.
class Variable {
public:
  Variable(const char *name, const std::string &value) : name(name) {
    if (const char *text = std::getenv(name))
      before = text;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before)
      setenv(name, before->c_str(), 1);
    else
      unsetenv(name);
  }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;

private:
  const char *name;
  std::optional<std::string> before;
};

/// What the process keeps of measurements goes there.
class CacheFolder {
public:
  CacheFolder() : path(make()), variable("TANDEM_CACHE_DIR", path) {}
  ~CacheFolder() { std::filesystem::remove_all(path); }

  std::filesystem::path onlyFile() const {
    std::filesystem::directory_iterator files(path / "products");
    return files->path();
  }
  bool isEmpty() const { return std::filesystem::is_empty(path); }

private:
  static std::filesystem::path make() {
    auto name = std::filesystem::temp_directory_path() / "tandem-cts-XXXXXX";
    std::string text = name.string();
    return mkdtemp(text.data());
  }

  std::filesystem::path path;
  Variable variable;
};

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_CACHE_FOLDER_H
