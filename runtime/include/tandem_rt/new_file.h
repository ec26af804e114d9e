//===- new_file.h - files that are there whole or not at all ----*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_NEW_FILE_H
#define TANDEM_RT_NEW_FILE_H

#include "tandem_rt/status.h"

#include <fstream>
#include <string>

namespace tandem::rt {

/// A name beside a path that no other process or thread takes, of this host or
/// of another one with the same file system.
std::string nameBeside(const std::string &path);

/// A file that takes its place only when it is whole: written beside it, and
/// renamed. What is no regular file (a pipe, a device) is written as it is; of
/// a link, what it names. Several may be written to one path at a time: the
/// last that is finished stays.
class NewFile {
public:
  explicit NewFile(std::string path);
  NewFile(const NewFile &) = delete;
  /// What was not finished leaves nothing.
  ~NewFile();

  std::ostream &stream() { return file; }
  /// The first error so far, with the path: at the beginning, whether it can be
  /// written at all.
  Status check();
  /// Gives the file its name; after an error there is none.
  Status finish();

private:
  const std::string path; ///< As the user calls it.
  std::string place, written;
  std::ofstream file;
  Status failure;
};

} // namespace tandem::rt

#endif // TANDEM_RT_NEW_FILE_H
