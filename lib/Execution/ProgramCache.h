//===- ProgramCache.h - compiled steps on disk ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a compilation of the same text with the same options, files, compiler
// and CPU has found before. Beside the kernels (Conversion/Kernels/Cache.h).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_PROGRAMCACHE_H
#define TANDEM_LIB_EXECUTION_PROGRAMCACHE_H

#include "tandem/Conversion/Kernels/Cache.h"
#include "tandem/Execution/Compile.h"

namespace tandem {

class ProgramCache {
public:
  /// For one compilation. Does nothing unless the options say `usesCache`, and
  /// for one whose results are more than a Program and its reports: IR,
  /// comparisons and files that it writes.
  ProgramCache(std::string_view text, std::string_view name,
               const CompileOptions &options);

  /// False, with one line in `error`, if others may write to the folder, or its
  /// limit is no number.
  bool check(std::string &error) const;
  bool lookup(CompiledProgram &result) const;
  /// Keeps the result, and the folder below its limit.
  void store(const CompiledProgram &result) const;

private:
  FileCache files;
  /// Empty: nothing is looked up.
  std::string key;
};

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_PROGRAMCACHE_H
