//===- narrowed.h - f32 with few bits ---------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_NARROWED_H
#define TANDEM_RT_CTS_NARROWED_H

#include <cstdlib>

namespace tandem::rt::cts {

/// Whether the suite is run with factors of f32 that have 10 bits (TF32).
inline bool hasTf32() { return std::getenv("TANDEM_TF32") != nullptr; }

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_NARROWED_H
