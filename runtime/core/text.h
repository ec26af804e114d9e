//===- text.h - words for messages ------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_TEXT_H
#define TANDEM_RT_CORE_TEXT_H

#include "tandem_rt/program.h"

#include <string>

namespace tandem::rt {

/// Joins anything that std::string can append or std::to_string can print.
inline void appendText(std::string &text, const std::string &piece) {
  text += piece;
}
inline void appendText(std::string &text, std::string_view piece) {
  text += piece;
}
inline void appendText(std::string &text, const char *piece) { text += piece; }
template <typename T>
  requires std::is_arithmetic_v<T>
void appendText(std::string &text, T piece) {
  text += std::to_string(piece);
}

template <typename... Pieces> std::string concat(const Pieces &...pieces) {
  std::string text;
  (appendText(text, pieces), ...);
  return text;
}

template <typename... Pieces> Status errorOf(const Pieces &...pieces) {
  return Status::error(concat(pieces...));
}

/// "[4, 8]".
std::string shapeText(const Shape &shape);
/// "arena 0 [128, 4224)", "argument 'parameter/w' [0, 64)".
/// `argument 'parameter/w'`, `arena 0`.
std::string spaceText(const Program &program, const BufferRef &ref);

std::string bufferText(const Program &program, const BufferRef &ref,
                       int64_t rank, int64_t iteration = 0);
/// "command 12 'gelu' (model.py:3)".
std::string commandText(const Command &command);
/// What reported an index: "lookup (model.py:7): ". `Launch::sites` has nothing
/// of it where the name and line of the command say it all.
std::string siteText(const Launch &launch, uint64_t site);
std::string_view memoryKindName(MemoryKind kind);
std::string_view codeKindName(CodeKind kind);
/// "data: gather(0), model: reduce, time(0): 2", or "full".
std::string formText(const Program &program, const Form &form);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_TEXT_H
