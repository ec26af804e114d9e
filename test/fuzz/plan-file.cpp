//===- plan-file.cpp - plan files of a step -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "tandem/Execution/Compile.h"
#include <fstream>
#include <sstream>

using namespace tandem;

static std::string readStep() {
  std::stringstream text;
  text << std::ifstream(TANDEM_FUZZ_STEP).rdbuf();
  return text.str();
}

/// A plan file is applied to the step of the corpus, or refused.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string step = readStep();
  fuzz::MemoryFile file(fuzz::asText(data, size));
  CompileOptions options;
  options.mesh = "data=2,model=2";
  options.micro = 2;
  options.planFile = file.getPath();
  options.stopAfter = "shard";
  CompiledProgram program;
  std::string error;
  if (!compile(step, "step.mlir", options, program, error))
    fuzz::expectError(error);
  return 0;
}
