//===- Cache.cpp - cache of compiled kernels ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Kernels/Cache.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace tandem;

constexpr size_t kDigestBytes = 32;
/// Bytes that a Program has at most; a file that is larger is none of ours.
constexpr off_t kMostBytes = off_t(1) << 31;

/// Of the content of a file, and of the name under which it is looked for.
static std::string getDigest(llvm::StringRef name, llvm::StringRef bytes) {
  llvm::SHA256 hash;
  hash.update(name);
  hash.update(bytes);
  auto digest = hash.final();
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

std::string tandem::getDefaultCacheDirectory() {
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

std::optional<uint64_t> tandem::getCacheLimit(std::string &error) {
  constexpr uint64_t kDefault = 4000, kMegabyte = 1000000;
  const char *text = std::getenv("TANDEM_CACHE_MB");
  if (!text || !*text)
    return kDefault * kMegabyte;
  uint64_t megabytes;
  if (!llvm::StringRef(text).getAsInteger(10, megabytes) &&
      megabytes <= UINT64_MAX / kMegabyte)
    return megabytes * kMegabyte;
  error = "environment variable TANDEM_CACHE_MB is '" + std::string(text) +
          "', expected a whole number of megabytes";
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Whose files these are
//===----------------------------------------------------------------------===//

static std::string getFolder(llvm::StringRef directory) {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, kCacheFolder);
  return std::string(path);
}

static std::string printMode(const struct stat &info) {
  llvm::SmallString<8> text;
  llvm::raw_svector_ostream(text) << llvm::format("%04o", info.st_mode & 07777);
  return std::string(text);
}

/// What is wrong with the owner or mode of a folder; empty if it is safe.
static std::string findFault(const struct stat &info, bool isBase) {
  bool isSticky = isBase && info.st_mode & S_ISVTX;
  mode_t others = isBase ? S_IWOTH : S_IWGRP | S_IWOTH;
  if (info.st_uid != geteuid() && !(isBase && info.st_uid == 0))
    return "belongs to user " + std::to_string(info.st_uid) +
           ", expected user " + std::to_string(geteuid());
  if (info.st_mode & others && !isSticky)
    return "can be written by other users (mode " + printMode(info) +
           "), expected only by its owner";
  return "";
}

bool tandem::checkCacheDirectory(const std::string &directory,
                                 std::string &error) {
  std::string folder = getFolder(directory), fault;
  if (directory.empty())
    return true;
  struct stat info{};
  const std::string *at = &directory;
  if (stat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    fault = findFault(info, /*isBase=*/true);
  if (fault.empty() && lstat(folder.c_str(), &info) == 0) {
    at = &folder;
    fault = S_ISDIR(info.st_mode) ? findFault(info, /*isBase=*/false)
                                  : "is no folder";
  }
  if (fault.empty())
    return true;
  error = "cache folder '" + *at + "' " + fault +
          ": what lies there is run as code; name a folder of your own in "
          "TANDEM_CACHE_DIR";
  return false;
}

/// Without one where it is not safe, or cannot be made.
static std::string makeFolder(const std::string &directory) {
  namespace fs = llvm::sys::fs;
  std::string folder = getFolder(directory), unsafe;
  if (directory.empty() || !checkCacheDirectory(directory, unsafe) ||
      fs::create_directories(folder, /*IgnoreExisting=*/true,
                             fs::perms::owner_all))
    return "";
  // By whoever made it meanwhile.
  return checkCacheDirectory(directory, unsafe) ? folder : "";
}

/// A hash as hashText() writes it, and what belongs to this cache around it; or
/// what an interrupted writer has left of such a file.
static bool isOwnName(llvm::StringRef name) {
  name.consume_front("tandem_");
  size_t digits = name.find_if_not(llvm::isHexDigit);
  if (digits != 32)
    return false;
  name = name.drop_front(digits);
  name.consume_front("-parts");
  for (llvm::StringRef suffix : {".o", ".program", ".capture"}) {
    llvm::StringRef rest = name;
    if (rest.consume_front(suffix) &&
        (rest.empty() || (rest.size() == 14 && rest.ends_with(".part"))))
      return true;
  }
  return false;
}

FileCache::FileCache(std::string directory, std::string suffix)
    : folder(makeFolder(directory)), suffix(std::move(suffix)) {}

std::string FileCache::getPath(llvm::StringRef hash) const {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, hash + suffix);
  return std::string(path);
}

/// The bytes without their digest, or nothing if they are others, or those of
/// another name.
static std::optional<llvm::StringRef> checkDigest(llvm::StringRef name,
                                                  llvm::StringRef bytes) {
  if (bytes.size() <= kDigestBytes ||
      bytes.take_back(kDigestBytes) !=
          getDigest(name, bytes.drop_back(kDigestBytes)))
    return std::nullopt;
  return bytes.drop_back(kDigestBytes);
}

/// Of this user, whom nobody else writes to.
static std::unique_ptr<llvm::MemoryBuffer> readFile(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return nullptr;
  struct stat info{};
  std::unique_ptr<llvm::MemoryBuffer> bytes;
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
      info.st_size <= kMostBytes && findFault(info, /*isBase=*/false).empty()) {
    auto read = llvm::MemoryBuffer::getOpenFile(
        file, path, info.st_size, /*RequiresNullTerminator=*/false);
    if (read)
      bytes = std::move(*read);
  }
  close(file);
  return bytes;
}

static void noteUse(const std::string &path) {
  std::error_code ignored;
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now(), ignored);
}

