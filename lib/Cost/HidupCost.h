//===- HidupCost.h - the accountings of HiDup -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The accountings `hidup-serial` and `hidup-overlapped` (docs/plan-files.md):
// HiDup's cost model (Zhang et al., SoCC 2022, section 4.2, equations 4 and 5)
// on the forward graph, with the backward pass as the published searcher adds
// it. Two strands, one space axis.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COST_HIDUPCOST_H
#define TANDEM_LIB_COST_HIDUPCOST_H

#include "tandem/Cost/Accounting.h"
#include "tandem/Cost/Cost.h"
#include "tandem/Cost/Hidup.h"

namespace tandem::cost {

/// The rules of a `hidup-*` accounting.
const AccountingRules &getHidupRules(Accounting accounting);

/// `cost` under a `hidup-*` accounting. `seconds` and `changes` are filled in;
/// there are no slots (the total is no time line of equal steps), and the peak
/// is 0: the model knows no memory.
std::optional<CostReport> costHidup(const SearchProblem &problem,
                                    const Plan &plan, std::string &error);

} // namespace tandem::cost

#endif // TANDEM_LIB_COST_HIDUPCOST_H
