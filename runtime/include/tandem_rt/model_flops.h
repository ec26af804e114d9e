//===- model_flops.h - what the model's products compute --------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Predictions read it in the file of a Program; nothing that runs one does, so
// it is no part of the Program in memory.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_MODEL_FLOPS_H
#define TANDEM_RT_MODEL_FLOPS_H

#include "tandem_rt/program.h"

namespace tandem::rt {

/// Operations of the model's products on elements of one type, in a step of the
/// whole batch: of forward and backward pass, each product once, whatever ranks
/// repeat and what is computed again.
struct ModelFlops {
  ElementType type = ElementType::F32;
  double flops = 0;
};

/// As `serializeProgram`, with the products of its model, one entry per type.
Bytes serializeProgram(const Program &program,
                       const std::vector<ModelFlops> &flops);

/// What a file was serialized with; empty where nobody counted. An error if it
/// is no whole Program, or says what no model computes.
Expected<std::vector<ModelFlops>>
readModelFlops(std::span<const uint8_t> bytes);

} // namespace tandem::rt

#endif // TANDEM_RT_MODEL_FLOPS_H