/// A linker does not mind bytes behind an object: there stands its digest.
std::optional<std::string> FileCache::lookup(llvm::StringRef hash) const {
  if (folder.empty())
    return std::nullopt;
  std::string path = getPath(hash);
  auto file = readFile(path);
  if (!file || !checkDigest(hash, file->getBuffer()))
    return std::nullopt;
  noteUse(path);
  return path;
}

std::optional<std::string> FileCache::read(llvm::StringRef hash) const {
  if (folder.empty())
    return std::nullopt;
  std::string path = getPath(hash);
  auto file = readFile(path);
  auto bytes = file ? checkDigest(hash, file->getBuffer()) : std::nullopt;
  if (!bytes)
    return std::nullopt;
  noteUse(path);
  return bytes->str();
}

static std::optional<std::string>
writeFile(llvm::StringRef model, llvm::StringRef name, llvm::StringRef object) {
  int descriptor;
  llvm::SmallString<128> path;
  if (llvm::sys::fs::createUniqueFile(
          model, descriptor, path, llvm::sys::fs::OF_None,
          llvm::sys::fs::owner_read | llvm::sys::fs::owner_write))
    return std::nullopt;
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << object << getDigest(name, object);
  stream.close();
  if (!stream.has_error())
    return std::string(path);
  stream.clear_error();
  llvm::sys::fs::remove(path);
  return std::nullopt;
}

std::optional<std::string> FileCache::store(llvm::StringRef hash,
                                            llvm::StringRef bytes) const {
  if (folder.empty())
    return std::nullopt;
  std::string path = getPath(hash);
  std::optional<std::string> written =
      writeFile(path + ".%%%%%%%%.part", hash, bytes);
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

namespace {
struct Entry {
  std::filesystem::path path;
  uint64_t bytes;
  std::filesystem::file_time_type used;
};
} // namespace

/// Of files that other processes remove meanwhile nothing is said.
static std::vector<Entry> listFiles(const std::string &folder) {
  std::vector<Entry> entries;
  std::error_code error;
  std::filesystem::directory_iterator file(folder, error), end;
  for (; !error && file != end; file.increment(error)) {
    std::error_code unknown;
    if (!isOwnName(file->path().filename().string()) ||
        file->symlink_status(unknown).type() !=
            std::filesystem::file_type::regular)
      continue;
    Entry entry{file->path(), file->file_size(unknown),
                file->last_write_time(unknown)};
    if (!unknown)
      entries.push_back(std::move(entry));
  }
  return entries;
}

void FileCache::evict(uint64_t limit) const {
  if (folder.empty())
    return;
  std::vector<Entry> entries = listFiles(folder);
  llvm::sort(entries, [](const Entry &a, const Entry &b) {
    return std::tie(a.used, a.path) < std::tie(b.used, b.path);
  });
  uint64_t bytes = 0;
  for (const Entry &entry : entries)
    bytes += entry.bytes;
  auto youngest = std::filesystem::file_time_type::clock::now() - kYoungest;
  for (const Entry &entry : entries) {
    if (bytes <= limit || entry.used > youngest)
      return;
    std::error_code ignored;
    std::filesystem::remove(entry.path, ignored);
    bytes -= entry.bytes;
  }
}

std::optional<std::string>
tandem::writeTemporaryObject(llvm::StringRef object) {
  llvm::SmallString<128> model;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, model);
  llvm::sys::path::append(model, "tandem-%%%%%%%%.o");
  return writeFile(model, /*name=*/"", object);
}
