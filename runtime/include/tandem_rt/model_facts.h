//===- model_facts.h - what a step computes, and of what --------*- C++ -*-===//
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

#ifndef TANDEM_RT_MODEL_FACTS_H
#define TANDEM_RT_MODEL_FACTS_H

#include "tandem_rt/program.h"

namespace tandem::rt {

/// Operations of the model's products on elements of one type, in a step of the
/// whole batch: of forward and backward pass, each product once, whatever ranks
/// repeat and what is computed again.
struct ModelFlops {
  ElementType type = ElementType::F32;
  double flops = 0;
};

/// What the compiler counted in the captured step.
struct ModelFacts {
  std::vector<ModelFlops> flops = {}; ///< One entry per type.
  /// Positions of all sequences of the batch; 0: it has no sequences.
  int64_t tokens = 0;
};

/// As `serializeProgram`, with facts about its model.
Bytes serializeProgram(const Program &program, const ModelFacts &facts);

/// What a file was serialized with; empty where nobody counted. An error if it
/// is no whole Program, or says what no model computes.
Expected<ModelFacts> readModelFacts(std::span<const uint8_t> bytes);

} // namespace tandem::rt

#endif // TANDEM_RT_MODEL_FACTS_H
