//===- kept.cpp - cache of measurements -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/kept.h"
#include "core/hash.h"
#include "tandem_rt/new_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tandem::rt {

namespace {
std::filesystem::path folder() {
  const char *own = std::getenv("TANDEM_CACHE_DIR");
  const char *cache = std::getenv("XDG_CACHE_HOME");
  const char *home = std::getenv("HOME");
  if (own)
    return *own ? std::filesystem::path(own) / "products"
                : std::filesystem::path();
  if (cache)
    return std::filesystem::path(cache) / "tandem" / "products";
  if (home)
    return std::filesystem::path(home) / ".cache" / "tandem" / "products";
  return {};
}

std::filesystem::path pathOf(const std::string &key) {
  std::filesystem::path path = folder();
  if (path.empty())
    return path;
  std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t *>(key.data()),
                                 key.size());
  return path / (hashText(contentHash(bytes)) + ".txt");
}
} // namespace

/// The key stands in the file, as people read it, and against equal hashes.
std::optional<std::string> findKept(const std::string &key) {
  std::ifstream file(pathOf(key));
  std::string word, rest;
  if (!(file >> word) || !std::getline(file >> std::ws, rest) || rest != key)
    return std::nullopt;
  return word;
}

std::string keep(const std::string &key, const std::string &word,
                 const std::function<bool(const std::string &)> &isSound) {
  std::filesystem::path path = pathOf(key);
  std::error_code error;
  if (path.empty())
    return word;
  std::filesystem::create_directories(path.parent_path(), error);
  std::string part = nameBeside(path);
  std::ofstream(part) << word << ' ' << key << '\n';
  // Unlike a renaming, which is for folders without links and for what is
  // damaged, it replaces nothing.
  std::filesystem::create_hard_link(part, path, error);
  std::optional<std::string> kept = error ? findKept(key) : word;
  bool counts = kept && isSound(*kept);
  if (!counts)
    std::filesystem::rename(part, path, error);
  std::filesystem::remove(part, error);
  return counts ? *kept : word;
}

} // namespace tandem::rt
