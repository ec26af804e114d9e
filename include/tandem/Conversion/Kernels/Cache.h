//===- Cache.h - cache of compiled kernels ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A folder of files by the hash of what they were made from: objects of
// kernels, whole Programs (Execution), and captures (capture_cache.py). They
// are code: only files of this user are read, from a folder that only this user
// writes (docs/security.md).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_KERNELS_CACHE_H
#define TANDEM_CONVERSION_KERNELS_CACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tandem {

/// 128 bits of SHA-256 of the parts, as hexadecimal digits.
std::string hashText(llvm::ArrayRef<llvm::StringRef> parts);

/// $TANDEM_CACHE_DIR, else $XDG_CACHE_HOME/tandem, else ~/.cache/tandem; empty,
/// and nothing is kept, without a home and where $TANDEM_CACHE_DIR is empty.
std::string getDefaultCacheDirectory();

/// Bytes that the folder may have: $TANDEM_CACHE_MB (of 10^6 bytes), else 4
/// GB. None, with one line in `error`, if that is no number.
std::optional<uint64_t> getCacheLimit(std::string &error);

/// The folder within `directory` whose files are the cache's own. Nobody else's
/// are looked at, or evicted.
inline constexpr const char *kCacheFolder = "compiled";

/// Whether nobody else can put files there: the folder is this user's, and only
/// this user writes it; `directory` is this user's or root's, and not everybody
/// writes it, but with the sticky bit. What is not there yet is made so. False
/// with one line in `error`.
bool checkCacheDirectory(const std::string &directory, std::string &error);

/// Several processes may use a folder at once: a file appears whole, by
/// renaming. A file whose checksum is wrong, that is another user's, that
/// others may write, or that is a link is ignored. Where the folder cannot be
/// written, or is not safe (checkCacheDirectory), nothing is kept.
class FileCache {
public:
  /// Files used so recently stay, whatever the limit: who asked for one may
  /// still be about to read it.
  static constexpr std::chrono::minutes kYoungest{10};

  /// An empty `directory` keeps nothing. Names are hashes (hashText()),
  /// with `tandem_` in front and `-parts` behind them or not, and `suffix`.
  FileCache(std::string directory, std::string suffix);

  /// The path of a sound file, if there is one; the file counts as used now.
  /// Its last bytes are the checksum.
  std::optional<std::string> lookup(llvm::StringRef hash) const;
  /// What was stored.
  std::optional<std::string> read(llvm::StringRef hash) const;
  /// The path of the stored file; none where it could not be stored.
  std::optional<std::string> store(llvm::StringRef hash,
                                   llvm::StringRef bytes) const;

  /// Removes files of any suffix that have the names of this cache, those first
  /// that were not used for the longest time, until all together have at most
  /// `limit` bytes.
  void evict(uint64_t limit) const;

private:
  std::string getPath(llvm::StringRef hash) const;
  /// Empty: nothing is kept.
  std::string folder;
  std::string suffix;
};

/// The bytes of an object that one of these has written.
std::optional<std::string> readObject(llvm::StringRef path);

/// Writes an object for the linker where there is no cache.
std::optional<std::string> writeTemporaryObject(llvm::StringRef object);

} // namespace tandem

#endif // TANDEM_CONVERSION_KERNELS_CACHE_H
