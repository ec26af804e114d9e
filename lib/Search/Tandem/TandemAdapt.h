//===- TandemAdapt.h - a plan's decisions for other signatures --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a change of few forms costs shows without a new search for stages: the
// stages stay, with the cuts that new copies need, and so do the decisions on
// copies, as far as there still are such copies.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEMADAPT_H
#define TANDEM_LIB_SEARCH_TANDEMADAPT_H

#include "TandemForms.h"

namespace tandem::search {

class PlanAdapter {
public:
  PlanAdapter(const Facts &facts, cost::ChangeTable &table)
      : facts(facts), forms(facts, table) {}

  /// Sets the plan whose decisions `adapt` takes over.
  void setModel(const cost::Plan &plan);

  /// A plan with these signatures; its derived fields are empty. Nothing if
  /// some operand cannot be brought into its layout.
  std::optional<cost::Plan> adapt(const std::vector<unsigned> &signatures);

private:
  void placeCuts(cost::Plan &plan) const;

  const Facts &facts;
  FixedForms forms;
  std::vector<unsigned> stageEnds;
  /// Copies that the model could keep or let wait, but does not.
  std::vector<cost::Copy> dropped, hurried;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEMADAPT_H
