//===- OasesCost.h - the accounting of Oases --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COST_OASESCOST_H
#define TANDEM_LIB_COST_OASESCOST_H

#include "tandem/Cost/Cost.h"
#include "tandem/Cost/Oases.h"

namespace tandem::cost {

std::optional<CostReport> costOases(const SearchProblem &problem,
                                    const Plan &plan, std::string &error);

} // namespace tandem::cost

#endif // TANDEM_LIB_COST_OASESCOST_H
