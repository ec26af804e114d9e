//===- machine.h - what this machine is called ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_MACHINE_H
#define TANDEM_RT_MACHINE_H

#include <string>

namespace tandem::rt {

/// The model of this machine's CPU, as Linux names it.
std::string cpuName();

/// `AMD EPYC 9B14, 2 processors`: what a profile and a timeline say of the
/// machine that they were measured on.
std::string machineName();

} // namespace tandem::rt

#endif // TANDEM_RT_MACHINE_H
