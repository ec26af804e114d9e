//===- oracle.h - order of a Program by brute force -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_ORACLE_H
#define TANDEM_RT_CTS_ORACLE_H

#include "tandem_rt/program.h"

namespace tandem::rt::cts {

/// What verifyHazards() finds, found by comparing every two commands of every
/// two iterations, byte by byte, on a rank. Empty if nothing is wrong. Commands
/// must be right by themselves.
std::string findDisorder(const Program &program, int64_t rank = 0);

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_ORACLE_H
