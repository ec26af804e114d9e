//===- problem.cpp - search problems --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "tandem/Cost/Cost.h"

using namespace tandem;
using namespace tandem::cost;

/// A problem that is read prints as one that reads to the same; the plan of all
/// first signatures in one stage has a cost, or the reason why not.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error;
  auto problem = parseSearchProblem(fuzz::asText(data, size), "problem", error);
  if (!problem) {
    fuzz::expectError(error);
    return 0;
  }
  std::string printed = print(*problem);
  auto again = parseSearchProblem(printed, "printed", error);
  fuzz::expect(again.has_value(), error);
  fuzz::expect(print(*again) == printed,
               "found another problem when read again");
  Plan plan;
  plan.signatures.assign(problem->operators.size(), 0);
  plan.stageEnds = {static_cast<unsigned>(problem->operators.size())};
  if (!derive(*problem, plan, error))
    fuzz::expectError(error);
  return 0;
}
