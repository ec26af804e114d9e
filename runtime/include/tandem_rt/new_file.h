//===- new_file.h - atomic files --------------------------------*- C++ -*-===//
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
#include <string_view>
#include <vector>

namespace tandem::rt {

/// A name beside a path that no other process or thread takes, of this host or
/// of another one with the same file system.
std::string nameBeside(const std::string &path);

/// What an output is for people, and whether a file is one that begins with
/// these bytes, the first 16 MiB.
struct FileKind {
  std::string_view name;
  bool (*isOne)(std::string_view begin);
};

inline constexpr FileKind kTimelineFile{
    "a timeline", [](std::string_view begin) {
      return begin.starts_with("{\"displayTimeUnit\":\"ms\",\"tandem\":");
    }};
/// Of command times, by whatever program.
inline constexpr FileKind kTimesFile{
    "a table of seconds", [](std::string_view begin) {
      return begin.starts_with("{") &&
             begin.find("\"program\"") != begin.npos &&
             begin.find("\"seconds\"") != begin.npos;
    }};
inline constexpr FileKind kStatsFile{
    "statistics of steps",
    [](std::string_view begin) { return begin.starts_with("{\"ranks\": ["); }};
inline constexpr FileKind kPictureFile{
    "a picture of a timeline", [](std::string_view begin) {
      return begin.starts_with("<svg ") &&
             begin.find("<pattern id=\"late\"") != begin.npos;
    }};
inline constexpr FileKind kProgramFile{"a Program", [](std::string_view begin) {
                                         return begin.size() >= 8 &&
                                                begin.substr(4, 4) == "TDMP";
                                       }};
/// Safetensors with the arguments of a step, by role and name.
inline constexpr FileKind kValuesFile{
    "the values of a step", [](std::string_view begin) {
      for (std::string_view role : {"parameter", "buffer", "state", "seed"})
        if (begin.find("\"" + std::string(role) + "/") != begin.npos)
          return begin.find("{\"") == 8;
      return begin.find("{}") == 8;
    }};

/// A file that takes its place only when it is whole: written beside it, and
/// renamed. It replaces an empty file or one of its kind, and nothing else. A
/// pipe or a device is written as it is; of a link, what it names. Several may
/// be written to one path at a time: the last that is finished stays.
class NewFile {
public:
  NewFile(std::string path, const FileKind &kind);
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
  Status findPlace(const FileKind &kind);

  const std::string path; ///< As the user calls it.
  std::string place;
  std::string written; ///< Empty where nothing may be.
  std::ofstream file;
  Status failure;
};

/// Whether `path` may become a new file of this kind, and is none of the files
/// `inputs`, by whatever name. For what is asked before the work: leaves
/// nothing. An empty path is no output, and no input.
Status checkOutput(const std::string &path, const FileKind &kind,
                   const std::vector<std::string> &inputs = {});

} // namespace tandem::rt

#endif // TANDEM_RT_NEW_FILE_H
