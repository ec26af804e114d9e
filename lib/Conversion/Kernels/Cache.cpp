//===- Cache.cpp - compiled kernels on disk -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cache.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace tandem;

constexpr size_t kDigestBytes = 32;

static std::string getDigest(llvm::StringRef bytes) {
  auto digest = llvm::SHA256::hash(llvm::arrayRefFromStringRef(bytes));
  return std::string(digest.begin(), digest.end());
}

std::string tandem::hashText(llvm::ArrayRef<llvm::StringRef> parts) {
  llvm::SHA256 hash;
  for (llvm::StringRef part : parts) {
    hash.update(part);
    hash.update(llvm::StringRef("\0", 1));
  }
  return llvm::toHex(hash.final(), /*LowerCase=*/true).substr(0, 32);
}

static std::string getDefaultDirectory() {
  if (const char *directory = std::getenv("TANDEM_CACHE_DIR"))
    return directory;
  llvm::SmallString<128> path;
  const char *home = std::getenv("HOME");
  if (const char *cache = std::getenv("XDG_CACHE_HOME"))
    path = cache;
  else if (home)
    llvm::sys::path::append(path, home, ".cache");
  else
    return "";
  llvm::sys::path::append(path, "tandem");
  return std::string(path);
}

KernelCache::KernelCache(std::string given)
    : directory(given.empty() ? getDefaultDirectory() : std::move(given)) {}

std::string KernelCache::getPath(llvm::StringRef hash) const {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, hash + ".o");
  return std::string(path);
}

/// A linker does not mind bytes behind an object: there stands its digest.
std::optional<std::string> KernelCache::lookup(llvm::StringRef hash) const {
  if (directory.empty())
    return std::nullopt;
  std::string path = getPath(hash);
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file || (*file)->getBufferSize() <= kDigestBytes)
    return std::nullopt;
  llvm::StringRef bytes = (*file)->getBuffer();
  if (bytes.take_back(kDigestBytes) != getDigest(bytes.drop_back(kDigestBytes)))
    return std::nullopt;
  return path;
}

static std::optional<std::string> writeFile(llvm::StringRef model,
                                            llvm::StringRef object) {
  int descriptor;
  llvm::SmallString<128> path;
  if (llvm::sys::fs::createUniqueFile(model, descriptor, path))
    return std::nullopt;
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << object << getDigest(object);
  stream.close();
  if (!stream.has_error())
    return std::string(path);
  stream.clear_error();
  llvm::sys::fs::remove(path);
  return std::nullopt;
}

std::optional<std::string> KernelCache::store(llvm::StringRef hash,
                                              llvm::StringRef object) const {
  if (directory.empty() || llvm::sys::fs::create_directories(directory))
    return std::nullopt;
  std::string path = getPath(hash);
  std::optional<std::string> written =
      writeFile(path + ".%%%%%%%%.part", object);
  if (!written)
    return std::nullopt;
  if (!llvm::sys::fs::rename(*written, path))
    return path;
  llvm::sys::fs::remove(*written);
  return std::nullopt;
}

std::optional<std::string> tandem::readObject(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file || (*file)->getBufferSize() < kDigestBytes)
    return std::nullopt;
  return (*file)->getBuffer().drop_back(kDigestBytes).str();
}

std::optional<std::string>
tandem::writeTemporaryObject(llvm::StringRef object) {
  llvm::SmallString<128> model;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, model);
  llvm::sys::path::append(model, "tandem-%%%%%%%%.o");
  return writeFile(model, object);
}
