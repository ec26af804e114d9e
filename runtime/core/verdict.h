//===- verdict.h - verdict of checks ----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_VERDICT_H
#define TANDEM_RT_CORE_VERDICT_H

#include "tandem_rt/program.h"

namespace tandem::rt {

/// What one rank has seen. The members of a group tell each other.
enum class Verdict : int32_t { Fine = 0, Nan = 1, Infinite = 2, Untrue = 3 };

/// The first element that is not as `check` wants it; `data` is the host's, the
/// source of the check.
Verdict judge(const Check &check, const char *data);

/// The refusal, or success.
Status describe(const Check &check, Verdict verdict);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_VERDICT_H
