//===- PlanVariants.h - plans that give tensors other forms -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Local estimates, far cheaper than a search: a form is forced upon tensors of
// a plan, and what lies next to them adapts by the relaxed cost
// (docs/rationale/search.md). What a variant costs only `cost` knows.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_PLANVARIANTS_H
#define TANDEM_SEARCH_PLANVARIANTS_H

#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Plan.h"
#include <memory>

namespace tandem::search {

/// Whether the operator copies a value that waited on the host, where tensors
/// take no bytes.
bool isFetched(const cost::SearchProblem &problem, unsigned op);

class PlanVariants {
public:
  /// `plan`: a legal one, under the accounting `tandem`. All three have to
  /// outlive the object.
  PlanVariants(const cost::SearchProblem &problem, const cost::Plan &plan,
               cost::ChangeTable &table);
  ~PlanVariants();

  /// Layouts that the tensor can have, but for the plan's, by what they add to
  /// the relaxed cost, the least first.
  std::vector<cost::Layout> listLayouts(unsigned tensor) const;
  /// The signatures of all operators with the layout forced upon those of the
  /// tensors that can have it. Of repeated layers, which are alike, the one
  /// that stands for all changes.
  std::vector<unsigned> force(const std::vector<unsigned> &tensors,
                              const cost::Layout &layout);
  /// About how many numbers `force` has looked at so far.
  uint64_t getWork() const;

  /// The plan with other signatures, its own stages with the cuts that new
  /// copies need, and its decisions on copies; nothing if that is no plan. The
  /// memory limit is not looked at.
  std::optional<cost::Plan> keepStages(const std::vector<unsigned> &signatures);

  struct Divided {
    /// Nothing if none fits.
    std::optional<cost::Plan> plan;
    /// The least memory of those that were looked at, in B.
    int64_t leastPeak;
  };
  /// The signatures with which readers make the tensors again that they can: of
  /// what is held; if `isDeep`, what would be held for that alone is made
  /// again, too. Without tensors those of the plan, but that all readers of a
  /// value have one source.
  std::vector<unsigned> makeAgain(const std::vector<unsigned> &tensors,
                                  bool isDeep) const;
  /// The signatures with which readers take those of the tensors from the host
  /// that may wait there.
  std::vector<unsigned> send(const std::vector<unsigned> &tensors) const;

  /// The best plan of these signatures, with new stages and copies.
  Divided divide(const std::vector<unsigned> &signatures) const;

private:
  class Estimate;
  std::unique_ptr<Estimate> estimate;
};

} // namespace tandem::search

#endif // TANDEM_SEARCH_PLANVARIANTS_H
