//===- random_program.h - random Programs -----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_RANDOM_PROGRAM_H
#define TANDEM_RT_CTS_RANDOM_PROGRAM_H

#include "tandem_rt/program_builder.h"

#include <random>

namespace tandem::rt::cts {

/// A Program that verifies: one to four queues, up to three axes, launches,
/// products, collectives over one and more axes, a Repeat, checks, an update.
/// Its numbers are whole and small enough to be exact in any order of sums.
/// Arguments are input/x and parameter/w, f32, and input/flags, i1, split over
/// all ranks: 64 and 16 numbers and one flag each.
ProgramBuilder randomProgram(unsigned seed);

/// Changes one thing of a rank program: a command is left out, doubled, moved
/// to another place or queue, touches other bytes, waits for another event, or
/// a Repeat has another count. Returns what was done.
std::string mutate(Program &program, std::mt19937 &random);

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_RANDOM_PROGRAM_H
