//===- numbers.h - search for numbers that are not finite -------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks at what a command reads and writes, to name the first one that makes a
// number which is not finite of operands that are.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_NUMBERS_H
#define TANDEM_RT_CORE_NUMBERS_H

#include "core/access.h"
#include "tandem_rt/status.h"

#include <functional>
#include <vector>

namespace tandem::rt {

/// Whether TANDEM_CHECK asks for it. The error says what it may be.
Expected<bool> isNumberCheckAsked();
/// What an option or TANDEM_CHECK may be: "nan".
Status checkKindOfCheck(std::string_view name, std::string_view value);

/// Whether it sums what other ranks give, so that finite operands of this one
/// do not say where a number comes from that is not.
bool sumsOverRanks(const Command &command);

/// Around one run of one command. Of movements sums alone are looked at, by all
/// members together.
class NumberCheck {
public:
  /// Copies the bytes of a reference to the host.
  using Fetch = std::function<Status(const BufferRef &ref, char *to)>;

  /// Before the command. Both live until end().
  Status begin(const Program &program, const Command &command,
               const Fetch &fetch);
  /// Whether an operand is not finite, here or, by `taint`, on another member.
  bool hasTaint() const { return isTainted; }
  void taint() { isTainted = true; }
  /// After it. The error says which element of what it wrote is not finite, and
  /// what the operands were.
  Status end(const Fetch &fetch);

private:
  struct Operand {
    Access access;
    std::vector<char> bytes;
  };
  std::string describeOperands(const Operand &made, int64_t element) const;
  int64_t findMade(const Operand &before, const std::vector<char> &after) const;

  std::string describe(const Access &access) const;

  const Program *program = nullptr;
  const Command *command = nullptr;
  /// Whether an operand is not finite; of a kernel of several launches, of any.
  bool isTainted = false;
  std::vector<Operand> reads, writes;
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_NUMBERS_H
