//===- Cache.h - compiled kernels on disk -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_CACHE_H
#define TANDEM_LIB_CONVERSION_KERNELS_CACHE_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace tandem {

/// 128 bits of SHA-256 of the parts, as hexadecimal digits.
std::string hashText(llvm::ArrayRef<llvm::StringRef> parts);

/// A folder of objects by hash. Several processes may use it at once: a file
/// appears whole, by renaming. A file whose checksum is wrong is ignored. Where
/// the folder cannot be written, nothing is kept.
class KernelCache {
public:
  /// An empty `directory` is the default one (`KernelOptions`).
  explicit KernelCache(std::string directory);

  /// The path of a sound object, if there is one.
  std::optional<std::string> lookup(llvm::StringRef hash) const;
  /// The path of the stored object; none where it could not be stored.
  std::optional<std::string> store(llvm::StringRef hash,
                                   llvm::StringRef object) const;

private:
  std::string getPath(llvm::StringRef hash) const;
  std::string directory;
};

/// The bytes of an object that one of these has written.
std::optional<std::string> readObject(llvm::StringRef path);

/// Writes an object for the linker where there is no cache.
std::optional<std::string> writeTemporaryObject(llvm::StringRef object);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_CACHE_H
