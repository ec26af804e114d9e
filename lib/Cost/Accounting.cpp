//===- Accounting.cpp - rules that differ by accounting -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Accounting.h"
#include "HidupCost.h"

using namespace tandem::cost;

double AccountingRules::getComputation() const {
  double seconds = 0;
  for (const StagePass &pass : passes)
    seconds += pass.computation;
  return kStagePassStrands * seconds;
}

const AccountingRules &tandem::cost::getRules(Accounting accounting) {
  static const AccountingRules timeLine;
  return accounting == Accounting::Tandem || accounting == Accounting::Oases
             ? timeLine
             : getHidupRules(accounting);
}

bool tandem::cost::checkAccounting(const SearchProblem &problem,
                                   std::string &error) {
  if (problem.accounting == Accounting::Oases) {
    error = "the problem has the accounting oases: use the search oases";
    return false;
  }
  return problem.accounting == Accounting::Tandem ||
         checkHidupProblem(problem, error);
}
