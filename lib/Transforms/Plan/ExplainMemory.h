//===- ExplainMemory.h - what does not fit into memory ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_EXPLAINMEMORY_H
#define TANDEM_LIB_TRANSFORMS_PLAN_EXPLAINMEMORY_H

#include "tandem/Search/Search.h"
#include "llvm/ADT/ArrayRef.h"

namespace tandem::plan {

/// Why a search made no plan, as the end of an error: what is held at least,
/// by how much that exceeds the limit, the largest tensors with their source
/// lines, and what makes less of them. Of the smallest plan it is what is held
/// at its peak. `updated` names what operators update on the host: a bucket of
/// it may be what does not fit.
std::string explainNoPlan(const cost::SearchProblem &problem,
                          const search::SearchResult &result,
                          llvm::ArrayRef<std::string> updated);

/// `; largest: 'nn.softmax#17' at model.py:12 (made) 1 MB, ...`: what a legal
/// plan holds at its peak.
std::string listLargestAtPeak(const cost::SearchProblem &problem,
                              const cost::Plan &plan);

/// The same of one plan, which has been derived: what it holds at its peak.
std::string explainTooLarge(const cost::SearchProblem &problem,
                            const cost::Plan &plan,
                            llvm::ArrayRef<std::string> updated = {});

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_EXPLAINMEMORY_H
