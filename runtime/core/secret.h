//===- secret.h - secret of a job -------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_SECRET_H
#define TANDEM_RT_CORE_SECRET_H

#include "core/bootstrap.h"

namespace tandem::rt {

/// TANDEM_JOB_SECRET, of 16 characters or more; without it that of the user, a
/// file that nobody else can read: $XDG_CONFIG_HOME/tandem/job-secret, else
/// ~/.config/tandem/job-secret, made when it is first asked for. Processes on
/// hosts with one home share it. Fails where a file is another user's, or open
/// to others, and where none can be kept.
Expected<std::string> secretFrom(const Environment &environment);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_SECRET_H
