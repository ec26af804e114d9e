//===- access.h - accesses of commands --------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_ACCESS_H
#define TANDEM_RT_CORE_ACCESS_H

#include "tandem_rt/program.h"

#include <span>

namespace tandem::rt {

/// What the bytes of a write hold after it: all have a value; those between
/// strided elements keep theirs; none has one that may be read.
enum class Defines { All, Elements, Nothing };

struct Access {
  const BufferRef *ref;
  bool write;
  Defines defines = Defines::All; ///< Of a write.
  /// Of the elements, where the command has one.
  std::optional<ElementType> type = {};
};

/// Reads before writes, as a command does them; the workspace is written and
/// holds nothing afterwards. A Repeat touches nothing itself: its body does.
std::vector<Access> accessesOf(const Command &command);

/// The axes of the group that does a collective or a combined check together;
/// empty for every other command.
const std::vector<uint32_t> &groupAxes(const Operation &operation);

/// Whether a command may write there. What is only read has no hazards.
bool canBeWritten(const Program &program, const BufferRef &ref);

/// Program::evaluate() at `point`, the coordinates of a rank; nothing if 64
/// bits do not hold it.
std::optional<int64_t> evaluateChecked(const Affine &value,
                                       std::span<const int64_t> point,
                                       int64_t iteration);

/// The local shape of a collective's destination for a group of n ranks.
Shape destinationShape(const Collective &collective, int64_t n);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_ACCESS_H
