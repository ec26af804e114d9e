//===- Cache.h - what was compiled, on disk ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A folder of files by the hash of what they were made from: objects of
// kernels, and whole Programs (Execution).
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

/// Several processes may use a folder at once: a file appears whole, by
/// renaming. A file whose checksum is wrong is ignored. Where the folder cannot
/// be written, nothing is kept.
class FileCache {
public:
  /// Files used so recently stay, whatever the limit: who asked for one may
  /// still be about to read it.
  static constexpr std::chrono::minutes kYoungest{10};

  /// An empty `directory` keeps nothing. Names are hashes with `suffix`.
  FileCache(std::string directory, std::string suffix);

  /// The path of a sound file, if there is one; the file counts as used now.
  /// Its last bytes are the checksum.
  std::optional<std::string> lookup(llvm::StringRef hash) const;
  /// What was stored.
  std::optional<std::string> read(llvm::StringRef hash) const;
  /// The path of the stored file; none where it could not be stored.
  std::optional<std::string> store(llvm::StringRef hash,
                                   llvm::StringRef bytes) const;

  /// Removes files of any suffix, those first that were not used for the
  /// longest time, until all together have at most `limit` bytes.
  void evict(uint64_t limit) const;

private:
  std::string getPath(llvm::StringRef hash) const;
  std::string directory, suffix;
};

/// The bytes of an object that one of these has written.
std::optional<std::string> readObject(llvm::StringRef path);

/// Writes an object for the linker where there is no cache.
std::optional<std::string> writeTemporaryObject(llvm::StringRef object);

} // namespace tandem

#endif // TANDEM_CONVERSION_KERNELS_CACHE_H
