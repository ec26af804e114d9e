//===- values.h - sources of arguments and batches --------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_RUN_VALUES_H
#define TANDEM_TOOLS_TANDEM_RUN_VALUES_H

#include "tandem_rt/safetensors.h"
#include "tandem_rt/session.h"

namespace tandem::run {

/// "parameter/layers.0.weight".
std::string keyOf(const rt::Whole &argument);
/// "batch.3/tokens".
std::string batchKey(int64_t batch, const rt::Whole &input);

/// Number of batches in a file that hold every input of the program. A gap in
/// their numbers is an error.
rt::Expected<int64_t> countBatches(const rt::Session &session,
                                   const rt::SafetensorsFile &file);

/// Says on standard error which values of a file the program does not use: the
/// name may be one that is not quite right.
void printUnused(const rt::Session &session, const rt::SafetensorsFile &file);

/// Sets every argument but the inputs from a file.
rt::Status setFromFile(rt::Session &session, const rt::SafetensorsFile &file);

/// Sets the inputs to one batch of a file.
rt::Status setBatch(rt::Session &session, const rt::SafetensorsFile &file,
                    int64_t batch);

/// Whether this process has rank 0: it prints and saves, for all.
bool isFirst(const rt::Session &session);

/// Sets all arguments, inputs too, from a fixed seed and their names: uniform
/// in the range that was recorded; without one parameters and inputs are small
/// numbers, learning rates 0.001 and the rest zero. Step counts start at zero.
rt::Status setSeeded(rt::Session &session);

/// Writes every argument but the inputs, whole, and the batches of `file`.
/// Every process takes part, the first one writes.
rt::Status saveValues(const rt::Session &session,
                      const rt::SafetensorsFile *file, const std::string &path);

} // namespace tandem::run

#endif // TANDEM_TOOLS_TANDEM_RUN_VALUES_H
