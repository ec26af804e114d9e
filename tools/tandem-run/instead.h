//===- instead.h - what is done in place of a run ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_RUN_INSTEAD_H
#define TANDEM_TOOLS_TANDEM_RUN_INSTEAD_H

#include "tandem_rt/status.h"

namespace tandem::run {

/// With `--device sim` becomes the program tandem-simulate, which lies beside
/// this one and reads cluster files; with `--replan-order` tandem-replan.
/// Returns if there is no such option, or with an error.
rt::Status runInstead(int argc, char **argv);

} // namespace tandem::run

#endif // TANDEM_TOOLS_TANDEM_RUN_INSTEAD_H
