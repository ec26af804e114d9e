//===- plan.cpp - plans of a search problem -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "tandem/Search/Search.h"
#include <fstream>
#include <sstream>

using namespace tandem;
using namespace tandem::cost;

static SearchProblem readProblem() {
  std::stringstream text;
  text << std::ifstream(TANDEM_FUZZ_PROBLEM).rdbuf();
  std::string error;
  auto problem = parseSearchProblem(text.str(), TANDEM_FUZZ_PROBLEM, error);
  fuzz::expect(problem.has_value(), error);
  return *problem;
}

/// Whatever plan is read is verified without a mistake of the verifier, and
/// prints as one that reads to the same.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const SearchProblem problem = readProblem();
  std::string error;
  auto plan = parsePlan(problem, fuzz::asText(data, size), "plan", error);
  if (!plan) {
    fuzz::expectError(error);
    return 0;
  }
  if (!search::verifyPlan(problem, *plan, error))
    fuzz::expectError(error);
  if (!derive(problem, *plan, error, LimitUse::Ignore)) {
    fuzz::expectError(error);
    return 0;
  }
  std::string printed = print(problem, *plan);
  auto again = parsePlan(problem, printed, "printed", error);
  fuzz::expect(again.has_value(), error);
  fuzz::expect(print(problem, *again) == printed, "found another plan");
  return 0;
}
