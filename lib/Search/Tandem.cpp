//===- Tandem.cpp - Tandem's own search -----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemDriver.h"

using namespace tandem::cost;
using namespace tandem::search;

SearchResult tandem::search::searchTandem(const SearchProblem &problem,
                                          const SearchOptions &options) {
  if (problem.accounting != Accounting::Tandem)
    return searchHidup(problem, options);
  if (problem.operators.empty()) {
    SearchResult result;
    result.error = "the problem has no operators, expected some";
    return result;
  }
  return Driver(problem, options).run();
}
