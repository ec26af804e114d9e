//===- TextFile.h - text files with limits ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever is read of a user goes through here: an endless file ends at a
// limit, a folder is no file, and brackets in brackets end before the stack of
// a parser does. The lowest room: no MLIR and no LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_TEXTFILE_H
#define TANDEM_SUPPORT_TEXTFILE_H

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Bytes: some million operators.
inline constexpr size_t kMaxTextBytes = size_t(1) << 28;
/// Brackets in brackets, and operators of an affine expression in a row: MLIR's
/// parser calls itself for each. What we write has less than twenty.
inline constexpr unsigned kMaxNesting = 256;
/// Characters of a text whose aliases are written out, as printers do that have
/// no name for them: each may name the one before twice.
inline constexpr size_t kMaxWrittenBytes = size_t(1) << 30;

/// The content of the file, of standard input for `-`. None, with the reason in
/// `error` and without the path, if it cannot be read or is larger than
/// `limit`.
std::optional<std::string> readTextFile(const std::string &path,
                                        std::string &error,
                                        size_t limit = kMaxTextBytes);

/// What a file of ours is for people, and whether one is that begins with these
/// bytes, the first 16 MiB.
struct FileKind {
  std::string_view name;
  bool (*isOne)(std::string_view begin);
};

extern const FileKind kProblemFile;
/// Of a step and of a search problem.
extern const FileKind kPlanFile;
extern const FileKind kExplanationFile;
extern const FileKind kProgramFile;
/// Of MLIR, as text or bytecode.
extern const FileKind kModuleFile;
/// Safetensors with arguments or results of a step, by role and name.
extern const FileKind kValuesFile;

/// Whether an output of this kind may take a place: of nothing, of an empty
/// file or of one of its kind that is none of the files `inputs`, by whatever
/// name. A FIFO or a terminal has no place, and is written to. Else false, with
/// the reason in `error`. An empty path is no output, and no input.
bool mayReplace(const std::string &path, const FileKind &kind,
                std::string &error,
                const std::vector<std::string> &inputs = {});

/// Writes the file beside its place, which it then takes (`mayReplace`), so
/// that it is never seen half written. Else false, with the reason in `error`.
bool writeTextFile(const std::string &path, const FileKind &kind,
                   std::string_view text, std::string &error);

/// A place in a text where brackets stand deeper in one another than
/// `kMaxNesting`, or up to which it has more than `kMaxWrittenBytes`.
struct DeepPlace {
  /// From 1.
  unsigned line = 1;
  /// What stands there, for people.
  std::string message;
};

/// The first such place in MLIR or JSON, whose strings and comments are
/// skipped. In MLIR an alias counts with what it names.
std::optional<DeepPlace> findDeepNesting(std::string_view text);

/// Whether a parser of MLIR may be given `text`, which came from `name`. Else
/// false, with one line in `error`: bytecode, which cannot be looked at, and
/// nesting that is too deep.
bool isParsable(std::string_view text, std::string_view name,
                std::string &error);

} // namespace tandem

#endif // TANDEM_SUPPORT_TEXTFILE_H
